"""What tests of the stores on Postgres need: places of their own, and a wire that can be cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

import psycopg
from psycopg.conninfo import make_conninfo

from memcore import Episode
from memcore.episodes.pgvector import PgVectorEpisodicStore

MODEL = "model"


def fresh(kind: str = "s") -> str:
    """A name that nobody used: of a schema, a database or a role."""
    return f"{kind}_{uuid4().hex[:12]}"


def sql(url: str, statement: str, parameters: Sequence[object] | Mapping[str, object] | None = None) -> Any:
    """Rows of a statement, on a connection of its own, outside a transaction."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), parameters)
        return cursor.fetchall() if cursor.description else None


def with_options(url: str, **settings: object) -> str:
    """The URL, with settings that its connections begin with."""
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    return make_conninfo(url, options=options)


def with_place(url: str, *, database: str | None = None, user: str | None = None, port: int = 0) -> str:
    """The URL, leading to another database, user (whose password is its name) or port of this machine."""
    parts = urlsplit(url)
    name, password = (user, user) if user else (parts.username, parts.password)
    address = f"127.0.0.1:{port}" if port else f"{parts.hostname}:{parts.port}"
    place = database or parts.path.lstrip("/")
    return f"postgresql://{quote(name or '')}:{quote(password or '')}@{address}/{place}"


async def until(condition: Callable[[], object]) -> Any:
    """What this gives, once it is true: what another session does has no event to wait for."""
    while not (found := condition()):  # noqa: ASYNC110
        await asyncio.sleep(0)
    return found


def episodes(url: str, schema: str, *, dimension: int = 8, **options: Any) -> PgVectorEpisodicStore:
    """An episodic store in a schema."""
    return PgVectorEpisodicStore.from_url(url, model=MODEL, dimension=dimension, schema=schema, **options)


def episode(summary: str, embedding: Any, *, user_id: str = "u", **fields: Any) -> Episode:
    """An episode of some session."""
    return Episode(user_id, "s", summary, embedding, **fields)


class Wire:
    """Connections to a server that pass through here, and can be held or cut.

    Attributes:
        port: Where it listens.
        requests, replies: While set, what clients or the server send goes through; else it waits here, and
            so does the end of a connection.
        tasks: One for each connection so far.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname, parts.port)
        self.port = 0
        self.requests = asyncio.Event()
        self.requests.set()
        self.replies = asyncio.Event()
        self.replies.set()
        self._writers: list[asyncio.StreamWriter] = []
        self.tasks: list[asyncio.Task[None] | None] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection through."""
        self.tasks.append(asyncio.current_task())
        below, above = await asyncio.open_connection(*self._server)
        self._writers += [writer, above]
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await asyncio.gather(
                self._pass(reader, above, self.requests), self._pass(below, writer, self.replies)
            )

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event
    ) -> None:
        while data := await reader.read(65536):
            await gate.wait()
            writer.write(data)
            await writer.drain()
        await gate.wait()
        writer.close()

    def cut(self) -> None:
        """End every connection that is open."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()


@asynccontextmanager
async def wired(url: str) -> AsyncIterator[tuple[Wire, str]]:
    """A wire to the server, and the URL that leads through it."""
    wire = Wire(url)
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire, with_place(url, port=wire.port)
    finally:
        wire.requests.set()
        wire.replies.set()
        wire.cut()
        server.close()
        await asyncio.gather(*filter(None, wire.tasks))
