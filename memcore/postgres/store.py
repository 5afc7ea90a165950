"""What stores on Postgres have in common: a table that is set up at first use, and their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from memcore.errors import StoreClosed, StoreUnavailable
from memcore.lifetime import Calls, Closable, Ending
from memcore.postgres.database import Call, Database
from memcore.postgres.tables import SET_UP_SECONDS, Table, set_up

SCHEMA = "public"


class PostgresStore(Closable):
    """A store with a table in a database that may be shared.

    Args:
        database: Where the table is.
        table: How it is made.
        owns_database: Close the database with the store.
    """

    def __init__(self, database: Database, table: Table, *, owns_database: bool) -> None:
        super().__init__()
        self._database = database
        self._table = table
        self._owns_database = owns_database
        self._calls = Calls()
        self._ending = Ending()
        self._is_set_up = False
        self._setting_up: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Set up the table if it is not there yet, however long that takes; `async with` does so too.

        Raises:
            ConfigurationError: The server, or the rights of its user, do not allow it.
            ModelMismatch: The table holds vectors of another model or dimension.
            StoreUnavailable: The server is away.
        """
        async with self._call("open", SET_UP_SECONDS):
            pass

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def aclose(self) -> None:
        self._calls.check_loop("aclose")
        self._closed = True
        await self._ending.by(self._end)

    async def _end(self) -> None:
        if self._setting_up is not None:
            self._setting_up.cancel()
        await self._calls.ended()
        if self._owns_database:
            await self._database.aclose()

    @asynccontextmanager
    async def _call(self, operation: str, seconds: float | None = None) -> AsyncIterator[Call]:
        """A call, once the table is set up; closing waits for its end."""
        self._check_open(operation)
        self._calls.check_loop(operation)
        with self._calls.counted():
            call = self._database.call(operation, seconds)
            if not self._is_set_up:
                await self._ready(call)
            yield call

    async def _ready(self, call: Call) -> None:
        """Wait for the set-up, which goes on for others if this call is cancelled or out of time."""
        if self._setting_up is None:
            self._setting_up = asyncio.create_task(self._set_up(call.operation))
            # Read it, for all that wait may be gone.
            self._setting_up.add_done_callback(lambda task: task.cancelled() or task.exception())
        task, waiter = self._setting_up, asyncio.current_task()
        try:
            async with asyncio.timeout_at(call.deadline):
                await asyncio.shield(task)
        except TimeoutError:
            raise StoreUnavailable(
                f"{call.operation}: the table is still being set up after {call.seconds:g} s; await open() "
                "to wait for that"
            ) from None
        except asyncio.CancelledError:
            if task.cancelled() and waiter is not None and not waiter.cancelling():
                raise StoreClosed(f"{call.operation}: the store was closed meanwhile") from None
            raise

    async def _set_up(self, operation: str) -> None:
        try:
            found = await set_up(self._database, operation, self._table)
            self._table.check(found)
            await self._look(self._database.call(operation))
            self._is_set_up = True
        finally:
            self._setting_up = None

    async def _look(self, call: Call) -> None:
        """Find out what else the store has to know, once its table is there."""
