"""A pytest plugin for runs on mutants: how many examples each check looked at.

`-p conformance.mutants.counting --count-examples FILE` writes a line of JSON for each check.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from conformance.world import World


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--count-examples", type=Path, metavar="FILE", help="where the numbers go")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    world = getattr(item, "funcargs", {}).get("world")
    before = world.program.begun if isinstance(world, World) else 0
    try:
        return (yield)
    finally:
        if isinstance(world, World):
            _note(item, world.program.begun - before)


def _note(item: pytest.Item, examples: int) -> None:
    path: Path = item.config.getoption("--count-examples")
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"check": item.nodeid, "examples": examples}) + "\n")
