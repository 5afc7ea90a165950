"""A conformance run as a pytest plugin: every check runs on every backend, verdicts come at the end.

`conformance.entry` registers it in a session that asks for it.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from conformance.backend import Backend, UnknownBackend, resolve
from conformance.check import backend_of, is_asked, is_basic, results
from conformance.controller import Controller
from conformance.entry import BUILT_IN, CHECKS
from conformance.interrupt import Interrupt
from conformance.known import BadKnownFile, Known, read_known
from conformance.run import Run
from conformance.workers import Outcome, assignment, attach, is_worker, plain
from conformance.world import World

_RUN = pytest.StashKey[Run]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    run = _begin(config)
    if not is_worker(config):
        config.pluginmanager.register(Controller(run, config), "memcore_conformance_controller")
        config.pluginmanager.register(Interrupt(), "memcore_conformance_interrupt")
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = [str(CHECKS)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "world" in metafunc.fixturenames and metafunc.definition.path.is_relative_to(CHECKS):
        backends = _begin(metafunc.config).backends
        names = [backend.name for backend in backends]
        metafunc.parametrize("world", backends, indirect=True, ids=names)


@pytest.fixture
def world(request: pytest.FixtureRequest) -> World:
    """The backend under test, ready to be opened."""
    chosen = request.config.stash[_RUN].worlds[request.param.name]
    chosen.program.begin()
    return chosen


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _RUN not in config.stash:
        return
    level = config.stash[_RUN].level
    left_out = [
        item for item in items if (backend := backend_of(item)) and not is_asked(item, backend, level)
    ]
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
    # What all the rest stands on comes first.
    items.sort(key=lambda item: not is_basic(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    run, backend = item.config.stash.get(_RUN, None), backend_of(item)
    if run is not None and backend is not None:
        said = tuple(results(item, backend, report, call, run))
        attach(report, Outcome(backend.name, said, run.worlds[backend.name].program.counted()))
    return report


def pytest_unconfigure(config: pytest.Config) -> None:
    if _RUN in config.stash:
        for opened in config.stash[_RUN].worlds.values():
            opened.close()


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable(
    config: pytest.Config,
) -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
    data = yield
    cleaned: dict[str, Any] | None = plain(data) if is_worker(config) else data
    return cleaned


@pytest.hookimpl(tryfirst=True)
def pytest_warning_recorded(warning_message: warnings.WarningMessage) -> None:
    # xdist sends these as they are.
    if isinstance(warning_message.message, Warning):
        warning_message.message.args = plain(warning_message.message.args)


def _begin(config: pytest.Config) -> Run:
    """The run of this session, begun when it is first asked for."""
    if _RUN not in config.stash:
        backends = _resolved(config.getoption("conformance_backends") or BUILT_IN)
        default = config.rootpath / "reports" / f"conformance-{_file_name(backends.values())}.jsonl"
        report = config.getoption("conformance_report") or default
        given = assignment(config)
        seed = _seed(config.getoption("hypothesis_seed", None)) if given is None else given.seed
        # Hypothesis reads it after this.
        config.option.hypothesis_seed = str(seed)
        level = config.getoption("conformance_level")
        known = _known(config)
        run = config.stash[_RUN] = Run(backends, level=level, seed=seed, report=report, known=known)
        if given is not None:
            run.join(given.servers, given.worker)
    return config.stash[_RUN]


def _known(config: pytest.Config) -> tuple[Known, ...]:
    """Those of the file that was named, or of the one in the folder."""
    given: Path | None = config.getoption("conformance_known")
    path = given or config.rootpath / "known.toml"
    if given is None and not path.exists():
        return ()
    try:
        return read_known(path)
    except BadKnownFile as error:
        raise pytest.UsageError(str(error)) from error


def _resolved(names: Iterable[str]) -> dict[str, Backend]:
    # As `python -m` does it, so that a module of the folder one is in is found.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        backends = {name: resolve(name) for name in names}
    except UnknownBackend as error:
        raise pytest.UsageError(str(error)) from error
    if len({backend.name for backend in backends.values()}) < len(backends):
        raise pytest.UsageError(f"two backends have the same name: {', '.join(backends)}")
    return backends


def _file_name(backends: Iterable[Backend]) -> str:
    name = "+".join(backend.name for backend in backends)
    return "".join(c if c.isalnum() or c in "-_+" else "_" for c in name)


def _seed(given: object) -> int:
    """The seed that was given to Hypothesis, or a new one."""
    if given is None:
        return random.SystemRandom().randrange(2**32)
    if not str(given).isdecimal():
        raise pytest.UsageError(f"the seed {given!r} is not a whole number")
    return int(str(given))
