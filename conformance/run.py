"""One conformance run inside a pytest session: backends, servers, results, and what is made of them."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from conformance.backend import Backend
from conformance.catalogue import Clause, clauses
from conformance.report.events import EventLog
from conformance.report.verdicts import Judgement, Result, exit_status, judge_all
from conformance.services import Server, redis_server
from conformance.world import World

SERVICES = {"redis": redis_server}
"""How each kind of server is had."""
DISTRIBUTIONS = ("memcore-conformance", "hypothesis", "pytest", "redis", "numpy")


class Run:
    """What a run holds from its start to its end.

    Args:
        backends: Under test, by the text with which each was asked for, such as `mine.testing:BACKEND`.
        level: Clauses above it are left out.
        seed: Of every random choice.
        report: Where the record goes.
    """

    def __init__(self, backends: Mapping[str, Backend], *, level: int, seed: int, report: Path) -> None:
        self.backends = tuple(backends.values())
        self._asked_for = {backend.name: text for text, backend in backends.items()}
        self.level = level
        self.seed = seed
        self.report = report
        self.clauses: tuple[Clause, ...] = tuple(
            clause for clause in clauses() if clause.level <= level and clause.scope == "backend"
        )
        self.worlds: dict[str, World] = {}
        self.judgements: list[Judgement] = []
        self.others_failed = False
        self._results: dict[tuple[str, str], list[Result]] = {}
        self._servers = ExitStack()
        self._log: EventLog | None = None

    def start(self) -> list[Server]:
        """Start the servers that the backends need, and the record.

        Raises:
            ServerUnavailable: One cannot be started or reached.
        """
        kinds = sorted({kind for backend in self.backends for kind in backend.servers})
        running = {kind: self._servers.enter_context(SERVICES[kind]()) for kind in kinds}
        for backend in self.backends:
            servers = {kind: running[kind] for kind in backend.servers}
            self.worlds[backend.name] = World(backend, servers, self.seed)
        self._log = EventLog(self.report)
        self._log.header(
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            versions=_versions(),
            seed=self.seed,
            level=self.level,
            command=self.command(self.backends),
            backends=self.backends,
            servers=list(running.values()),
        )
        return list(running.values())

    def command(self, backends: Iterable[Backend], check: str = "") -> str:
        """What to type to see it again."""
        chosen = " ".join(f"--backend {self._asked_for[backend.name]}" for backend in backends)
        only = f" -k {check}" if check else ""
        return f"python -m conformance {chosen} --level {self.level} --seed {self.seed}{only}"

    def note(self, result: Result) -> None:
        """Take in what a check says."""
        self._results.setdefault((result.backend, result.clause), []).append(result)
        if self._log is not None:
            self._log.result(result)

    def finish(self) -> int:
        """Judge, end the record, and give the exit status."""
        self.judgements = judge_all(self.clauses, self.backends, self._results)
        status = exit_status(self.judgements)
        if self._log is not None:
            for judgement in self.judgements:
                self._log.judgement(judgement)
            self._log.footer(self.judgements, self._operations(), status)
        return status

    def close(self) -> None:
        """Stop the servers that were started, and close the record."""
        if self._log is not None:
            self._log.close()
        self._servers.close()

    def _operations(self) -> dict[str, Counter[str]]:
        return {name: world.program.succeeded for name, world in self.worlds.items()}


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in DISTRIBUTIONS}}
