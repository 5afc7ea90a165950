"""Episodic stores on Postgres that are wrong: the reference with one statement changed, and a tutorial's."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from dataclasses import replace

from psycopg import sql

from conformance.backend import Context, Stores, backend
from conformance.backends import pgvector
from memcore import RecalledEpisode
from memcore.episodes.pgvector import PgVectorEpisodicStore
from memcore.postgres.connections import Connection
from memcore.postgres.database import Call, Database
from memcore.postgres.tables import query
from memcore.types import Embedding
from tests.wrong import WRONG, Wrong

CLAIMS = replace(pgvector.CLAIMS, layers=frozenset({"episodes"}))


def on_server(name: str, kind: type[PgVectorEpisodicStore], *clauses: str) -> None:
    """Register a kind of store."""

    @backend(name, CLAIMS, servers=["postgres"])
    async def opened(ctx: Context) -> AsyncIterator[Stores]:
        schema = pgvector.Schema(ctx)
        options = {"schema": ctx.namespace, "exact_rows": pgvector.EXACT_ROWS, "owns_database": True}
        database = Database(ctx.servers["postgres"].url)
        store = kind(database, model=ctx.model, dimension=ctx.dimension, **options)  # type: ignore[arg-type]
        try:
            async with store:
                yield Stores(episodes=store, residue=schema.residue)
        finally:
            if not ctx.again:
                await schema.remove()

    WRONG[name] = Wrong(f"{__name__}:{name}", clauses)
    setattr(sys.modules[__name__], name, opened)


class _Changed(PgVectorEpisodicStore):
    """The reference with something else in place of a part of its searches."""

    old, new = b"", b""

    async def _look(self, call: Call) -> None:
        await super()._look(call)
        assert self.old in self._queries.exact
        self._queries.exact = self._queries.exact.replace(self.old, self.new)
        self._queries.by_index = self._queries.by_index.replace(self.old, self.new)


class _UserFilterDropped(_Changed):
    old, new = b"WHERE user_key = %(user_key)s", b"WHERE user_key = user_key"

    async def _look(self, call: Call) -> None:
        await super()._look(call)
        self._queries.exact = self._queries.exact.replace(b"AND user_id = %(user_id)s", b"")


class _TiesByChance(_Changed):
    old, new = b"ORDER BY distance, seq LIMIT", b"ORDER BY distance, md5(seq::text) LIMIT"

    async def _look(self, call: Call) -> None:
        await super()._look(call)
        self._queries.exact = self._queries.exact.replace(b"best.distance, best.seq", b"best.distance")


class _ScoreIsDistance(PgVectorEpisodicStore):
    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        found = await super().recall(user_id, embedding, k, min_score)
        return [replace(item, score=1 - item.score) for item in found]


class _FilteredByTheIndex(PgVectorEpisodicStore):
    """As in tutorials: rows of this user, in the order of the operator; the planner does the rest."""

    _INDEXES = """
    DROP INDEX {schema}.conversation_events_user_key_seq_v_idx;
    DROP INDEX {schema}.conversation_events_user_key_episode_id_idx;
    CREATE UNIQUE INDEX ON {table} (episode_id, user_key);
    CREATE INDEX ON {table} (user_id)
    """
    _RECALL = """
    SELECT 0::bigint, 0::float8, v OPERATOR({vectors}.<=>) %(v)s::{vectors}.halfvec, session_id, summary,
        episode_id, created_at AT TIME ZONE 'UTC'
    FROM {table} WHERE user_id = %(user_id)s
    ORDER BY v OPERATOR({vectors}.<=>) %(v)s::{vectors}.halfvec LIMIT %(k)s
    """

    async def _make(self, connection: Connection) -> None:
        await super()._make(connection)
        schema = sql.Identifier(self._table.schema)
        await connection.run(query(self._INDEXES, schema=schema, table=self._table.identifier))

    async def _look(self, call: Call) -> None:
        await super()._look(call)
        vectors = sql.Identifier("public")
        self._queries.exact = query(self._RECALL, vectors=vectors, table=self._table.identifier)


on_server("USER_FILTER_DROPPED", _UserFilterDropped, "EPI-005", "EPI-003")
on_server("PGVECTOR_SCORE_IS_DISTANCE", _ScoreIsDistance, "EPI-006")
on_server("TIES_BY_CHANCE", _TiesByChance, "EPI-008")
on_server("FILTERED_BY_THE_INDEX", _FilteredByTheIndex, "EPI-003")
