"""What goes between the processes of a run under pytest-xdist: a seed and servers there, outcomes back.

A run in one process takes the same way, so there is one way only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from conformance.report.verdicts import Result, Verdict
from conformance.services import Server

_NAME = "memcore_conformance"


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a worker gets from the controller instead of choosing or starting it.

    Args:
        worker: Its name, such as `gw0`.
        seed: Of every random choice, the same in all workers.
        servers: Those that run, by kind.
    """

    worker: str
    seed: int
    servers: dict[str, Server]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one phase of a check tells to the process that keeps the record.

    Args:
        backend: Name of the backend on which it ran.
        results: What it says of which clause.
        operations: How often each kind of operation succeeded since the last outcome.
    """

    backend: str
    results: tuple[Result, ...]
    operations: dict[str, int]


def is_worker(config: pytest.Config) -> bool:
    """Whether this process runs checks for a controller."""
    return hasattr(config, "workerinput")


def assign(workerinput: dict[str, Any], seed: int, servers: Iterable[Server]) -> None:
    """Put into the input of a worker what `assignment` reads there."""
    # The URLs hold passwords: this goes through the pipe to the worker, and nothing shows it.
    workerinput[_NAME] = json.dumps({"seed": seed, "servers": [asdict(server) for server in servers]})


def assignment(config: pytest.Config) -> Assignment | None:
    """What the controller gave to this process; none where there is no controller."""
    if not is_worker(config):
        return None
    workerinput: dict[str, Any] = config.workerinput  # type: ignore[attr-defined]  # xdist sets it
    given = json.loads(workerinput[_NAME])
    servers = [Server(**fields) for fields in given["servers"]]
    return Assignment(workerinput["workerid"], given["seed"], {server.kind: server for server in servers})


def attach(report: pytest.TestReport, outcome: Outcome) -> None:
    """Send an outcome along with a report."""
    # As ASCII: xdist sends UTF-8, in which half a surrogate pair cannot be written.
    setattr(report, _NAME, json.dumps(asdict(outcome)))


def attached(report: pytest.TestReport) -> Outcome | None:
    """The outcome that came with a report; none if it is not of a check."""
    text = getattr(report, _NAME, None)
    if text is None:
        return None
    fields = json.loads(text)
    results = tuple(_result(**result) for result in fields["results"])
    return Outcome(fields["backend"], results, fields["operations"])


def plain(value: Any) -> Any:
    """A report as xdist can send it: hostile text in escapes, and `str` itself instead of its heirs."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {plain(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(inner) for inner in value)
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def _result(*, verdict: str, program: list[str], basic: bool, **fields: str) -> Result:
    return Result(verdict=Verdict(verdict), program=tuple(program), basic=basic, **fields)
