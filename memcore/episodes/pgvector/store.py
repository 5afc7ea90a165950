"""Episodes on Postgres with pgvector: one table of half-precision vectors per embedding model."""

from __future__ import annotations

from datetime import UTC
from typing import Self

from memcore import guards
from memcore.episodes.memory import SCORE_DECIMALS
from memcore.episodes.pgvector.queries import Queries
from memcore.episodes.pgvector.search import Found, Search
from memcore.episodes.pgvector.setup import extension_schema, make
from memcore.episodes.pgvector.texts import Half, escaped, unescaped, user_key
from memcore.postgres.connections import Connection
from memcore.postgres.database import MAX_CONNECTIONS, TIMEOUT_SECONDS, Call, Database
from memcore.postgres.store import SCHEMA, PostgresStore
from memcore.postgres.tables import Table, name_of
from memcore.types import Embedding, Episode, RecalledEpisode

TABLE = "conversation_events"
EXACT_ROWS = 20_000
"""Up to so many episodes of a user are searched one by one."""


class PgVectorEpisodicStore(PostgresStore):
    """Episodes in a Postgres database with pgvector 0.8 or newer, shared by any number of processes.

    The search is exact for users of up to `exact_rows` episodes, and approximate above: then the best are
    looked for in an index (HNSW), and exactly all the same where that finds too few.

    Args:
        database: Where they are kept.
        model: Name of the embedding model whose vectors are stored here.
        dimension: Components of each vector, 1 to 4,000.
        schema: The Postgres schema of the table; made where it is missing.
        table: Name of the table; each holds one model and dimension.
        exact_rows: Up to so many episodes of a user are searched exactly.
        owns_database: Close the database with the store.
    """

    def __init__(
        self,
        database: Database,
        *,
        model: str,
        dimension: int,
        schema: str = SCHEMA,
        table: str = TABLE,
        exact_rows: int = EXACT_ROWS,
        owns_database: bool = False,
    ) -> None:
        name = type(self).__name__
        self.model = guards.identifier(name, "model", model)
        self.dimension = guards.dimension(name, dimension)
        self._exact_rows = guards.whole_number(name, "exact_rows", exact_rows, at_least=0)
        place = name_of(name, "schema", schema), name_of(name, "table", table)
        made = Table(*place, self._make, model=self.model, dimension=self.dimension)
        super().__init__(database, made, owns_database=owns_database)
        # Made once it is known in which schema the extension is.
        self._queries: Queries
        self._search: Search

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        model: str,
        dimension: int,
        schema: str = SCHEMA,
        table: str = TABLE,
        exact_rows: int = EXACT_ROWS,
        timeout: float = TIMEOUT_SECONDS,
        max_connections: int = MAX_CONNECTIONS,
    ) -> Self:
        """A store with a database of its own, which it closes. Nothing is sent before the first call.

        Args:
            url, timeout, max_connections: As for `Database`.
            model, dimension, schema, table, exact_rows: As for the class.
        """
        return cls(
            Database(url, timeout=timeout, max_connections=max_connections),
            model=model,
            dimension=dimension,
            schema=schema,
            table=table,
            exact_rows=exact_rows,
            owns_database=True,
        )

    async def remember(self, episode: Episode) -> None:
        self._check_open("remember")
        episode = guards.episode("remember", episode)
        vector = guards.unit_vector("remember", episode.embedding, self.dimension)
        parameters = {
            "user_key": user_key(episode.user_id),
            "user_id": episode.user_id,
            "session_id": episode.session_id,
            "episode_id": episode.episode_id,
            "summary": escaped(episode.summary),
            "created_at": episode.created_at,
            "v": Half(vector),
        }
        async with self._call("remember") as call:
            await self._database.write(call, self._queries.remember, parameters)

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        self._check_open("recall")
        user_id = guards.identifier("recall", "user_id", user_id)
        query = guards.unit_vector("recall", embedding, self.dimension)
        k = guards.k("recall", k)
        min_score = guards.min_score("recall", min_score)
        async with self._call("recall") as call:
            found = await self._search.best(self._database, call, user_id, query, k)
        episodes = [_recalled(user_id, row) for row in found]
        # Best first, so those that reach the bound are the same before and after the cut to k.
        return [episode for episode in episodes if min_score is None or episode.score >= min_score]

    async def forget(self, user_id: str) -> int:
        self._check_open("forget")
        user_id = guards.identifier("forget", "user_id", user_id)
        where = {"user_key": user_key(user_id), "user_id": user_id}
        async with self._call("forget") as call:
            (count,) = await self._database.write(call, self._queries.forget, where)
        self._search.large_users.discard(user_id)
        return int(count)

    async def _look(self, call: Call) -> None:
        self._queries = Queries(self._table.identifier, await self._database.run(call, extension_schema))
        self._search = Search(self._queries, self._exact_rows)

    async def _make(self, connection: Connection) -> None:
        await make(connection, self._table)


def _recalled(user_id: str, found: Found) -> RecalledEpisode:
    score = min(1.0, max(-1.0, round(1.0 - found.distance, SCORE_DECIMALS)))
    return RecalledEpisode(
        user_id,
        found.session_id,
        unescaped(found.summary),
        found.episode_id,
        found.created_at.replace(tzinfo=UTC),
        score,
    )
