"""One conformance run inside a pytest session: backends, servers, results, and what is made of them."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from conformance.backend import Backend
from conformance.catalogue import Clause, clauses
from conformance.known import Known, with_known
from conformance.report.events import EventLog
from conformance.report.levels import Level, levels
from conformance.report.verdicts import Judgement, Result, exit_status, judge_all
from conformance.services import Server, postgres_server, redis_server
from conformance.workers import Outcome
from conformance.world import World, run_name

SERVICES = {"redis": redis_server, "postgres": postgres_server}
"""How each kind of server is had."""
DISTRIBUTIONS = ("memcore-conformance", "hypothesis", "pytest", "redis", "psycopg", "pgvector", "numpy")


class Run:
    """What a run holds from its start to its end.

    Args:
        backends: Under test, by the text with which each was asked for, such as `mine.testing:BACKEND`.
        level: Clauses above it are left out.
        seed: Of every random choice.
        report: Where the record goes.
        known: Deviations that do not fail the run.
    """

    def __init__(
        self,
        backends: Mapping[str, Backend],
        *,
        level: int,
        seed: int,
        report: Path,
        known: Sequence[Known] = (),
    ) -> None:
        self.backends = tuple(backends.values())
        self._asked_for = {backend.name: text for text, backend in backends.items()}
        self.level = level
        self.seed = seed
        self.report = report
        self.clauses: tuple[Clause, ...] = tuple(
            clause for clause in clauses() if clause.level <= level and clause.scope == "backend"
        )
        self.servers: dict[str, Server] = {}
        self.worlds: dict[str, World] = {}
        self.judgements: list[Judgement] = []
        self.levels: list[Level] = []
        self._known = known
        self._results: dict[tuple[str, str], list[Result]] = {}
        self._operations: dict[str, Counter[str]] = {name: Counter() for name in self._asked_for}
        self._stack = ExitStack()
        self._log: EventLog | None = None

    @property
    def started(self) -> bool:
        """Whether there is a record."""
        return self._log is not None

    def start(self) -> None:
        """Start the servers that the backends need, and the record; nothing happens the second time.

        Raises:
            ServerUnavailable: One cannot be started or reached.
        """
        if self._log is not None:
            return
        kinds = sorted({kind for backend in self.backends for kind in backend.servers})
        self.join({kind: self._stack.enter_context(SERVICES[kind]()) for kind in kinds})
        self._log = EventLog(self.report)
        self._log.header(
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            versions=_versions(),
            seed=self.seed,
            level=self.level,
            command=self.command(self.backends),
            backends=self.backends,
            servers=list(self.servers.values()),
        )

    def join(self, servers: dict[str, Server], worker: str = "") -> None:
        """Be ready to run checks on servers that run, as a worker of somebody's run or in one's own."""
        self.servers = servers
        for backend in self.backends:
            needed = {kind: servers[kind] for kind in backend.servers}
            self.worlds[backend.name] = World(backend, needed, self.seed, run_name(worker))

    def command(self, backends: Iterable[Backend], check: str = "") -> str:
        """What to type to see it again."""
        chosen = " ".join(f"--backend {self._asked_for[backend.name]}" for backend in backends)
        only = f" -k {check}" if check else ""
        return f"python -m conformance {chosen} --level {self.level} --seed {self.seed}{only}"

    def note(self, outcome: Outcome) -> None:
        """Take in what came of a check."""
        self._operations[outcome.backend].update(outcome.operations)
        for result in outcome.results:
            self._results.setdefault((result.backend, result.clause), []).append(result)
        if self._log is not None:
            self._log.results(outcome.results)

    def finish(self, checks: Iterable[str]) -> int:
        """Judge, end the record, and give the exit status; `checks` is their order, whoever ran them."""
        place = {check: at for at, check in enumerate(checks)}
        for results in self._results.values():
            results.sort(key=lambda result: place.get(result.check, len(place)))
        judged = judge_all(self.clauses, self.backends, self._results)
        self.judgements = with_known(judged, self._known)
        self.levels = levels(self.clauses, self.backends, self.judgements, self._operations, asked=self.level)
        status = exit_status(self.judgements, enough_seen=all(level.seen for level in self.levels))
        if self._log is not None:
            for judgement in self.judgements:
                self._log.judgement(judgement)
            self._log.footer(self.judgements, self.levels, self._operations, status)
        return status

    def close(self) -> None:
        """Stop the servers that were started, and close the record."""
        if self._log is not None:
            self._log.close()
        self._stack.close()


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in DISTRIBUTIONS}}
