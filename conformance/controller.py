"""What one process of a run does alone: servers, the record, the table and the exit status.

Under pytest-xdist this is the controller, and its workers run the checks; else it does both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from conformance.report import table
from conformance.run import Run
from conformance.services import ServerUnavailable
from conformance.workers import assign, attached

KIT_FAILED = 3
_WHOLE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
_SHOWN_CHECKS = 5


class Controller:
    """The hooks of that process.

    Args:
        run: What it keeps.
        config: Of its session.
    """

    def __init__(self, run: Run, config: pytest.Config) -> None:
        self.run = run
        self.config = config
        self._collected: dict[str, None] = {}
        self._ended: set[str] = set()
        self._crashes = 0
        self._crashed: list[str] = []
        self._missing: list[str] = []
        self._others_failed = False

    def pytest_sessionstart(self) -> None:
        # At the end of this hook xdist starts its workers, and they need the servers.
        if not self.config.pluginmanager.has_plugin("dsession"):
            return
        if self.config.getoption("dist") == "each":
            raise pytest.UsageError("--dist each would count every check several times; leave it out")
        self._start()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        assign(node.workerinput, self.run.seed, self.run.servers.values())

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._expect([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._expect(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        if self.config.option.collectonly:
            return
        self._start()
        self._write([*map(str, self.run.servers.values()), f"seed {self.run.seed}"])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        # Under xdist such an error does not end the run.
        self._others_failed |= report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = attached(report)
        if outcome is not None:
            self.run.note(outcome)
        else:
            self._others_failed |= report.failed
        if report.when == "teardown":
            self._ended.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, error: object) -> None:
        self._crashes += bool(error)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str) -> None:
        self._crashed.append(crashitem)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        cut_short = session.shouldfail or session.shouldstop or exitstatus not in _WHOLE
        if not self.run.started or cut_short:
            # The record has no footer, so nobody takes it for a whole one.
            return
        self._missing = self._lost()
        if self._missing:
            session.exitstatus = KIT_FAILED
            return
        status = self.run.finish(self._collected)
        # Tests that are not of the kit keep their say, should they run in the same session.
        session.exitstatus = max(status, 1) if self._others_failed else status

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        lines = self._summary()
        if lines:
            terminalreporter.section("conformance")
            self._write(lines)

    def pytest_unconfigure(self) -> None:
        self.run.close()

    def _start(self) -> None:
        try:
            self.run.start()
        except ServerUnavailable as error:
            pytest.exit(str(error), returncode=KIT_FAILED)

    def _expect(self, ids: Sequence[str]) -> None:
        self._collected.update(dict.fromkeys(ids))

    def _lost(self) -> list[str]:
        """What says that this run is not whole, although it came to its end."""
        seen = self._ended.union(self._crashed)
        lost = [check for check in self._collected if check not in seen]
        found = []
        if self._crashes:
            found.append(f"workers that crashed: {self._crashes}, in {_few(self._crashed)}")
        if lost:
            found.append(f"checks that did not run: {len(lost)}, such as {_few(lost)}")
        return found

    def _summary(self) -> list[str]:
        run = self.run
        if self._missing:
            return ["incomplete, so nothing is judged", *self._missing, f"record: {run.report}"]
        if not run.judgements:
            return []
        names = [backend.name for backend in run.backends]
        return [
            *table.table(run.clauses, names, run.judgements),
            *table.failures(run.judgements),
            "",
            *table.summary(names, run.judgements, run.levels),
            f"record: {run.report}",
        ]

    def _write(self, lines: list[str]) -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            for line in lines:
                reporter.write_line(line)


def _few(checks: Sequence[str]) -> str:
    more = f" and {len(checks) - _SHOWN_CHECKS} more" if len(checks) > _SHOWN_CHECKS else ""
    return f"{', '.join(checks[:_SHOWN_CHECKS]) or 'no check'}{more}"
