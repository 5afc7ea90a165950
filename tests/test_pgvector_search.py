"""How the server searches: the plan it takes, whatever its statistics say, and that k rows come back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg
import pytest
import pytest_asyncio

from memcore import RecalledEpisode
from memcore.episodes.pgvector import PgVectorEpisodicStore
from memcore.episodes.pgvector.queries import SEARCH_BY_INDEX
from memcore.episodes.pgvector.texts import Half, user_key
from tests.postgres_help import episode, episodes, fresh, sql, with_place

pytestmark = pytest.mark.asyncio

ROWS, USERS, DIMENSION = 50_000, 500, 8
LARGE = "large"
"""A user with a tenth of the rows, beside 500 with some 90 each."""
STATISTICS = ["stale", "fresh", "vacuumed"]
Vectors = npt.NDArray[np.float64]


class Crowd:
    """A table with many users, whose statistics are of the time when one user had it for himself.

    Attributes:
        vectors: Unit vectors, shape `(ROWS, DIMENSION)`.
        users: Whose they are.
    """

    def __init__(self, url: str) -> None:
        self.url, self.schema = url, fresh()
        self.table = f"{self.schema}.conversation_events"
        rng = np.random.default_rng(0)
        vectors = rng.normal(size=(ROWS, DIMENSION))
        self.vectors: Vectors = vectors / np.linalg.norm(vectors, axis=1)[:, None]
        self.users = [LARGE if n % 10 == 0 else f"user {n % USERS}" for n in range(ROWS)]

    def of(self, user_id: str) -> list[int]:
        """Numbers of the rows of a user."""
        return [n for n, user in enumerate(self.users) if user == user_id]

    def best(self, user_id: str, query: Vectors, k: int) -> list[int]:
        """Numbers of the rows nearest to a query, by the definition."""
        own = np.array(self.of(user_id))
        return own[np.argsort(-(self.vectors[own] @ query))[:k]].tolist()  # type: ignore[no-any-return]

    def fill(self) -> None:
        """Let the server take statistics of ten rows, then copy the others behind its back."""
        find = "SELECT indexdef FROM pg_indexes WHERE schemaname = %s AND indexdef LIKE '%%hnsw%%'"
        ((index,),) = sql(self.url, find, [self.schema])
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"ALTER TABLE {self.table} SET (autovacuum_enabled = off)".encode())
            self._copy(connection, range(0, 100, 10))
            connection.execute(f"VACUUM ANALYZE {self.table}".encode())
            # Beside the index of vectors this takes five times as long.
            connection.execute(f"DROP INDEX {self.schema}.conversation_events_v_idx".encode())
            self._copy(connection, [n for n in range(ROWS) if n >= 100 or n % 10])
            connection.execute("SET maintenance_work_mem = '256MB'")
            connection.execute(index.encode())

    def _copy(self, connection: psycopg.Connection[Any], numbers: Any) -> None:
        columns = "user_key, created_at, user_id, session_id, episode_id, summary, v"
        copy = f"COPY {self.table} ({columns}) FROM STDIN".encode()
        with connection.cursor().copy(copy) as rows:
            for n in numbers:
                user_id = self.users[n]
                vector = json.dumps(self.vectors[n].tolist())
                rows.write_row([user_key(user_id), "2024-01-01", user_id, "s", f"{n}", f"{n}", vector])


@pytest.fixture(scope="module")
def crowd(postgres_url: str) -> Iterator[Crowd]:
    """Filled once, with stale statistics: tests that refresh them come last.

    In a database of its own: what others read in the same one would hold up VACUUM.
    """
    name = fresh("memcore_test")
    sql(postgres_url, f"CREATE DATABASE {name}")
    made = Crowd(with_place(postgres_url, database=name))

    async def make() -> None:
        async with episodes(made.url, made.schema):
            pass

    asyncio.run(make())
    made.fill()
    yield made
    sql(postgres_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module", params=STATISTICS)
def known(request: pytest.FixtureRequest, crowd: Crowd) -> Crowd:
    """The crowd, with statistics of a kind."""
    if request.param != "stale":
        sql(crowd.url, f"{'VACUUM' if request.param == 'vacuumed' else 'ANALYZE'} {crowd.table}")
    return crowd


@pytest_asyncio.fixture
async def store(crowd: Crowd) -> AsyncIterator[PgVectorEpisodicStore]:
    """A store that searches exactly up to 1,000 rows."""
    async with episodes(crowd.url, crowd.schema, exact_rows=1000) as opened:
        yield opened


async def scans(store: PgVectorEpisodicStore, statement: bytes, user_id: str, k: int, **more: int) -> str:
    """The scans of the plan that the server takes, by index and table."""
    vector = np.eye(DIMENSION)[0]
    search = {"user_key": user_key(user_id), "user_id": user_id, "v": Half(vector), "k": k, "ef_search": 200}

    async def explain(connection: psycopg.AsyncConnection[Any]) -> Any:
        async with connection.transaction():
            if statement == store._queries.by_index:
                await connection.execute(SEARCH_BY_INDEX, search)
            cursor = await connection.execute(b"EXPLAIN (FORMAT JSON) " + statement, {**search, **more})
            return (await cursor.fetchone() or [None])[0]

    plan = await store._database.run(store._database.call("explain"), explain)
    return " · ".join(_scans(plan[0]["Plan"]))


def _scans(node: dict[str, Any]) -> Iterator[str]:
    if "Index Name" in node or node.get("Relation Name") == "conversation_events":
        yield f"{node['Node Type']} {node.get('Index Name', '')}".strip()
    for child in node.get("Plans", []):
        yield from _scans(child)


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("k", [3, 300])
async def test_the_exact_search_reads_one_users_range(store: PgVectorEpisodicStore, k: int) -> None:
    """By an index that begins with the user, never the whole table and never the index of vectors."""
    for user_id in ("user 7", LARGE, "nobody"):
        plan = await scans(store, store._queries.exact, user_id, k, rows=1001)
        assert "Seq Scan" not in plan
        assert "_v_idx" not in plan.replace("user_key_seq_v_idx", "")
        assert "conversation_events_user_key_" in plan
        assert plan.count("conversation_events_pkey") == 1


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("k", [3, 100])
async def test_the_approximate_search_goes_by_the_index_of_vectors(
    store: PgVectorEpisodicStore, k: int
) -> None:
    """Whether the user has most rows, some or none: never a sort of what a filter gave."""
    for user_id in ("user 7", LARGE, "nobody"):
        plan = await scans(store, store._queries.by_index, user_id, k, rows=4 * k)
        assert plan.startswith("Index Scan conversation_events_v_idx")
        assert "user_key" not in plan


async def test_after_a_vacuum_one_index_is_enough(crowd: Crowd, store: PgVectorEpisodicStore) -> None:
    """Vectors are read from the index, and only the k best are looked up in the table."""
    sql(crowd.url, f"VACUUM {crowd.table}")
    plan = await scans(store, store._queries.exact, "user 7", 3, rows=1001)
    assert plan == (
        "Index Only Scan conversation_events_user_key_seq_v_idx · Index Scan conversation_events_pkey"
    )


@pytest.mark.parametrize("k", [1, 3, 40, 41, 90, 200])
async def test_k_rows_come_back(known: Crowd, store: PgVectorEpisodicStore, k: int) -> None:
    """Of a user with 90 rows exactly the nearest; of one with 5,000 as many, in order."""
    query = np.random.default_rng(k).normal(size=DIMENSION)
    query /= np.linalg.norm(query)
    small = await store.recall("user 7", query, k)
    assert scores_of(small) == pytest.approx(_expected(known, "user 7", query, k), abs=1e-3)
    large = await store.recall(LARGE, query, k)
    assert len(large) == k
    assert scores_of(large) == sorted(scores_of(large), reverse=True)
    assert LARGE in store._search.large_users
    assert {found.user_id for found in large} == {LARGE}


def scores_of(found: list[RecalledEpisode]) -> list[float]:
    """The scores, in order."""
    return [item.score for item in found]


def _expected(crowd: Crowd, user_id: str, query: Vectors, k: int) -> list[float]:
    return [float(crowd.vectors[n] @ query) for n in crowd.best(user_id, query, k)]


async def test_the_approximate_search_finds_the_best(crowd: Crowd, store: PgVectorEpisodicStore) -> None:
    """Over 50 queries of the large user, more than nine in ten of the ten best are found."""
    hits = 0
    for query in np.random.default_rng(5).normal(size=(50, DIMENSION)):
        found = {int(item.summary) for item in await store.recall(LARGE, query, 10)}
        hits += len(found & set(crowd.best(LARGE, query, 10)))
    assert hits > 450


async def test_a_rare_user_taken_for_a_large_one(store: PgVectorEpisodicStore) -> None:
    """All others are nearer, so the index gives up before it comes to them; they come all the same."""
    far = -np.eye(DIMENSION)[0]
    for n in range(5):
        await store.remember(episode(f"rare {n}", far, user_id="rare"))
    store._search.large_users.add("rare")
    found = await store.recall("rare", np.eye(DIMENSION)[0], 5)
    assert [item.summary for item in found] == [f"rare {n}" for n in range(5)]
    assert await store.forget("rare") == 5


async def test_ties_that_the_index_cuts(store: PgVectorEpisodicStore) -> None:
    """Of 500 equal vectors of a large user those that arrived first come, though the index gives any 400."""
    vector = np.full(DIMENSION, 1.0)
    for n in range(500):
        await store.remember(episode(f"{n}", vector, user_id="ties"))
    store._search.large_users.add("ties")
    for k in (1, 7, 25):
        found = await store.recall("ties", vector, k)
        assert [item.summary for item in found] == [f"{n}" for n in range(k)]
    await store.forget("ties")


async def test_settings_end_with_the_search(store: PgVectorEpisodicStore) -> None:
    """Whoever has the connection next has the server's own settings."""
    names = ("hnsw.ef_search", "hnsw.iterative_scan", "enable_sort", "enable_seqscan")
    store._search.large_users.add(LARGE)
    await store.recall(LARGE, np.eye(DIMENSION)[0])
    (connection,) = store._database._connections._idle
    for name in names:
        row = await (await connection.execute(f"SHOW {name}".encode())).fetchone()
        assert row is not None
        assert (name, row[0]) in {
            ("hnsw.ef_search", "40"),
            ("hnsw.iterative_scan", "off"),
            ("enable_sort", "on"),
            ("enable_seqscan", "on"),
        }


@pytest.mark.parametrize("k", [250, 251, 1000, 10**9, 10**30])
async def test_more_than_an_index_can_look_at(crowd: Crowd, store: PgVectorEpisodicStore, k: int) -> None:
    """A k that an approximate search does not reach is searched exactly."""
    query = np.eye(DIMENSION)[0]
    found = await store.recall(LARGE, query, k)
    expected = crowd.best(LARGE, query, min(k, ROWS))
    assert len(found) == len(expected)
    exact = [float(crowd.vectors[n] @ query) for n in expected]
    assert scores_of(found) == pytest.approx(exact, abs=1e-3)
