"""The table of the older schema is taken over, whole or not at all."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from memcore import ConfigurationError, ModelMismatch, StoreUnavailable
from memcore.episodes.pgvector import PgVectorEpisodicStore
from tests.postgres_help import episode, fresh, sql, with_options, with_place

pytestmark = [pytest.mark.asyncio, pytest.mark.clause("EPI-023")]

DIMENSION = 1536
RNG = np.random.default_rng(0)
STAMP = datetime(2024, 5, 1, 12, 30, 0, 123456, tzinfo=UTC)


def older(url: str, *, id_: str = "bigserial PRIMARY KEY", stamp: str = "timestamptz", more: str = "") -> str:
    """A schema with an older table in it."""
    schema = fresh()
    sql(url, f"CREATE EXTENSION IF NOT EXISTS vector; CREATE SCHEMA {schema}")
    sql(
        url,
        f"CREATE TABLE {schema}.conversation_events (id {id_}, user_id text, summary text, "
        f"embedding vector({DIMENSION}), created_at {stamp} DEFAULT now() {more})",
    )
    sql(
        url,
        f"CREATE INDEX ON {schema}.conversation_events USING hnsw (embedding vector_cosine_ops)",
    )
    return schema


def add(url: str, schema: str, user_id: str | None, summary: str, vector: Any, **columns: object) -> None:
    """A row of an older table."""
    values = {"user_id": user_id, "summary": summary, "embedding": text(vector), **columns}
    names, places = ", ".join(values), ", ".join(["%s"] * len(values))
    table = f"{schema}.conversation_events"
    sql(url, f"INSERT INTO {table} ({names}) VALUES ({places})", list(values.values()))


def text(vector: Any) -> str | None:
    """A vector as pgvector reads it."""
    return None if vector is None else str([float(value) for value in vector])


def opened(url: str, schema: str, *, model: str = "ada", dimension: int = DIMENSION) -> PgVectorEpisodicStore:
    """A store over it."""
    return PgVectorEpisodicStore.from_url(url, model=model, dimension=dimension, schema=schema)


async def test_rows_and_their_order_are_taken_over(postgres_url: str) -> None:
    """By time, then by id; texts, times, ids and scores as they were; a new one comes after them."""
    schema = older(postgres_url)
    vector = RNG.normal(size=DIMENSION)
    later = STAMP.replace(year=2025)
    for id_, summary, stamp in ((3, "third", later), (10, "second", STAMP), (9, "fi\x1arst", STAMP)):
        add(postgres_url, schema, "u", summary, 7 * vector, id=id_, created_at=stamp)
    add(postgres_url, schema, "v", "of another", -vector)
    async with opened(postgres_url, schema) as store:
        await store.remember(episode("new", vector))
        found = await store.recall("u", vector, 10)
        assert [item.summary for item in found] == ["fi\x1arst", "second", "third", "new"]
        assert [item.episode_id for item in found[:3]] == ["9", "10", "3"]
        assert [item.created_at for item in found[:3]] == [STAMP, STAMP, later]
        assert {item.session_id for item in found[:3]} == {""}
        assert {item.score for item in found} == {1.0}
        assert [item.score for item in await store.recall("v", vector)] == [-1.0]
    async with opened(postgres_url, schema) as store:
        assert len(await store.recall("u", vector, 10)) == 4
        assert await store.forget("u") == 4


async def test_vectors_without_a_direction_are_kept_and_reported(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Zero and missing ones are never recalled, and are forgotten with the others."""
    schema = older(postgres_url)
    vector = RNG.normal(size=DIMENSION)
    tiny = [1e-30] * DIMENSION
    for summary, value in (("zero", [0.0] * DIMENSION), ("none", None), ("tiny", tiny), ("one", vector)):
        add(postgres_url, schema, "u", summary, value)
    with caplog.at_level(logging.WARNING, "memcore"):
        async with opened(postgres_url, schema) as store:
            assert {item.summary for item in await store.recall("u", vector, 10)} == {"one", "tiny"}
            assert await store.forget("u") == 4
    assert f"2 episodes of {schema}.conversation_events have a vector that is zero or missing" in caplog.text


async def test_the_first_opener_declares_the_model(postgres_url: str) -> None:
    """Whoever comes later has to name the same."""
    schema = older(postgres_url)
    async with opened(postgres_url, schema, model="ada"):
        pass
    with pytest.raises(
        ModelMismatch, match=r"model 'ada' and dimension 1536, not vectors of model 'bob' and dimension 1536"
    ):
        async with opened(postgres_url, schema, model="bob"):
            pass


async def test_another_dimension_is_refused(postgres_url: str) -> None:
    """Before anything is changed: whoever knows the right one can still open it."""
    schema = older(postgres_url)
    add(postgres_url, schema, "u", "x", [1.0] * DIMENSION)
    with pytest.raises(ModelMismatch, match=r"dimension 1536 .* not of 'ada' and 768"):
        async with opened(postgres_url, schema, dimension=768):
            pass
    async with opened(postgres_url, schema) as store:
        assert len(await store.recall("u", [1.0] * DIMENSION)) == 1


@pytest.mark.parametrize(
    ("id_", "ids"),
    [("uuid PRIMARY KEY", ["00000000-0000-0000-0000-00000000000" + d for d in "12"]), ("text", ["a", "b"])],
)
async def test_other_kinds_of_columns(postgres_url: str, id_: str, ids: list[str]) -> None:
    """Ids of other types are kept as texts; times without a zone are taken as UTC."""
    schema = older(postgres_url, id_=id_, stamp="timestamp")
    for name in reversed(ids):
        add(
            postgres_url, schema, "u", name, [1.0] * DIMENSION, id=name, created_at=STAMP.replace(tzinfo=None)
        )
    async with opened(postgres_url, schema) as store:
        found = await store.recall("u", [1.0] * DIMENSION)
    assert [item.episode_id for item in found] == ids
    assert [item.created_at for item in found] == [STAMP, STAMP]


@pytest.mark.parametrize(
    ("stamp", "given", "read"),
    [
        ("timestamp(3)", "2024-01-01 12:00:00", datetime(2024, 1, 1, 12, tzinfo=UTC)),
        ("date", "2024-01-01", datetime(2024, 1, 1, tzinfo=UTC)),
        ("timestamptz", "infinity", datetime.max.replace(tzinfo=UTC)),
        ("timestamptz", "0044-03-15 BC", datetime.min.replace(tzinfo=UTC)),
    ],
)
async def test_times_of_any_kind(postgres_url: str, stamp: str, given: str, read: datetime) -> None:
    """Without a zone they are UTC, whatever the session's; outside of what Python has, its first and last."""
    schema = older(postgres_url, stamp=stamp)
    add(postgres_url, schema, "u", "x", [1.0] * DIMENSION, created_at=given)
    async with opened(with_options(postgres_url, TimeZone="Asia/Shanghai"), schema) as store:
        assert [item.created_at for item in await store.recall("u", [1.0] * DIMENSION)] == [read]


async def test_grants_are_taken_over(postgres_url: str, role: str) -> None:
    """Whoever could read the older table can use the store as far as before."""
    schema = older(postgres_url)
    add(postgres_url, schema, "u", "x", [1.0] * DIMENSION)
    sql(postgres_url, f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    sql(postgres_url, f"GRANT SELECT ON {schema}.conversation_events TO {role}")
    async with opened(postgres_url, schema):
        pass
    async with opened(with_place(postgres_url, user=role), schema) as store:
        assert len(await store.recall("u", [1.0] * DIMENSION)) == 1
        with pytest.raises(StoreUnavailable, match=r"permission denied .* grant it"):
            await store.forget("u")


async def test_policies_are_not_lost(postgres_url: str) -> None:
    """A table that hides rows from some is not copied into one that shows them to all."""
    schema = older(postgres_url)
    sql(postgres_url, f"ALTER TABLE {schema}.conversation_events ENABLE ROW LEVEL SECURITY")
    with pytest.raises(ConfigurationError, match=r"policies or partitions, which would be lost"):
        async with opened(postgres_url, schema):
            pass


async def test_two_rows_of_one_id(postgres_url: str) -> None:
    """A store holds an id of a user once: the sentence says what is wrong, and all is as it was."""
    schema = older(postgres_url, id_="bigint")
    for summary in ("a", "b"):
        add(postgres_url, schema, "u", summary, [1.0] * DIMENSION, id=1)
    with pytest.raises(ConfigurationError, match=r"cannot be taken over .duplicate key"):
        async with opened(postgres_url, schema):
            pass
    assert sql(postgres_url, f"SELECT count(embedding) FROM {schema}.conversation_events") == [(2,)]


async def test_what_is_no_table(postgres_url: str) -> None:
    """A view in its place is named as what it is not."""
    schema = fresh()
    sql(postgres_url, f"CREATE SCHEMA {schema}; CREATE VIEW {schema}.conversation_events AS SELECT 1 AS id")
    with pytest.raises(ConfigurationError, match=r"neither of memcore nor of the older schema, a table"):
        async with opened(postgres_url, schema):
            pass


async def test_a_lost_registry(postgres_url: str) -> None:
    """A table of memcore itself without its row, as after a restore of some tables only, is told apart."""
    schema = fresh()
    async with opened(postgres_url, schema):
        pass
    sql(postgres_url, f"DROP TABLE {schema}.memcore_tables")
    with pytest.raises(
        ConfigurationError, match=r"made by memcore, and its row in memcore_tables is missing"
    ):
        async with opened(postgres_url, schema):
            pass


async def test_a_row_without_a_time(postgres_url: str) -> None:
    """It arrived last, and has the time of the take-over."""
    schema = older(postgres_url)
    add(postgres_url, schema, "u", "undated", [1.0] * DIMENSION, created_at=None)
    add(postgres_url, schema, "u", "dated", [1.0] * DIMENSION, created_at=STAMP)
    async with opened(postgres_url, schema) as store:
        found = await store.recall("u", [1.0] * DIMENSION)
    assert [item.summary for item in found] == ["dated", "undated"]
    assert found[1].created_at > STAMP


async def test_a_table_with_more_columns_is_left_alone(postgres_url: str) -> None:
    """What cannot be kept is not thrown away: refused in words, nothing changed."""
    schema = older(postgres_url, more=", mood text")
    add(postgres_url, schema, "u", "x", [1.0] * DIMENSION, mood="good")
    with pytest.raises(ConfigurationError, match=r"neither of memcore nor of the older schema.*mood"):
        async with opened(postgres_url, schema):
            pass
    assert sql(postgres_url, f"SELECT mood FROM {schema}.conversation_events") == [("good",)]


async def test_a_row_that_is_incomplete_keeps_all_as_it_was(postgres_url: str) -> None:
    """A row of no user: the sentence says so, and the older table is there with all its rows."""
    schema = older(postgres_url)
    add(postgres_url, schema, "u", "x", [1.0] * DIMENSION)
    add(postgres_url, schema, None, "y", [1.0] * DIMENSION)
    with pytest.raises(
        ConfigurationError, match=r"cannot be taken over .1 rows have no user_id.* put that right"
    ):
        async with opened(postgres_url, schema):
            pass
    assert sql(postgres_url, f"SELECT count(embedding) FROM {schema}.conversation_events") == [(2,)]
    sql(postgres_url, f"DELETE FROM {schema}.conversation_events WHERE user_id IS NULL")
    async with opened(postgres_url, schema) as store:
        assert len(await store.recall("u", [1.0] * DIMENSION)) == 1


async def test_a_view_on_the_older_table(postgres_url: str) -> None:
    """What rests on it would be lost, so it stays, in words."""
    schema = older(postgres_url)
    sql(postgres_url, f"CREATE VIEW {schema}.v AS SELECT user_id FROM {schema}.conversation_events")
    with pytest.raises(ConfigurationError, match=r"cannot be taken over .*other objects depend on it"):
        async with opened(postgres_url, schema):
            pass
