"""Preferences and episodes on Postgres with pgvector."""

from __future__ import annotations

from collections.abc import AsyncIterator

from psycopg import AsyncConnection, sql

from conformance.backend import Claims, Context, Stores, backend
from memcore.episodes.pgvector import PgVectorEpisodicStore
from memcore.episodes.pgvector.texts import user_key
from memcore.postgres import Database
from memcore.preferences.postgres import PostgresPreferenceStore

EXACT_ROWS = 50
"""Few, so that the checks come to the approximate search too."""

CLAIMS = Claims(
    layers=frozenset({"preferences", "episodes"}),
    snapshot=True,
    persistent=True,
    residue=True,
    approximate=0.9,
    exact_up_to=EXACT_ROWS,
    shared=True,
    durable=True,
)


_TABLES = "SELECT relname FROM pg_catalog.pg_class WHERE relkind = 'r' AND relnamespace = to_regnamespace(%s)"
_ROWS_WITH = (
    "SELECT 1 FROM {} AS stored WHERE position(%s IN stored::text) > 0 OR position(%s IN stored::text) > 0"
)


class Schema:
    """The Postgres schema of a namespace, seen on connections of its own."""

    def __init__(self, ctx: Context) -> None:
        self._url = ctx.servers["postgres"].url
        self._name = ctx.namespace

    async def residue(self, text: str) -> list[str]:
        """Tables with a row in which this text stands, or the key that a user of this name has in indexes."""
        async with await AsyncConnection.connect(self._url) as connection:
            rows = await (await connection.execute(_TABLES, [f'"{self._name}"'])).fetchall()
            return [table for (table,) in rows if await self._has(connection, table, text)]

    async def _has(self, connection: AsyncConnection, table: str, text: str) -> bool:
        query = sql.SQL(_ROWS_WITH).format(sql.Identifier(self._name, table))
        cursor = await connection.execute(query, [text, str(user_key(text))])
        return await cursor.fetchone() is not None

    async def remove(self) -> None:
        """Leave nothing in a database that is not ours."""
        async with await AsyncConnection.connect(self._url, autocommit=True) as connection:
            drop = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(self._name))
            await connection.execute(drop)


@backend("pgvector", CLAIMS, servers=["postgres"])
async def BACKEND(ctx: Context) -> AsyncIterator[Stores]:  # noqa: N802 (a constant to whoever imports it)
    database = Database(ctx.servers["postgres"].url)
    schema = Schema(ctx)
    preferences = PostgresPreferenceStore(database, schema=ctx.namespace)
    episodes = PgVectorEpisodicStore(
        database,
        model=ctx.model,
        dimension=ctx.dimension,
        schema=ctx.namespace,
        exact_rows=EXACT_ROWS,
        owns_database=True,
    )
    try:
        async with episodes, preferences:
            yield Stores(preferences=preferences, episodes=episodes, residue=schema.residue)
    finally:
        if not ctx.again:
            await schema.remove()
