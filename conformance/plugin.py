"""A conformance run as a pytest plugin: every check runs on every backend, verdicts come at the end.

`conformance.entry` registers it in a session that asks for it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest

from conformance.backend import Backend, UnknownBackend, resolve
from conformance.catalogue import by_id
from conformance.entry import BUILT_IN, CHECKS
from conformance.expect import violations
from conformance.report import table
from conformance.report.verdicts import Result, Verdict
from conformance.run import Run
from conformance.services import ServerUnavailable
from conformance.world import World

_RUN = pytest.StashKey[Run]()

KIT_FAILED = 3
_WHOLE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("numprocesses", None):
        raise pytest.UsageError("checks of backends do not run under xdist yet; leave out -n")
    _begin(config)
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
    left_out = [item for item in items if (backend := _backend(item)) and not _asked(item, backend, level)]
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    if _RUN not in session.config.stash or session.config.option.collectonly:
        return
    run = session.config.stash[_RUN]
    try:
        servers = run.start()
    except ServerUnavailable as error:
        pytest.exit(str(error), returncode=KIT_FAILED)
    lines = [*map(str, servers), f"seed {run.seed}"]
    _write(session.config, lines)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    run, backend = item.config.stash.get(_RUN, None), _backend(item)
    if run is not None and backend is None and report.failed:
        run.others_failed = True
    if run is None or backend is None or not (report.when == "call" or not report.passed):
        return report
    written = run.worlds[backend.name].program
    for clause, verdict, message in _read(item, report, call, written.unopened):
        program = tuple(written.lines) if verdict is not Verdict.PASS else ()
        name = getattr(item, "originalname", item.name)
        run.note(
            Result(
                backend=backend.name,
                clause=clause,
                verdict=verdict,
                check=item.nodeid,
                message=message,
                program=program,
                command=run.command([backend], name),
            )
        )
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if _RUN not in session.config.stash or session.config.option.collectonly:
        return
    run = session.config.stash[_RUN]
    cut_short = session.shouldfail or session.shouldstop or exitstatus not in _WHOLE
    if not run.worlds or cut_short:
        # The record has no footer, so nobody takes it for a whole one.
        return
    status = run.finish()
    # Tests that are not of the kit keep their say, should they run in the same session.
    session.exitstatus = max(status, 1) if run.others_failed else status


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    run = config.stash.get(_RUN, None)
    if run is None or not run.judgements:
        return
    names = [backend.name for backend in run.backends]
    terminalreporter.section("conformance")
    lines = [
        *table.table(run.clauses, names, run.judgements),
        *table.failures(run.judgements),
        "",
        *table.summary(names, run.judgements),
        f"record: {run.report}",
    ]
    for line in lines:
        terminalreporter.write_line(line)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _RUN in config.stash:
        config.stash[_RUN].close()


def _begin(config: pytest.Config) -> Run:
    """The run of this session, begun when it is first asked for."""
    if _RUN not in config.stash:
        backends = _resolved(config.getoption("conformance_backends") or BUILT_IN)
        default = config.rootpath / "reports" / f"conformance-{_file_name(backends.values())}.jsonl"
        report = config.getoption("conformance_report") or default
        level = config.getoption("conformance_level")
        config.stash[_RUN] = Run(backends, level=level, seed=_seed(config), report=report)
    return config.stash[_RUN]


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


def _seed(config: pytest.Config) -> int:
    """The seed that was given to Hypothesis, or a new one that is given to it."""
    given = config.getoption("hypothesis_seed", None)
    if given is not None and not str(given).isdecimal():
        raise pytest.UsageError(f"the seed {given!r} is not a whole number")
    seed = random.SystemRandom().randrange(2**32) if given is None else int(given)
    config.option.hypothesis_seed = str(seed)
    return seed


def _backend(item: pytest.Item) -> Backend | None:
    """The backend on which a check runs; none for a test that is not of the kit."""
    callspec = getattr(item, "callspec", None)
    found = callspec.params.get("world") if callspec else None
    return found if isinstance(found, Backend) else None


def _ids(item: pytest.Item) -> list[str]:
    """The clauses of a check, those of the nearest mark first."""
    return [clause for mark in item.iter_markers("clause") for clause in mark.args]


def _asked(item: pytest.Item, backend: Backend, level: int) -> bool:
    """Whether the backend is held to what a check speaks for."""
    asked = (by_id()[clause] for clause in _ids(item))
    needed = (claim for mark in item.iter_markers("needs") for claim in mark.args)
    return all(clause.level <= level and clause.claimed_by(backend.claims) for clause in asked) and all(
        backend.claims.makes(claim) for claim in needed
    )


def _read(
    item: pytest.Item,
    report: pytest.TestReport,
    call: pytest.CallInfo[None],
    unopened: BaseException | None,
) -> list[tuple[str, Verdict, str]]:
    """What a check says of which clause."""
    ids = _ids(item)
    if report.passed:
        return [(clause, Verdict.PASS, "") for clause in ids]
    if report.skipped:
        reason = str(call.excinfo.value) if call.excinfo else report.longreprtext
        return [(clause, Verdict.NOT_EVALUABLE, reason) for clause in ids]
    error = call.excinfo.value if call.excinfo else None
    if report.when != "call" or (error is not None and error is unopened):
        return [(clause, Verdict.UNKNOWN, f"the check could not begin or end: {error!r}") for clause in ids]
    found = violations(error)
    if not found:
        # The first id of a check is the one for which it was written.
        return [(ids[0], Verdict.FAIL, f"{type(error).__name__}: {error}")]
    broken = {violation.clause: str(violation) for violation in found}
    if not set(broken) & set(ids):
        # A clause of another check: this one did not get to what it is for.
        broken[ids[0]] = str(found[0])
    return [(clause, Verdict.FAIL, message) for clause, message in broken.items()]


def _write(config: pytest.Config, lines: list[str]) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        for line in lines:
            reporter.write_line(line)
