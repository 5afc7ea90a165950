"""What pytest loads wherever this distribution is installed: the options, and nothing else.

The kit itself, with the drivers that it needs, is imported only in a session that asks for it, by `--backend`
or by the path of its checks; so it is no trouble to a project that does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

CHECKS = Path(__file__).with_name("clauses")
BUILT_IN = ("memory", "redis", "pgvector")
"""The reference backends."""
EXPLORING: dict[str, Any] = {"max_examples": 80}
"""What options say of explorations, as settings of Hypothesis; the checks read it when they are imported."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance", "memcore: conformance of agent-memory backends")
    group.addoption(
        "--backend",
        dest="conformance_backends",
        action="append",
        metavar="NAME",
        help=f"backend to check: {', '.join(BUILT_IN)}, or package.module:OBJECT; repeatable (default: all)",
    )
    group.addoption(
        "--level",
        dest="conformance_level",
        type=int,
        default=4,
        choices=(1, 2, 3, 4),
        help="check clauses up to this level: 1 sequential, 2 concurrent, 3 distributed, 4 fault-tolerant",
    )
    group.addoption(
        "--known",
        dest="conformance_known",
        type=Path,
        metavar="FILE",
        help="known deviations, which do not fail the run (default: known.toml, if there is one)",
    )
    group.addoption(
        "--conformance-report",
        type=Path,
        metavar="FILE",
        help="where the record of the run goes (default: reports/conformance-<backends>.jsonl)",
    )
    _add_exploring(group)


def _add_exploring(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--no-shrink",
        dest="conformance_no_shrink",
        action="store_true",
        help="show the first example that fails as it was found, and do not look for a smaller one",
    )
    group.addoption(
        "--examples",
        dest="conformance_examples",
        type=int,
        default=EXPLORING["max_examples"],
        metavar="N",
        help="look at up to so many examples in checks that explore (default: %(default)s)",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "clause(*ids): the clauses of the contract that a check speaks for")
    config.addinivalue_line("markers", "needs(*claims): claims without which a check does not apply")
    config.addinivalue_line("markers", "basic: a check on which the others of its layer rest")
    if config.getoption("conformance_backends") is None and not any(map(_is_ours, config.args)):
        return
    try:
        from hypothesis import Phase

        from conformance import plugin
    except ImportError as error:
        install = "pip install 'memcore-conformance[conformance]'"
        raise pytest.UsageError(f"the conformance kit lacks a package ({error}): {install}") from error
    EXPLORING["max_examples"] = config.getoption("conformance_examples")
    if config.getoption("conformance_no_shrink"):
        EXPLORING["phases"] = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)]
    # First of all, so that Hypothesis gets its seed from the run.
    config.pluginmanager.register(plugin, "memcore_conformance_run")


def _is_ours(argument: str) -> bool:
    return Path(argument.partition("::")[0]).resolve().is_relative_to(CHECKS)
