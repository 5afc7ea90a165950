"""Calls to a Postgres database: each takes effect at most once, in time or not at all.

Nothing is sent twice unless the server said that it did nothing. A write carries the time until which it may
take effect, by the server's own clock, and undoes itself after that: so what was given up cannot come later
from a buffer of a server that was away. A call whose connection breaks says at once that nobody knows; what
it sent may still take effect within its time. If the server's clock steps back, so does that limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from psycopg import Error, errors, sql

from memcore import guards
from memcore.errors import MemcoreError, StoreClosed, StoreUnavailable
from memcore.lifetime import Calls, Ending
from memcore.postgres.connections import Connection, Connections, Row
from memcore.postgres.failures import LATE, translated

TIMEOUT_SECONDS = 10.0
MAX_CONNECTIONS = 10
SETTLE_SECONDS = 2.0
"""The last of the time of a call: for the server to say whether it ended what it was asked to give up."""
UNDONE = (errors.SerializationFailure, errors.DeadlockDetected)
"""What the server says when it undid a statement because of others: it may be sent again."""

Parameters: TypeAlias = Mapping[str, object]
T = TypeVar("T")
Work: TypeAlias = Callable[[Connection], Awaitable[T]]
IN_TIME = sql.SQL(
    "extract(epoch FROM clock_timestamp())::float8, 1 / (clock_timestamp() < to_timestamp(%(until)s))::int"
)
"""How the row begins that a write gives: the clock in seconds since the epoch, and a division that is by zero
when it is too late. That undoes what was written, also after waiting for a lock."""
_CLOCK = b"SELECT extract(epoch FROM clock_timestamp())::float8"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a store, however many trips to the server it takes.

    Attributes:
        operation: Named by errors.
        seconds: What it may take.
        deadline: When it has to be over, in the time of the event loop.
    """

    operation: str
    seconds: float
    deadline: float


class Database:
    """A database and its connections, which any number of stores may share in one event loop.

    Args:
        url: `postgresql://user:password@host:port/database` or what else libpq reads.
        timeout: Seconds after which a call raises `StoreUnavailable`.
        max_connections: Calls above so many at once wait for a free connection.
    """

    def __init__(
        self, url: str, *, timeout: float = TIMEOUT_SECONDS, max_connections: int = MAX_CONNECTIONS
    ) -> None:
        self.timeout = guards.seconds("Database", "timeout", timeout)
        limit = guards.whole_number("Database", "max_connections", max_connections, at_least=1)
        self._settle = min(SETTLE_SECONDS, self.timeout / 4)
        self._connections = Connections(url, limit, self._settle)
        self._calls = Calls()
        self._ending = Ending()
        self._ahead: float | None = None

    def call(self, operation: str, seconds: float | None = None) -> Call:
        """A call that begins now, and may take as long as others unless told otherwise."""
        seconds = seconds or self.timeout
        return Call(operation, seconds, asyncio.get_running_loop().time() + seconds)

    async def read(self, call: Call, query: bytes, parameters: Parameters) -> list[Row]:
        """Rows of a query that changes nothing.

        Args:
            call: What it is part of.
            query: With placeholders such as `%(user_id)s`.
            parameters: Their values.

        Raises:
            StoreUnavailable: No answer in time, or the server refused.
            StoreCorrupt: The tables are not those that this version made.
            StoreClosed: Closed, or called from another event loop than before.
        """
        return await self.run(call, lambda connection: connection.fetch(query, parameters))

    async def write(self, call: Call, query: bytes, parameters: Parameters) -> Row:
        """What a query says that writes, unless the server gets to it too late.

        Args:
            call: What it is part of.
            query: Gives one row: `IN_TIME`, which is evaluated last, then whatever else.
            parameters: Values of the other placeholders.

        Raises:
            StoreUnavailable: As for `read`; where there was no answer, it may have been written.
            StoreCorrupt, StoreClosed: As for `read`.
        """
        while True:
            try:
                now, _, *rest = await self._written(call, query, parameters)
            except StoreUnavailable as error:
                if isinstance(error.__cause__, LATE):
                    # The clock of the server is not what it was, or this process was suspended.
                    self._ahead = None
                if isinstance(error.__cause__, UNDONE) and call.deadline > self._time():
                    continue
                raise
            self.learn(now)
            return tuple(rest)

    def learn(self, now: float) -> None:
        """Take in the server's clock, in seconds since the epoch, from a reply; that makes limits early."""
        self._ahead = now - self._time()

    async def run(self, call: Call, work: Work[T]) -> T:
        """Do what `work` does with a connection of its own, in time or not at all; errors as for `read`."""
        if self._ending.began:
            raise StoreClosed(f"{call.operation}: the store was closed meanwhile")
        self._calls.check_loop(call.operation)
        with self._calls.counted():
            try:
                async with self._connected(call) as connection:
                    return await work(connection)
            except MemcoreError:
                raise
            except Exception as error:
                if isinstance(error, errors.ReadOnlySqlTransaction):
                    # After a failover the open connections lead to a server that is no longer the primary.
                    await self._connections.drop_idle()
                raise translated(call.operation, error, call.seconds) from error

    async def aclose(self) -> None:
        """Begin no call any more, wait for those under way, and end the connections."""
        self._calls.check_loop("aclose")
        await self._ending.by(self._end)

    async def _end(self) -> None:
        await self._calls.ended()
        await self._connections.drop_idle()

    async def _written(self, call: Call, query: bytes, parameters: Parameters) -> Row:
        if self._ahead is None:
            self.learn((await self.read(call, _CLOCK, {}))[0][0])
        assert self._ahead is not None
        write = _Write(query, {**parameters, "until": call.deadline + self._ahead})
        try:
            return (await self.run(call, write.send))[0]
        except asyncio.CancelledError:
            if write.unanswered:
                # It may still be on its way: whoever cancelled may rely on its not coming after this.
                await asyncio.sleep(call.deadline - self._time())
            raise

    @asynccontextmanager
    async def _connected(self, call: Call) -> AsyncIterator[Connection]:
        """A connection until a little before the deadline: the server has to say how the call ended."""
        full = self._connections.all_taken
        try:
            async with asyncio.timeout_at(call.deadline - self._settle) as limit:
                connection = await self._connections.take()
                full = False
                try:
                    yield connection
                except Error:
                    raise
                except BaseException:
                    # A request to cancel may be under way: it must not meet the next call.
                    await connection.close()
                    raise
                finally:
                    await self._connections.give_back(connection)
        except TimeoutError as error:
            if not (full and limit.expired()):
                raise
            raise StoreUnavailable(
                f"{call.operation}: all {self._connections.limit} connections were in use for "
                f"{call.seconds:g} s: the server is slow, or too much is asked at once; raise max_connections"
            ) from error

    def _time(self) -> float:
        return asyncio.get_running_loop().time()


class _Write:
    """A statement that is sent once; knows whether the server said what became of it."""

    def __init__(self, query: bytes, parameters: Parameters) -> None:
        self._query = query
        self._parameters = parameters
        self.unanswered = False

    async def send(self, connection: Connection) -> list[Row]:
        try:
            return await connection.fetch(self._query, self._parameters)
        except asyncio.CancelledError:
            self.unanswered = not connection.whole
            raise
