"""Preferences in SQLite: one row per user and key."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from memcore import Preference, guards

from sqlite_memory.database import Database, SqliteStore

_GET = "SELECT value FROM preferences WHERE user_id = ? AND key = ?"
_SET = """
INSERT INTO preferences (user_id, key, value, updated_at) VALUES (?, ?, ?, ?)
ON CONFLICT (user_id, key) DO UPDATE
SET value = excluded.value, updated_at = max(updated_at, excluded.updated_at)
"""
_ALL = "SELECT key, value, updated_at FROM preferences WHERE user_id = ? ORDER BY key"
_DELETE = "DELETE FROM preferences WHERE user_id = ? AND key = ?"
_FORGET = "DELETE FROM preferences WHERE user_id = ?"


class SqlitePreferenceStore(SqliteStore):
    """Preferences in a SQLite file.

    Args:
        database: Where they are kept.
        now: The clock, in seconds since the epoch.
    """

    def __init__(self, database: Database, *, now: Callable[[], float] = time.time) -> None:
        super().__init__(database)
        self._now = now

    async def get(self, user_id: str, key: str) -> str | None:
        where = self._of_key("get", user_id, key)
        with self._calls.counted():
            row = await self._database.read("get", lambda db: db.execute(_GET, where).fetchone())
        return row[0] if row else None

    async def set(self, user_id: str, key: str, value: str) -> None:
        user_id, key = self._of_key("set", user_id, key)
        row = user_id, key, guards.preference_value("set", value), self._now()
        if all(row[:3]):
            with self._calls.counted():
                await self._database.write("set", lambda db: db.execute(_SET, row))

    async def all(self, user_id: str) -> dict[str, Preference]:
        where = self._of_user("all", user_id)
        with self._calls.counted():
            rows = await self._database.read("all", lambda db: db.execute(_ALL, where).fetchall())
        return {key: Preference(value, datetime.fromtimestamp(at, UTC)) for key, value, at in rows}

    async def delete(self, user_id: str, key: str) -> None:
        where = self._of_key("delete", user_id, key)
        with self._calls.counted():
            await self._database.write("delete", lambda db: db.execute(_DELETE, where), erase=True)

    async def forget(self, user_id: str) -> int:
        where = self._of_user("forget", user_id)
        with self._calls.counted():
            return await self._database.write(
                "forget", lambda db: db.execute(_FORGET, where).rowcount, erase=True
            )

    def _of_user(self, operation: str, user_id: str) -> tuple[str]:
        self._check_open(operation)
        return (guards.identifier(operation, "user_id", user_id),)

    def _of_key(self, operation: str, user_id: str, key: str) -> tuple[str, str]:
        return *self._of_user(operation, user_id), guards.preference_key(operation, key)
