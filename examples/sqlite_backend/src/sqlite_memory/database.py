"""One SQLite file, one connection, and one thread that alone uses it, so that the event loop never waits."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from os import PathLike, fspath
from types import TracebackType
from typing import Self, TypeAlias, TypeVar

from memcore import StoreClosed, guards
from memcore.lifetime import Calls, Closable, Ending

from sqlite_memory.calls import Call, ended, translated
from sqlite_memory.layout import set_up

TIMEOUT_SECONDS = 10.0
_TRY_SECONDS = 0.1
"""How long SQLite waits for a lock before we look whether anybody still wants the answer."""
_PRAGMAS = (
    # Readers and the writer do not wait for each other.
    "PRAGMA journal_mode = WAL",
    # Every commit is synced: what was acknowledged survives the loss of power.
    "PRAGMA synchronous = FULL",
    # What is deleted is overwritten by zeros, and not only unlinked.
    "PRAGMA secure_delete = ON",
    "PRAGMA foreign_keys = ON",
)
T = TypeVar("T")
Work: TypeAlias = Callable[[sqlite3.Connection], T]
"""What a call does within its transaction, in the thread of the database."""


class Database:
    """A file that any number of stores share, and that other processes may open too.

    It is opened, and made where it is missing, by the first call.

    Args:
        path: Where the file is, or is made. SQLite puts two files beside it, `-wal` and `-shm`. Not on a
            network drive: its locks do not work there.
        timeout: Seconds after which a call that waits for other processes raises `StoreUnavailable`.
    """

    def __init__(self, path: str | PathLike[str], *, timeout: float = TIMEOUT_SECONDS) -> None:
        self.path = fspath(path)
        self._timeout = guards.seconds("Database", "timeout", timeout)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite_memory")
        self._connection: sqlite3.Connection | None = None
        self._calls = Calls()
        self._ending = Ending()

    async def read(self, operation: str, work: Work[T]) -> T:
        """Look at one instant of the file."""
        return await self._run(operation, "BEGIN", work)

    async def write(self, operation: str, work: Work[T], *, erase: bool = False) -> T:
        """Change the file: all that `work` does, or nothing where it raises.

        With `erase`, what was deleted leaves the log too, unless another process is reading it.
        """
        return await self._run(operation, "BEGIN IMMEDIATE", work, erase=erase)

    async def aclose(self) -> None:
        """Wait for calls that are under way, close the file and end the thread."""
        await self._ending.by(self._end)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _run(self, operation: str, begin: str, work: Work[T], *, erase: bool = False) -> T:
        if self._ending.began:
            raise StoreClosed(f"{operation}: the database {self.path} was closed; open a new one")
        call = Call(operation, self._timeout)
        with self._calls.counted():
            future = self._thread.submit(self._transact, call, begin, work, erase)
            return await ended(future, call.given_up)

    async def _end(self) -> None:
        await self._calls.ended()
        await ended(self._thread.submit(self._disconnect), threading.Event())
        self._thread.shutdown()

    # From here on in the thread.

    def _transact(self, call: Call, begin: str, work: Work[T], erase: bool) -> T:
        with translated(call.operation, self.path):
            connection = self._connection or self._connect(call)
            call.patiently(lambda: _begin(connection, begin))
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                self._roll_back(connection)
                raise
            if erase:
                # Old pages stand in the log until it is written over. A reader elsewhere puts that off.
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return result

    def _connect(self, call: Call) -> sqlite3.Connection:
        # Turning to WAL meets locks of others who do the same, and SQLite itself does not wait for these.
        self._connection = call.patiently(lambda: _open(self.path))
        return self._connection

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        try:
            # Some errors have rolled back already.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            # What caused this is raised; the next call begins with a connection that is in order.
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class SqliteStore(Closable):
    """What the three stores share: a database that was handed in, and an end that waits for calls.

    Args:
        database: Stays open when the store is closed.
    """

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self._calls = Calls()

    async def aclose(self) -> None:
        await super().aclose()
        await self._calls.ended()


def _open(path: str) -> sqlite3.Connection:
    # Transactions are begun and ended here and nowhere else: the driver begins none of its own.
    connection = sqlite3.connect(path, timeout=_TRY_SECONDS, isolation_level=None)
    try:
        for pragma in _PRAGMAS:
            connection.execute(pragma).fetchall()
        set_up(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _begin(connection: sqlite3.Connection, begin: str) -> None:
    connection.execute(begin)
    try:
        # A plain BEGIN looks at nothing yet. Now it has its instant, and no lock can be in its way later.
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.Error:
        connection.execute("ROLLBACK")
        raise
