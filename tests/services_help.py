"""What tests of the servers share: a folder to look into, runs to kill, and processes that have to end."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg
import pytest
from redis import Redis

from conformance.services import PG_URL, REDIS_URL, Server, postgres_server, redis_server

ROOT = Path(__file__).resolve().parent.parent
DEADLINE = 20.0
SERVERS = "MEMCORE_SERVERS"
EMBEDDED = {SERVERS: "embedded", "PATH": os.environ.get("PATH", "")}
KINDS: dict[str, Callable[[Mapping[str, str]], AbstractContextManager[Server]]] = {
    "redis": redis_server,
    "postgres": postgres_server,
}
HOLDER = """
import os, signal, sys
import conformance.services
kind, fork = sys.argv[1], sys.argv[2] == "fork"
signal.signal(signal.SIGINT, signal.default_int_handler)
with getattr(conformance.services, kind + "_server")() as server:
    child = fork and not os.fork()
    if child:
        os.setsid()
    if child or not fork:
        os.write(1, b"%d %s\\n" % (server.pid or 0, server.url.encode()))
    sys.stdin.read()
    child and os._exit(0)
"""
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="waits with pidfd and looks into /proc")


@contextmanager
def folder_in_place_of_tmp(
    monkeypatch: pytest.MonkeyPatch, factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """An empty folder that takes the place of /tmp, so that a test sees what is left in it."""
    # Before it changes, or pytest's own folder would be made in there.
    factory.getbasetemp()
    # Not below pytest's own folder, which is closed to the user that PostgreSQL runs as under root.
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="test-of-memcore-"))
    folder.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def answers(server: Server) -> bool:
    """Whether the server at the URL takes a command and answers it."""
    if server.kind == "redis":
        with Redis.from_url(server.url) as client:
            return bool(client.ping())
    with psycopg.connect(server.url) as connection:
        return connection.execute("SELECT 1").fetchone() == (1,)


def parent(pid: int) -> int:
    """The process that started that one."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("PPid:")[2].split()[0])


def environment(**variables: str) -> dict[str, str]:
    """This process's one, in which no variable chooses a server but these."""
    chosen = (REDIS_URL, PG_URL, SERVERS)
    return {**{name: value for name, value in os.environ.items() if name not in chosen}, **variables}


@contextmanager
def holder(kind: str, fork: str = "", ways: str = "embedded") -> Iterator[subprocess.Popen[bytes]]:
    """A run of its own that holds a server and tells of it by a line."""
    command = [sys.executable, "-c", HOLDER, kind, fork]
    pipe, env = subprocess.PIPE, environment(**{SERVERS: ways})
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=ROOT, env=env, start_new_session=True) as run:
        try:
            yield run
        finally:
            run.kill()


def told(run: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Process id and URL of the server that the run holds."""
    assert run.stdout is not None
    pid, url = run.stdout.readline().split()
    return int(pid), url.decode()


@contextmanager
def expected_to_end(*pids: int) -> Iterator[None]:
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


def comes_true(condition: Callable[[], bool]) -> bool:
    """Whether the condition holds at most DEADLINE from now."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            return False
        select.select([], [], [], 0.01)
    return True
