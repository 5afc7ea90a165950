"""`python -m conformance.services`, as a user starts and ends it."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conformance.services import PG_URL, REDIS_URL, Server
from tests.services_help import (
    DEADLINE,
    ROOT,
    SERVERS,
    answers,
    environment,
    folder_in_place_of_tmp,
    linux_only,
)

COMMAND = [sys.executable, "-m", "conformance.services"]


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that takes the place of /tmp, so that a test sees what is left in it."""
    with folder_in_place_of_tmp(monkeypatch, tmp_path_factory) as folder:
        yield folder


@contextmanager
def _command(*arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    env = environment(**variables)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*COMMAND, *arguments], stdout=pipe, stderr=pipe, text=True, cwd=ROOT, env=env
    ) as run:
        try:
            yield run
        finally:
            run.kill()


def _exported(run: subprocess.Popen[str]) -> tuple[str, str]:
    """Name and value of the next variable on stdout, as a shell reads the line."""
    assert run.stdout is not None
    export, assignment = shlex.split(run.stdout.readline())
    assert export == "export"
    name, _, value = assignment.partition("=")
    return name, value


@linux_only
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_both_servers_until_a_signal(number: signal.Signals, temporary: Path) -> None:
    """stdout exports where they are, stderr says what they are; the signal ends them, with status 0."""
    with _command(**{SERVERS: "embedded"}) as run:
        exported = dict(_exported(run) for _ in range(2))
        assert list(exported) == [REDIS_URL, PG_URL]
        assert answers(Server("redis", exported[REDIS_URL], "", ""))
        assert answers(Server("postgres", exported[PG_URL], "", ""))
        run.send_signal(number)
        out, err = run.communicate(timeout=DEADLINE)
    assert (run.returncode, out) == (0, "")
    redis, postgres, hint, end = err.splitlines()
    assert redis.startswith("redis: ")
    assert "(embedded: " in redis
    assert postgres.startswith("postgres: PostgreSQL ")
    assert exported[PG_URL] not in err
    assert (hint, end) == ("Ctrl-C ends them", "ended")
    assert list(temporary.iterdir()) == []


def test_one_server_if_one_is_named() -> None:
    """The argument chooses."""
    with _command("redis", **{SERVERS: "embedded"}) as run:
        assert _exported(run)[0] == REDIS_URL
        run.terminate()
        out, _ = run.communicate(timeout=DEADLINE)
    assert out == ""


def test_a_signal_while_it_starts_leaves_nothing(temporary: Path) -> None:
    """Ctrl-C before the second server is ready ends both, with status 0."""
    with _command(**{SERVERS: "embedded"}) as run:
        _exported(run)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=DEADLINE)
    assert run.returncode == 0
    assert list(temporary.iterdir()) == []


def test_no_server_is_one_sentence_and_status_3() -> None:
    """What was tried and what to do, on stderr, and no traceback."""
    with _command("redis", **{REDIS_URL: "redis://:hunter2@127.0.0.1:1"}) as run:
        out, err = run.communicate(timeout=DEADLINE)
    assert (run.returncode, out) == (3, "")
    assert err.startswith(f"no redis server for the tests ({REDIS_URL}=redis://:***@127.0.0.1:1: ")
    assert len(err.splitlines()) == 1


def test_an_unknown_kind_is_wrong_usage() -> None:
    """The message names the kinds that there are."""
    with _command("mysql") as run:
        out, err = run.communicate(timeout=DEADLINE)
    assert (run.returncode, out) == (2, "")
    assert "'mysql' (choose from redis, postgres)" in err


def test_help_names_ways_and_variables() -> None:
    """`--help` says where a server comes from, by which variables, and what the exit status means."""
    with _command("--help") as run:
        out, _ = run.communicate(timeout=DEADLINE)
    assert run.returncode == 0
    for word in (REDIS_URL, PG_URL, SERVERS, "MEMCORE_REDIS_IMAGE", "MEMCORE_PGVECTOR_IMAGE", "exit status"):
        assert word in out
