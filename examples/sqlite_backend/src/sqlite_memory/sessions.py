"""Sessions in SQLite: a row for each turn, compressed by the algorithm of memcore."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from memcore import (
    RETRY_WINDOW,
    SESSION_TTL_SECONDS,
    ChatTurn,
    Compressor,
    CountPolicy,
    SessionSummary,
    guards,
)
from memcore.compression import Compressions, Rewrite
from memcore.policy import Size

from sqlite_memory import session_rows as rows
from sqlite_memory.database import Database, SqliteStore


class SqliteSessionStore(SqliteStore):
    """Sessions in a SQLite file.

    Args:
        database: Where they are kept.
        compressor: When and how histories are compressed; by default 40 → 20 turns with no summarizer.
        ttl_seconds: A session to which nothing was appended for so long is gone.
        retry_window: A turn sent again is recognized while fewer than so many came after it.
        now: The clock, in seconds since the epoch; the same in all processes that share the file.
    """

    def __init__(
        self,
        database: Database,
        compressor: Compressor | None = None,
        *,
        ttl_seconds: float = SESSION_TTL_SECONDS,
        retry_window: int = RETRY_WINDOW,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(database)
        name = type(self).__name__
        self._compressor = compressor or Compressor(CountPolicy())
        self._compressions = Compressions(self._compressor)
        self._policy = self._compressor.policy
        self._ttl = guards.ttl(name, ttl_seconds)
        self._retry_window = guards.whole_number(name, "retry_window", retry_window, at_least=1)
        self._now = now

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        self._check_open("append")
        session_id = guards.identifier("append", "session_id", session_id)
        batch = [rows.Weighed(turn, self._policy.weigh(turn)) for turn in guards.turns("append", turns)]

        def store(db: sqlite3.Connection) -> Size:
            now = self._drop_expired(db)
            session = rows.renew(db, session_id, now=now, expires_at=now + self._ttl)
            rows.add(db, session, session_id, batch)
            rows.unlearn(db, session, self._retry_window)
            return rows.size(db, session)

        with self._calls.counted():
            size = await self._database.write("append", store)
            # Closing meanwhile has ended the compressions, and none begins after that.
            if self._policy.due(size) and not self._closed:
                await self._compressions.run(_Compressible(self, session_id))

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        return await self._read("get_window", session_id, limit)

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        return await self._read("get_history", session_id, None)

    async def clear(self, session_id: str) -> None:
        self._check_open("clear")
        where = [guards.identifier("clear", "session_id", session_id)]
        with self._calls.counted():
            await self._database.write(
                "clear", lambda db: db.execute("DELETE FROM sessions WHERE session_id = ?", where), erase=True
            )

    async def list_sessions(self) -> list[SessionSummary]:
        self._check_open("list_sessions")

        def look(db: sqlite3.Connection) -> list[tuple[str, int, float]]:
            self._drop_expired(db)
            return rows.listing(db)

        with self._calls.counted():
            found = await self._database.write("list_sessions", look)
        return [
            SessionSummary(session_id, turns, datetime.fromtimestamp(updated_at, UTC))
            for session_id, turns, updated_at in found
        ]

    async def aclose(self) -> None:
        self._closed = True
        await self._compressions.aclose()
        await super().aclose()

    async def _read(self, operation: str, session_id: str, limit: int | None) -> list[ChatTurn]:
        self._check_open(operation)
        session_id = guards.identifier(operation, "session_id", session_id)
        limit = guards.limit(operation, limit)

        def look(db: sqlite3.Connection) -> list[ChatTurn]:
            self._drop_expired(db)
            session = rows.find(db, session_id)
            return rows.window(db, session, limit) if session is not None else []

        with self._calls.counted():
            # A write, as every use of a session: it removes what has expired.
            return await self._database.write(operation, look)

    def _drop_expired(self, db: sqlite3.Connection) -> float:
        """The time of this transaction, by which nothing that has expired is left."""
        now = self._now()
        rows.drop_expired(db, now)
        return now


class _Compressible:
    """One session as compression sees it, for the time of one trigger."""

    def __init__(self, store: SqliteSessionStore, session_id: str) -> None:
        self.session_id = session_id
        self._store = store
        self._database = store._database
        # Twice what a summary may take: after that, a process that died no longer keeps others from it.
        self._lease_seconds = 2 * store._compressor.timeout
        self._read: list[int] = []

    async def claim(self, owner: str) -> bool:
        def mark(db: sqlite3.Connection) -> bool:
            now = self._store._now()
            db.execute(
                "UPDATE sessions SET compressor = ?, compressing_until = ? "
                "WHERE session_id = ? AND (compressor IS NULL OR compressing_until <= ?)",
                [owner, now + self._lease_seconds, self.session_id, now],
            )
            found = db.execute("SELECT compressor FROM sessions WHERE session_id = ?", [self.session_id])
            # A session that is gone is nobody's: reading it shows that there is nothing to do.
            return found.fetchone() in (None, (owner,))

        return await self._database.write("append", mark)

    async def release(self, owner: str) -> Size:
        def unmark(db: sqlite3.Connection) -> Size:
            db.execute(
                "UPDATE sessions SET compressor = NULL WHERE session_id = ? AND compressor = ?",
                [self.session_id, owner],
            )
            session = rows.find(db, self.session_id)
            return rows.size(db, session) if session is not None else Size(0, 0)

        return await self._database.write("append", unmark)

    async def read(self) -> Sequence[ChatTurn]:
        def look(db: sqlite3.Connection) -> list[tuple[int, ChatTurn]]:
            session = rows.find(db, self.session_id)
            return rows.history(db, session) if session is not None else []

        found = await self._database.read("append", look)
        self._read = [number for number, _ in found]
        return [turn for _, turn in found]

    async def commit(self, rewrite: Rewrite) -> bool:
        new = rewrite.head
        head = rows.Weighed(new, self._store._policy.weigh(new)) if new is not None else None

        def replace(db: sqlite3.Connection) -> bool:
            self._store._drop_expired(db)
            session = rows.find(db, self.session_id)
            # Numbers never come again: cleared and begun anew, a session has others.
            return session is not None and rows.rewrite(db, session, self._read[: rewrite.cut], head)

        return await self._database.write("append", replace)
