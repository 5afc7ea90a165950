"""One call while it is under way: how long it waits, how it ends, and what its errors mean."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TypeVar

from memcore import StoreCorrupt, StoreUnavailable

_PAUSE_SECONDS = 0.005
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_FOREIGN = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    # All statements are constants that were tried: one that does not compile has met other tables.
    sqlite3.SQLITE_ERROR,
}
"""What says that the file was not written by us, or was damaged."""

T = TypeVar("T")


class Call:
    """One call while it waits for its turn and for locks of other processes."""

    def __init__(self, operation: str, seconds: float) -> None:
        self.operation = operation
        self.given_up = threading.Event()
        self._deadline = time.monotonic() + seconds

    @property
    def over(self) -> bool:
        return self.given_up.is_set() or time.monotonic() >= self._deadline

    def patiently(self, attempt: Callable[[], T]) -> T:
        """Try until no lock is in the way; nothing has happened in an attempt that met one."""
        while True:
            try:
                return attempt()
            except sqlite3.OperationalError as error:
                if self.over or _code(error) not in _BUSY:
                    raise
            self.given_up.wait(_PAUSE_SECONDS)


async def ended(future: Future[T], given_up: threading.Event) -> T:
    """The result of work in the thread. Whoever is cancelled meanwhile still waits until nothing runs."""
    done = asyncio.wrap_future(future)
    try:
        await asyncio.wait([done])
    except asyncio.CancelledError:
        given_up.set()
        # What has not begun never does. What has begun ends, whole or rolled back, however often we are told.
        if not future.cancel():
            while not done.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([done])
            # Read it, for nobody else will.
            done.exception()
        raise
    return done.result()


@contextmanager
def translated(operation: str, path: str) -> Iterator[None]:
    """Errors of the driver as those of the contract."""
    try:
        yield
    except sqlite3.Error as error:
        if _code(error) in _FOREIGN:
            raise StoreCorrupt(
                f"{operation}: {path} is damaged or not a file of sqlite_memory ({error}); restore it from a "
                "copy, or give the store a file of its own"
            ) from error
        raise StoreUnavailable(f"{operation}: SQLite cannot work with {path}: {error}") from error


def _code(error: sqlite3.Error) -> int:
    """The primary code; the higher bits only tell kinds of it apart."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
