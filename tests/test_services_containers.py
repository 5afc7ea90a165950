"""Servers in containers: had, removed, and removed by a later run where a killed one could not."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest

from conformance.services import Server, ServerUnavailable, containers, postgres_server, redis_server
from conformance.services.containers import MACHINE, PROCESS, STARTED
from tests.services_help import KINDS, SERVERS, answers, expected_to_end, holder, linux_only, told

IMAGES = {"redis": "MEMCORE_REDIS_IMAGE", "postgres": "MEMCORE_PGVECTOR_IMAGE"}
CONTAINERS = {
    SERVERS: "containers",
    **{name: os.environ[name] for name in IMAGES.values() if name in os.environ},
}
NO_IMAGE = "localhost:1/memcore/none:1"
each_kind = pytest.mark.parametrize("kind", KINDS)


@functools.cache
def _missing() -> str:
    """Why there is no engine; empty if there is one."""
    try:
        with containers._engine(find_spec):
            return ""
    except containers.NoEngine as error:
        return str(error)


@pytest.fixture
def engine() -> Iterator[Any]:
    """The Docker engine of this machine."""
    if _missing():
        pytest.skip(_missing())
    with containers._engine(find_spec) as found:
        yield found


def _ours(engine: Any, pid: int) -> list[Any]:
    """The containers of that process."""
    filters = {"label": f"{PROCESS}={pid}"}
    found: list[Any] = engine.containers.list(all=True, filters=filters, ignore_removed=True)
    return found


@contextmanager
def _no_way(kind: str, environ: dict[str, str]) -> Iterator[list[str]]:
    message: list[str] = []
    with pytest.raises(ServerUnavailable) as caught, KINDS[kind](environ):
        pass
    message.append(str(caught.value))
    yield message


@each_kind
def test_a_container_is_gone_after_the_block(kind: str, engine: Any) -> None:
    """The server answers at an address of this machine alone; the container says whose it is, and goes."""
    with KINDS[kind](CONTAINERS) as server:
        assert answers(server)
        (found,) = _ours(engine, os.getpid())
        assert server.way == f"container: {found.image.tags[0]}"
        assert server.pid is None
        assert found.labels[MACHINE] == containers._machine()
        (bindings,) = found.ports.values()
        hosts = {binding["HostIp"] for binding in bindings}
        assert hosts == {"127.0.0.1"} or "127.0.0.1" not in server.url
    assert _ours(engine, os.getpid()) == []


@linux_only
@each_kind
def test_a_later_run_removes_what_a_killed_one_left(kind: str, engine: Any) -> None:
    """The container of a run that was killed is gone when the next one has started."""
    with holder(kind, ways="containers") as run:
        told(run)
        assert len(_ours(engine, run.pid)) == 1
        with expected_to_end(run.pid):
            run.kill()
        with redis_server(CONTAINERS):
            assert _ours(engine, run.pid) == []


@each_kind
def test_runs_at_the_same_time_leave_each_other_alone(kind: str, engine: Any) -> None:
    """Neither the start nor the end of one run touches the container of another that is alive."""
    with holder(kind, ways="containers") as run:
        _, url = told(run)
        with KINDS[kind](CONTAINERS) as server:
            assert server.url != url
            assert answers(Server(kind, url, "", ""))
        assert answers(Server(kind, url, "", ""))
        run.communicate(b"")
        assert _ours(engine, run.pid) == []


@each_kind
def test_an_image_that_cannot_be_had_gives_way(kind: str, engine: Any) -> None:
    """An embedded server is used, and says why it is no container."""
    environ = {"PATH": os.environ["PATH"], IMAGES[kind]: NO_IMAGE}
    with KINDS[kind](environ) as server:
        assert server.way.startswith("embedded: ")
        assert f" (no container: {NO_IMAGE}: " in server.way
        assert answers(server)
    assert _ours(engine, os.getpid()) == []


@pytest.mark.usefixtures("engine")
@each_kind
def test_an_image_that_cannot_be_had_where_only_containers_will_do(kind: str) -> None:
    """The sentence has the reason of the engine and the variable that names another image."""
    with _no_way(kind, {**CONTAINERS, IMAGES[kind]: NO_IMAGE}) as (message,):
        assert f"no container: {NO_IMAGE}: " in message
        assert f"set {IMAGES[kind]} to an image that it has" in message


def test_a_container_that_ends_by_itself(engine: Any) -> None:
    """Its reason stands in the sentence and it is removed, long before the time for a start is over."""
    other = CONTAINERS.get(IMAGES["postgres"], "pgvector/pgvector:pg18")
    begin = time.monotonic()
    with _no_way("redis", {**CONTAINERS, IMAGES["redis"]: other}) as (message,):
        assert f"no container: {other} exited before it answered; its log ends with: " in message
    assert time.monotonic() - begin < containers._START_SECONDS
    assert _ours(engine, os.getpid()) == []


@each_kind
def test_no_engine_gives_way(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no engine is, an embedded server is the usual thing; where only containers will do, an error."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with KINDS[kind]({"PATH": os.environ["PATH"]}) as server:
        assert server.way.startswith("embedded: ")
        assert "no container" not in server.way
    with _no_way(kind, CONTAINERS) as (message,):
        assert "no engine for containers answers" in message
        assert "start Docker" in message


def test_an_engine_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that takes the connection and says nothing holds up the run for less than three seconds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{listener.getsockname()[1]}")
        begin = time.monotonic()
        with _no_way("redis", CONTAINERS) as (message,):
            assert "no engine for containers answers" in message
    assert time.monotonic() - begin < 3


@linux_only
def test_whose_container_is_abandoned() -> None:
    """That of a process which is gone, also when another one has its id; never that of another machine."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as ended:
        started = containers._started(ended.pid) or ""
        labels = {MACHINE: containers._machine(), PROCESS: str(ended.pid), STARTED: started}
        assert not containers._abandoned(labels, "running")
        with expected_to_end(ended.pid):
            ended.kill()
        # It is a zombie now: nobody has asked how it ended.
        assert containers._abandoned(labels, "running")
    labels.update({PROCESS: str(os.getpid()), STARTED: containers._started(os.getpid()) or ""})
    assert not containers._abandoned(labels, "running")
    assert not containers._abandoned(labels, "exited")
    assert containers._abandoned({**labels, STARTED: "1"}, "running")
    assert containers._abandoned({**labels, PROCESS: str(ended.pid)}, "running")
    assert not containers._abandoned({**labels, MACHINE: "other", STARTED: "1"}, "running")
    assert containers._abandoned({**labels, MACHINE: "other"}, "exited")


def test_both_kinds_at_once(engine: Any) -> None:
    """A run may hold a container of each kind, and each is removed with its own block."""
    with redis_server(CONTAINERS) as redis:
        with postgres_server(CONTAINERS) as postgres:
            assert answers(redis)
            assert answers(postgres)
        assert len(_ours(engine, os.getpid())) == 1
    assert _ours(engine, os.getpid()) == []
