"""Runs the kit on mutants, in a few pytest processes beside each other, and reads what it says of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import conformance
from conformance.mutants.mutant import Mutant
from conformance.services import PG_URL, REDIS_URL, postgres_server, redis_server

SEED = 1
JOBS = 2
BATCH = 20
EXAMPLES = 25
"""Fewer than else: a fault that only the last examples would find is one that the next seed may not find."""
BATCH_SECONDS = 900
_SERVERS = {"redis": (REDIS_URL, redis_server), "postgres": (PG_URL, postgres_server)}
_JUDGED = (0, 1, 2)
"""Exit statuses of a run that came to its end."""


class RunFailed(Exception):
    """A run of the kit did not come to its end; the message has what it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A check that failed.

    Args:
        check: Its file and name.
        message: What it expected, and what it got.
        program: The calls that it made.
        examples: How many it looked at before, if it explores; else 0.
    """

    check: str
    message: str
    program: tuple[str, ...] = ()
    examples: int = 0


@dataclass(slots=True)
class Seen:
    """What the kit says of one mutant.

    Args:
        failures: By clause.
        doubtful: Clauses of which nothing could be said, and why.
    """

    failures: dict[str, list[Failure]] = field(default_factory=dict)
    doubtful: dict[str, str] = field(default_factory=dict)


def observe(
    mutants: Sequence[Mutant], folder: Path, *, jobs: int = JOBS, say: Callable[[str], None] = print
) -> dict[str, Seen]:
    """Run every check on every mutant.

    Raises:
        RunFailed: A process did not come to its end.
        ServerUnavailable: A server that is needed cannot be had.
    """
    folder.mkdir(parents=True, exist_ok=True)
    batches, begun = list(_batches(mutants)), time.monotonic()
    seen: dict[str, Seen] = {}
    with _environment({mutant.kind for mutant in mutants}) as environment, ThreadPoolExecutor(jobs) as pool:
        runs = [
            pool.submit(_run, batch, folder / f"batch-{n}", environment)
            for n, batch in enumerate(batches, start=1)
        ]
        try:
            for n, (batch, run) in enumerate(zip(batches, runs, strict=True), start=1):
                seen.update(run.result())
                failed = sum(bool(seen[mutant.name].failures) for mutant in batch)
                seconds = time.monotonic() - begun
                say(f"[{n}/{len(batches)}] {failed} of {len(batch)} {batch[0].kind} fail, {seconds:.0f} s")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return seen


def _batches(mutants: Sequence[Mutant]) -> Iterator[list[Mutant]]:
    """Mutants of a kind, dealt out in turn, so that the slow ones of a module are not all together."""
    # Those on servers take longest, so they begin; what is right is run as every backend is.
    for kind, size in (("postgres", 4), ("redis", 4), ("in process", BATCH)):
        for benign in (True, False):
            members = [m for m in mutants if m.kind == kind and (m.role == "benign") is benign]
            number = -(-len(members) // size)
            yield from (members[n::number] for n in range(number))


@contextmanager
def _environment(kinds: Iterable[str]) -> Iterator[dict[str, str]]:
    """That of the processes: one server of each kind for all of them."""
    package = str(Path(conformance.__file__).resolve().parent.parent)
    given = filter(None, [os.environ.get("PYTHONPATH")])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, *given])}
    environment.pop("PYTEST_ADDOPTS", None)
    with ExitStack() as stack:
        for kind in sorted(set(kinds) & set(_SERVERS)):
            variable, server = _SERVERS[kind]
            environment[variable] = stack.enter_context(server()).url
        yield environment


def _run(batch: Sequence[Mutant], folder: Path, environment: dict[str, str]) -> dict[str, Seen]:
    folder.mkdir(parents=True, exist_ok=True)
    record, examples = folder / "record.jsonl", folder / "examples.jsonl"
    examples.write_text("", encoding="utf-8")
    backends = [part for mutant in batch for part in ("--backend", mutant.place)]
    command = [sys.executable, "-m", "conformance", "--seed", str(SEED), "--report", str(record), *backends]
    command += ["--no-shrink", "-p", "conformance.mutants.counting", "--count-examples", str(examples)]
    command += [] if batch[0].role == "benign" else ["--examples", str(EXAMPLES)]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=BATCH_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise RunFailed(f"{' '.join(command)}\ntook longer than {BATCH_SECONDS} s") from error
    events = _lines(record) if record.exists() else []
    if done.returncode not in _JUDGED or not events or events[-1]["event"] != "footer":
        raise RunFailed(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return _read(batch, events, {line["check"]: line["examples"] for line in _lines(examples)})


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _read(
    batch: Sequence[Mutant], events: Iterable[dict[str, Any]], examples: dict[str, int]
) -> dict[str, Seen]:
    seen = {mutant.name: Seen() for mutant in batch}
    for event in events:
        if event["event"] != "result" or event["verdict"] == "pass":
            continue
        of = seen[event["backend"]]
        if event["verdict"] == "fail":
            of.failures.setdefault(event["clause"], []).append(_failure(event, examples))
        else:
            of.doubtful[event["clause"]] = f"{event['verdict']}: {event['message']}"
    return seen


def _failure(event: dict[str, Any], examples: dict[str, int]) -> Failure:
    # Once it has failed an example is run again, to be shown.
    needed = max(0, examples.get(event["check"], 0) - 1)
    return Failure(
        check=event["check"].rpartition("/")[2],
        message=event["message"],
        program=tuple(event["program"]),
        examples=needed,
    )
