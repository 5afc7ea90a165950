"""A pytest plugin for runs on mutants: how many examples each check looked at, and the same ids every time.

`-p conformance.mutants.counting --count-examples FILE` writes a line of JSON for each check.
"""

from __future__ import annotations

import json
import random
from collections.abc import Generator
from pathlib import Path
from uuid import UUID

import pytest

from conformance.world import World
from memcore import types


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--count-examples", type=Path, metavar="FILE", help="where the numbers go")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    # A store that orders by ids which are random would be wrong at one check today and at another tomorrow.
    chance = random.Random(item.nodeid)
    vars(types)["uuid4"] = lambda: UUID(int=chance.getrandbits(128), version=4)


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
