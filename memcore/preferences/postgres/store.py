"""Preferences on Postgres: one row per user and key, every call one statement."""

from __future__ import annotations

from datetime import UTC
from typing import Self

from psycopg import sql

from memcore import guards
from memcore.postgres.connections import Connection
from memcore.postgres.database import IN_TIME, MAX_CONNECTIONS, TIMEOUT_SECONDS, Database
from memcore.postgres.store import SCHEMA, PostgresStore
from memcore.postgres.tables import Table, name_of, query, statements
from memcore.types import Preference

TABLE = "user_preferences"

_GET = "SELECT value FROM {table} WHERE user_id = %(user_id)s AND key = %(key)s"
# As a time without a zone: the session's zone is not ours, and the driver reads no year near 10,000 in it.
_ALL = """
SELECT key, value, updated_at AT TIME ZONE 'UTC' FROM {table} WHERE user_id = %(user_id)s ORDER BY key
"""
_SET = """
INSERT INTO {table} AS old (user_id, key, value, updated_at)
VALUES (%(user_id)s, %(key)s, %(value)s, clock_timestamp())
ON CONFLICT (user_id, key) DO UPDATE
SET value = excluded.value, updated_at = greatest(old.updated_at, excluded.updated_at)
RETURNING {in_time}
"""
_REMOVE = """
WITH gone AS (DELETE FROM {table} WHERE {which} RETURNING 1),
counted AS MATERIALIZED (SELECT count(*) FROM gone)
SELECT {in_time}, count
FROM counted
"""
_ONE = sql.SQL("user_id = %(user_id)s AND key = %(key)s")
_OF_USER = sql.SQL("user_id = %(user_id)s")


class PostgresPreferenceStore(PostgresStore):
    """Preferences in a Postgres database, shared by any number of processes.

    Args:
        database: Where they are kept.
        schema: The Postgres schema of the table; made where it is missing.
        owns_database: Close the database with the store.
    """

    def __init__(self, database: Database, *, schema: str = SCHEMA, owns_database: bool = False) -> None:
        table = Table(name_of(type(self).__name__, "schema", schema), TABLE, self._make)
        super().__init__(database, table, owns_database=owns_database)
        name = table.identifier
        self._get = query(_GET, table=name)
        self._all = query(_ALL, table=name)
        self._set = query(_SET, table=name, in_time=IN_TIME)
        self._delete = query(_REMOVE, table=name, in_time=IN_TIME, which=_ONE)
        self._forget = query(_REMOVE, table=name, in_time=IN_TIME, which=_OF_USER)

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        schema: str = SCHEMA,
        timeout: float = TIMEOUT_SECONDS,
        max_connections: int = MAX_CONNECTIONS,
    ) -> Self:
        """A store with a database of its own, which it closes. Nothing is sent before the first call.

        Args:
            url, timeout, max_connections: As for `Database`.
            schema: As for the class.
        """
        database = Database(url, timeout=timeout, max_connections=max_connections)
        return cls(database, schema=schema, owns_database=True)

    async def get(self, user_id: str, key: str) -> str | None:
        where = self._of_key("get", user_id, key)
        async with self._call("get") as call:
            rows = await self._database.read(call, self._get, where)
        return rows[0][0] if rows else None

    async def set(self, user_id: str, key: str, value: str) -> None:
        where = self._of_key("set", user_id, key)
        value = guards.preference_value("set", value)
        if where["key"] and value:
            async with self._call("set") as call:
                await self._database.write(call, self._set, {**where, "value": value})

    async def all(self, user_id: str) -> dict[str, Preference]:
        where = self._of_user("all", user_id)
        async with self._call("all") as call:
            rows = await self._database.read(call, self._all, where)
        return {key: Preference(value, stamp.replace(tzinfo=UTC)) for key, value, stamp in rows}

    async def delete(self, user_id: str, key: str) -> None:
        where = self._of_key("delete", user_id, key)
        async with self._call("delete") as call:
            await self._database.write(call, self._delete, where)

    async def forget(self, user_id: str) -> int:
        where = self._of_user("forget", user_id)
        async with self._call("forget") as call:
            (count,) = await self._database.write(call, self._forget, where)
        return int(count)

    def _of_user(self, operation: str, user_id: str) -> dict[str, str]:
        self._check_open(operation)
        return {"user_id": guards.identifier(operation, "user_id", user_id)}

    def _of_key(self, operation: str, user_id: str, key: str) -> dict[str, str]:
        return {**self._of_user(operation, user_id), "key": guards.preference_key(operation, key)}

    async def _make(self, connection: Connection) -> None:
        await connection.run(statements(__package__, "table.sql", table=self._table.identifier))
