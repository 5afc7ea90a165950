"""Stores on Postgres that are wrong: the reference with one statement changed, and a tutorial's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, TypeVar

from psycopg import sql

from conformance.backend import Context, Layer, Stores, backend
from conformance.backends import pgvector
from conformance.mutants.making import capitals, claimed, parted, said_of
from memcore import RecalledEpisode, guards
from memcore.episodes.pgvector import PgVectorEpisodicStore
from memcore.postgres.connections import Connection
from memcore.postgres.database import Call, Database
from memcore.postgres.tables import query
from memcore.preferences.postgres import PostgresPreferenceStore
from memcore.types import Embedding

Kind = TypeVar("Kind", bound=PgVectorEpisodicStore | PostgresPreferenceStore)


def on_postgres(*clauses: str, **said: Any) -> Callable[[type[Kind]], type[Kind]]:
    """Enter a preference store or an episodic one."""
    about, claims = parted(said)

    def register(kind: type[Kind]) -> type[Kind]:
        layer: Layer = "episodes" if issubclass(kind, PgVectorEpisodicStore) else "preferences"

        @backend(capitals(kind.__name__), claimed(pgvector.CLAIMS, layer, claims), servers=["postgres"])
        async def opened(ctx: Context) -> AsyncIterator[Stores]:
            schema = pgvector.Schema(ctx)
            database = Database(ctx.servers["postgres"].url)
            try:
                async with kind(
                    database, schema=ctx.namespace, owns_database=True, **_more(kind, ctx)
                ) as store:
                    yield Stores(**{layer: store}, residue=schema.residue)  # type: ignore[arg-type]
            finally:
                if not ctx.again:
                    await schema.remove()

        globals()[opened.name] = opened
        said_of(opened, kind, clauses, **about)
        return kind

    return register


def _more(kind: type[Any], ctx: Context) -> dict[str, Any]:
    if not issubclass(kind, PgVectorEpisodicStore):
        return {}
    return {"model": ctx.model, "dimension": ctx.dimension, "exact_rows": pgvector.EXACT_ROWS}


class _Changed(PgVectorEpisodicStore):
    """The reference with something else in place of a part of its searches."""

    old, new = b"", b""

    async def _look(self, call: Call) -> None:
        await super()._look(call)
        assert self.old in self._queries.exact
        self._queries.exact = self._queries.exact.replace(self.old, self.new)
        self._queries.by_index = self._queries.by_index.replace(self.old, self.new)


@on_postgres(
    "EPI-005",
    "EPI-003",
    fragment="got:      [('index', 'of index'), ('index', 'o",
    report="mem0ai/mem0#1805, google/adk-python#1019",
    may="EPI-011 EPI-013",
)
class UserFilterDropped(_Changed):
    """One statement of the reference has lost its filter by user."""

    old, new = b"WHERE user_key = %(user_key)s", b"WHERE user_key = user_key"

    async def _look(self, call: Call) -> None:
        await super()._look(call)
        self._queries.exact = self._queries.exact.replace(b"AND user_id = %(user_id)s", b"")


@on_postgres(
    "EPI-008",
    fragment="got:      ['26']",
    report="pgvector/pgvector#837, qdrant/qdrant#1788",
    may="EPI-001 EPI-016",
)
class TiesByChance(_Changed):
    """Nothing but the distance orders the rows."""

    old, new = b"ORDER BY distance, seq LIMIT", b"ORDER BY distance, md5(seq::text) LIMIT"

    async def _look(self, call: Call) -> None:
        await super()._look(call)
        self._queries.exact = self._queries.exact.replace(b"best.distance, best.seq", b"best.distance")


@on_postgres("EPI-006", fragment="scores at 0°", report="mem0ai/mem0#4453", may="EPI-007 EPI-014")
class PgvectorScoreIsDistance(PgVectorEpisodicStore):
    """What the operator gives, a distance, is handed out as the score."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        found = await super().recall(user_id, embedding, k, min_score)
        return [replace(item, score=1 - item.score) for item in found]


@on_postgres(
    "EPI-003",
    fragment="recall of 3 of 300",
    report="pgvector/pgvector#751, pgvector/pgvector#684, plastic-labs/honcho#1048, dnotitia/akb#212",
    may="EPI-008 EPI-016",
)
class FilteredByTheIndex(PgVectorEpisodicStore):
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


@on_postgres(
    "PRE-008",
    fragment="got:      ['10', '9', '_', 'A', 'a', 'a b', 'a",
    report="an order that is not of code points",
)
class OrderedWithoutCase(PostgresPreferenceStore):
    """Keys come in an order in which case does not count."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._all = self._all.replace(b"ORDER BY key", b"ORDER BY lower(key), key")


@on_postgres(
    "PRE-003",
    fragment="got:      {'k': 'of user 16', 'of 14': 'of use",
    report="langchain-ai/langgraphjs#2512, langchain-ai/langgraph#8214",
)
class UsersAreLike(PostgresPreferenceStore):
    """User ids are patterns of LIKE."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._all = self._all.replace(b"user_id = %(user_id)s", b"user_id LIKE %(user_id)s")


@on_postgres(killable_at=2, report="owncloud/core#23213, masumi-network/sokosumi#1865")
class SelectsThenInserts(PostgresPreferenceStore):
    """A key that is not there is inserted, and one that is there updated, in two calls."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        head, _, tail = self._set.partition(b"ON CONFLICT")
        self._insert = head + b"RETURNING" + tail.partition(b"RETURNING")[2]

    async def set(self, user_id: str, key: str, value: str) -> None:
        where = self._of_key("set", user_id, key)
        if where["key"] and await super().get(user_id, key) is None and guards.preference_value("set", value):
            async with self._call("set") as call:
                stored = {**where, "value": guards.preference_value("set", value)}
                await self._database.write(call, self._insert, stored)
        else:
            await super().set(user_id, key, value)
