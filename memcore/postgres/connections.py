"""Connections to a Postgres server: opened when needed, used by one call at a time, kept only if whole.

Nothing runs in the background, so a connection that cannot be had fails the call that wants it, at once and
with the reason; and taking an idle one costs no turn of the event loop.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus

from memcore.errors import InvalidArgument

Row: TypeAlias = tuple[Any, ...]


class Connection(psycopg.AsyncConnection[Row]):
    """A connection that can give up a call for good.

    Attributes:
        settle: Seconds in which the server has to say whether it ended what it was asked to give up.
    """

    settle = 2.0

    async def cancel_safe(self, *, timeout: float = 30.0) -> None:  # noqa: ASYNC109 (the driver's)
        """Ask the server to end what it does, as the driver does for a call that was cancelled."""
        # The driver itself would wait for five seconds, and then for five more.
        asyncio.get_running_loop().call_later(self.settle, self._abort)
        await super().cancel_safe(timeout=min(timeout, self.settle / 2))

    def _abort(self) -> None:
        """End whatever waits for the server now, by ending the connection below it."""
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self.fileno())) as wire:
            wire.shutdown(socket.SHUT_RDWR)

    async def fetch(
        self, query: bytes | str, parameters: Mapping[str, object] | Sequence[object]
    ) -> list[Row]:
        """Rows of a query, in binary form: settings of the session can neither round nor shift them."""
        return await (await self.execute(query, parameters, binary=True)).fetchall()

    async def run(self, statements: bytes) -> psycopg.AsyncCursor[Row]:
        """Run statements, as `tables.query` makes them, that have no parameters."""
        # With none, and not without any: that makes single percent signs of the double ones.
        return await self.execute(statements, {})

    @property
    def whole(self) -> bool:
        """Whether another call can use it: open, and outside a transaction."""
        return not self.closed and self.info.transaction_status == TransactionStatus.IDLE

    @property
    def silent(self) -> bool:
        """Whether the server said nothing since the last call; that it hung up could be read."""
        # Not `select.select`, which fails for the 1,024th open file of a process.
        poller = select.poll()
        poller.register(self.fileno(), select.POLLIN)
        return not poller.poll(0)


class Connections:
    """At most so many connections to one server, the last used taken first; further calls wait in turn.

    Args:
        url: `postgresql://user:password@host:port/database` or what else libpq reads.
        limit: The most connections that are open at once.
        settle: As for `Connection`.
    """

    def __init__(self, url: str, limit: int, settle: float) -> None:
        self._conninfo = _checked(url)
        self.limit = limit
        self._settle = settle
        self._free = asyncio.Semaphore(limit)
        self._idle: list[Connection] = []

    async def take(self) -> Connection:
        """A connection for one call; waits until there may be one more, and for the server to accept it.

        Raises:
            psycopg.Error: The server does not accept it.
        """
        await self._free.acquire()
        try:
            return await self._idle_one() or await self._new()
        except BaseException:
            self._free.release()
            raise

    async def give_back(self, connection: Connection) -> None:
        """Keep a connection for later calls if it is whole, else end it."""
        try:
            if connection.whole:
                self._idle.append(connection)
            else:
                await connection.close()
        finally:
            self._free.release()

    async def drop_idle(self) -> None:
        """End the connections that no call uses now."""
        while self._idle:
            await self._idle.pop().close()

    @property
    def all_taken(self) -> bool:
        """Whether the next call has to wait."""
        return self._free.locked()

    async def _idle_one(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and connection.silent:
                return connection
            await connection.close()
        return None

    async def _new(self) -> Connection:
        # Statements are not prepared: a pooler between us and the server may lead the next one elsewhere.
        connection = await Connection.connect(
            self._conninfo, autocommit=True, prepare_threshold=None, client_encoding="utf8"
        )
        connection.settle = self._settle
        return connection


def _checked(url: str) -> str:
    try:
        # What follows an `@` in a password that is not encoded would be taken for the host.
        readable = "@" not in str(psycopg.conninfo.conninfo_to_dict(url).get("host", ""))
    except psycopg.Error:
        readable = False
    if not readable:
        # Neither the URL nor what the driver says of it is shown: they may hold a password.
        reason = "is not a URL of Postgres: postgresql://user:password@host:port/database, percent-encoded"
        raise InvalidArgument("Database", "url", "…", reason) from None
    return url
