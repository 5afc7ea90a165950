"""Tables that set themselves up: by whoever comes first, once, or with a sentence that says why not."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from memcore import (
    ConfigurationError,
    InvalidArgument,
    ModelMismatch,
    PreferenceStore,
    StoreClosed,
    StoreCorrupt,
    StoreUnavailable,
)
from memcore.episodes.pgvector import PgVectorEpisodicStore
from memcore.postgres import Database
from memcore.postgres.tables import LOCK
from memcore.preferences.postgres import PostgresPreferenceStore
from tests.postgres_help import MODEL, episode, episodes, fresh, sql, until, with_options, with_place

pytestmark = pytest.mark.asyncio

X = (1.0,) + (0.0,) * 7
PROCESSES = 6


def _set_up(url: str, number: int) -> str:
    """What one process does: open both stores and use them; an error becomes its text."""

    async def use() -> None:
        async with (
            PostgresPreferenceStore.from_url(url) as preferences,
            episodes(url, "public") as store,
        ):
            await preferences.set("u", f"{number}", "v")
            await store.remember(episode(f"{number}", X))

    try:
        asyncio.run(use())
    except Exception as error:
        return repr(error)
    return ""


@pytest.mark.clause("INF-007")
@pytest.mark.parametrize("again", range(3))
async def test_processes_set_up_at_once(database_url: str, again: int) -> None:  # noqa: ARG001
    """On an empty database, extension and all: nobody sees an error, and what each wrote is there."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        problems = list(pool.map(_set_up, [database_url] * PROCESSES, range(PROCESSES)))
    assert problems == [""] * PROCESSES
    async with PostgresPreferenceStore.from_url(database_url) as store:
        assert len(await store.all("u")) == PROCESSES
    async with episodes(database_url, "public") as found:
        assert len(await found.recall("u", X, 100)) == PROCESSES


async def test_tasks_set_up_at_once(postgres_url: str) -> None:
    """Many first calls of one store object set it up once."""
    async with PostgresPreferenceStore.from_url(postgres_url, schema=fresh()) as opened:
        await opened.forget("nobody")
    store = PostgresPreferenceStore.from_url(postgres_url, schema=fresh())
    await asyncio.gather(*(store.set("u", f"{n}", "v") for n in range(40)))
    assert len(await store.all("u")) == 40
    await store.aclose()


async def test_a_cancelled_call_leaves_the_set_up_to_others(postgres_url: str) -> None:
    """The first call is cancelled while another session holds the lock; the one behind it is served."""
    store = PostgresPreferenceStore.from_url(postgres_url, schema=fresh())
    with _held(postgres_url):
        first = asyncio.create_task(store.set("u", "a", "1"))
        second = asyncio.create_task(store.set("u", "b", "2"))
        await _waiting_for_lock(postgres_url)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
    await second
    assert list(await store.all("u")) == ["b"]
    await store.aclose()


async def test_a_set_up_that_takes_long(postgres_url: str) -> None:
    """All first calls end in their time, together and not one after the other; `open` waits for it."""
    store = PostgresPreferenceStore.from_url(postgres_url, schema=fresh(), timeout=0.5)
    with _held(postgres_url):
        calls = [asyncio.create_task(store.set("u", f"{n}", "v")) for n in range(20)]
        async with asyncio.timeout(5):
            errors = await asyncio.gather(*calls, return_exceptions=True)
        assert {str(error)[:50] for error in errors} == {"set: the table is still being set up after 0.5 s; "}
        opening = asyncio.create_task(store.open())
        await _waiting_for_lock(postgres_url)
        assert not opening.done()
    await opening
    assert await store.all("u") == {}
    await store.aclose()


async def test_closing_ends_a_set_up(postgres_url: str) -> None:
    """It does not wait for the lock; calls that waited with it are refused, and write nothing afterwards."""
    database = Database(postgres_url)
    schema = fresh()
    store = PostgresPreferenceStore(database, schema=schema)
    with _held(postgres_url):
        calls = [asyncio.create_task(store.set("u", f"{n}", "v")) for n in range(3)]
        await _waiting_for_lock(postgres_url)
        async with asyncio.timeout(5):
            await store.aclose()
        errors = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(error) for error in errors] == [StoreClosed] * 3
    assert sql(postgres_url, "SELECT to_regnamespace(%s)", [schema]) == [(None,)]
    await database.aclose()


@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
async def test_other_isolation_by_default(postgres_url: str, level: str) -> None:
    """Whatever level transactions begin with: set-up and writes of several stores at once see no error."""
    url = with_options(postgres_url, default_transaction_isolation=level.replace(" ", "\\ "))
    schema = fresh()
    stores = [PostgresPreferenceStore.from_url(url, schema=schema) for _ in range(12)]
    for _ in range(3):
        await asyncio.gather(*(store.set("u", "k", f"{n}") for n, store in enumerate(stores)))
    assert (await stores[0].get("u", "k")) in {f"{n}" for n in range(12)}
    for store in stores:
        await store.aclose()


async def test_a_statement_timeout_does_not_end_a_set_up(postgres_url: str) -> None:
    """It is for calls; a set-up may wait for another one."""
    url = with_options(postgres_url, statement_timeout=50, lock_timeout=50)
    store = PostgresPreferenceStore.from_url(url, schema=fresh())
    with _held(postgres_url):
        opening = asyncio.create_task(store.open())
        await _waiting_for_lock(postgres_url)
        query = (
            "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND now() - query_start > '0.2 s'"
        )
        await until(lambda: sql(postgres_url, query))
    await opening
    await store.aclose()


async def test_somebody_else_makes_the_schema_at_the_same_time(postgres_url: str) -> None:
    """Without our lock: the set-up is tried again, and there is no error."""
    schema = fresh()
    store = PostgresPreferenceStore.from_url(postgres_url, schema=schema)
    with psycopg.connect(postgres_url) as other:
        other.execute(f"CREATE SCHEMA {schema}".encode())
        setting = asyncio.create_task(store.set("u", "k", "v"))
        query = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
        await until(lambda: sql(postgres_url, query, [f"%CREATE SCHEMA%{schema}%"]))
    await setting
    assert await store.get("u", "k") == "v"
    await store.aclose()


async def test_settings_of_the_session_round_nothing(postgres_url: str) -> None:
    """Scores and clocks come in binary form, whatever the session does to texts of numbers."""
    url = with_options(postgres_url, extra_float_digits=-15)
    async with episodes(url, fresh()) as store:
        await store.remember(episode("x", (0.8, 0.6, *X[2:])))
        assert [found.score for found in await store.recall("u", X)] == [pytest.approx(0.8, abs=1e-3)]
        assert abs((store._database._ahead or 0) + asyncio.get_running_loop().time() - time.time()) < 60


@contextmanager
def _held(url: str) -> Iterator[None]:
    """The lock of all set-ups, held by another session."""
    with psycopg.connect(url) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        yield


async def _waiting_for_lock(url: str) -> None:
    query = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    await until(lambda: sql(url, query))


async def test_nothing_depends_on_the_search_path(database_url: str) -> None:
    """The extension in a schema of its own, and a search path that leads nowhere, change nothing."""
    sql(database_url, "CREATE SCHEMA extensions; CREATE EXTENSION vector SCHEMA extensions")
    url = with_options(database_url, search_path="nowhere", TimeZone="Asia/Tokyo", DateStyle="SQL")
    async with episodes(url, "own", exact_rows=1) as store:
        for n in range(3):
            await store.remember(episode(f"{n}", X))
        assert [found.summary for found in await store.recall("u", X)] == ["0", "1", "2"]
        assert await store.forget("u") == 3


async def test_without_the_right_to_create_the_extension(role: str, database_url: str) -> None:
    """One sentence says who has to do what; nothing was made."""
    sql(database_url, f"GRANT CREATE ON SCHEMA public TO {role}")
    await _refused(with_place(database_url, user=role), "have a superuser run CREATE EXTENSION vector")
    assert sql(database_url, "SELECT to_regclass('public.memcore_tables')") == [(None,)]


async def test_a_server_without_the_extension(database_url: str) -> None:
    """One sentence says what to install."""
    url = with_options(database_url, extension_control_path="/nowhere")
    await _refused(url, "does not have pgvector .* install it there")


async def test_an_extension_that_is_too_old(database_url: str) -> None:
    """Before half precision and iterative scans: the sentence has both versions and the command."""
    sql(database_url, "CREATE EXTENSION vector")
    sql(database_url, "UPDATE pg_extension SET extversion = '0.6.2' WHERE extname = 'vector'")
    await _refused(
        database_url, r"pgvector 0\.6\.2 is too old, 0\.8 is needed.* ALTER EXTENSION vector UPDATE"
    )


async def _refused(url: str, pattern: str) -> None:
    with pytest.raises(ConfigurationError, match=pattern):
        async with episodes(url, "public"):
            pass


async def test_another_model_or_dimension_is_refused(postgres_url: str) -> None:
    """At opening and at first use, naming both; the table stays as it is."""
    schema = fresh()
    async with episodes(postgres_url, schema) as store:
        await store.remember(episode("x", X))
    for model, dimension in (("other", 8), (MODEL, 9)):
        other = PgVectorEpisodicStore.from_url(postgres_url, model=model, dimension=dimension, schema=schema)
        pattern = f"model '{MODEL}' and dimension 8, not vectors of model '{model}' and dimension {dimension}"
        with pytest.raises(ModelMismatch, match=pattern):
            await other.recall("u", (1.0,) * dimension)
        with pytest.raises(ModelMismatch, match=pattern):
            async with other:
                pass
    async with episodes(postgres_url, schema) as store:
        assert len(await store.recall("u", X)) == 1


async def test_two_models_have_two_tables(postgres_url: str) -> None:
    """In one schema, each with its own dimension."""
    schema = fresh()
    async with (
        episodes(postgres_url, schema) as first,
        episodes(postgres_url, schema, dimension=3, table="%s {other}") as second,
    ):
        await first.remember(episode("first", X))
        await second.remember(episode("second", X[:3]))
        assert [found.summary for found in await first.recall("u", X)] == ["first"]
        assert [found.summary for found in await second.recall("u", X[:3])] == ["second"]


async def test_a_layout_of_the_future_is_refused(postgres_url: str) -> None:
    """A newer memcore made the table: this one does not touch it."""
    schema = fresh()
    async with PostgresPreferenceStore.from_url(postgres_url, schema=schema):
        pass
    sql(postgres_url, f"UPDATE {schema}.memcore_tables SET layout = 2")
    with pytest.raises(ConfigurationError, match=r"has layout 2, .* install a newer one"):
        async with PostgresPreferenceStore.from_url(postgres_url, schema=schema):
            pass


async def test_a_table_of_somebody_else_is_left_alone(postgres_url: str) -> None:
    """It has our name and is not ours: refused in words, and unchanged."""
    schema = fresh()
    sql(postgres_url, f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.user_preferences AS SELECT 1 AS x")
    with pytest.raises(ConfigurationError, match=r"was not made by memcore; rename it, or give the store"):
        async with PostgresPreferenceStore.from_url(postgres_url, schema=schema):
            pass
    assert sql(postgres_url, f"SELECT * FROM {schema}.user_preferences") == [(1,)]
    assert sql(postgres_url, f"SELECT to_regclass('{schema}.memcore_tables')") == [(None,)]


async def test_a_dropped_table(postgres_url: str) -> None:
    """A store that is open says that it is gone; one that is opened anew makes it again."""
    schema = fresh()
    async with PostgresPreferenceStore.from_url(postgres_url, schema=schema) as store:
        await store.set("u", "k", "v")
        sql(postgres_url, f"DROP TABLE {schema}.user_preferences")
        with pytest.raises(StoreCorrupt, match=r"open a new store"):
            await store.get("u", "k")
    async with PostgresPreferenceStore.from_url(postgres_url, schema=schema) as store:
        assert await store.get("u", "k") is None


async def test_a_database_of_another_encoding(postgres_url: str) -> None:
    """One that cannot hold every text is refused before anything is made in it."""
    name = fresh("memcore_test")
    sql(postgres_url, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    url = with_place(postgres_url, database=name)
    with pytest.raises(ConfigurationError, match=r"encoded in LATIN1.*ENCODING 'UTF8'"):
        async with PostgresPreferenceStore.from_url(url):
            pass
    sql(postgres_url, f"DROP DATABASE {name} WITH (FORCE)")


async def test_a_read_only_server(postgres_url: str) -> None:
    """Without its tables it is refused; with them it can be read, and a write says where to go."""
    schema = fresh()
    url = with_options(postgres_url, default_transaction_read_only="on")
    with pytest.raises(StoreUnavailable, match=r"read-only .* give the address of the primary"):
        async with PostgresPreferenceStore.from_url(url, schema=schema):
            pass
    async with PostgresPreferenceStore.from_url(postgres_url, schema=schema) as writer:
        await writer.set("u", "k", "v")
    async with PostgresPreferenceStore.from_url(url, schema=schema) as store:
        assert await store.get("u", "k") == "v"
        with pytest.raises(StoreUnavailable, match=r"^set: .*read-only"):
            await store.set("u", "k", "w")
        assert await store.get("u", "k") == "v"


async def test_without_the_right_to_make_tables(postgres_url: str, role: str) -> None:
    """The sentence says what to grant; once the tables are there, so is what to grant on them."""
    schema = fresh()
    url = with_place(postgres_url, user=role)
    for made in (False, True):
        if made:
            sql(postgres_url, f"CREATE SCHEMA {schema}; GRANT USAGE ON SCHEMA {schema} TO {role}")
        with pytest.raises(ConfigurationError, match=r"may not make it .* grant CREATE"):
            async with PostgresPreferenceStore.from_url(url, schema=schema):
                pass
    async with PostgresPreferenceStore.from_url(postgres_url, schema=schema) as store:
        await store.set("u", "k", "v")
    sql(postgres_url, f"GRANT SELECT ON {schema}.memcore_tables, {schema}.user_preferences TO {role}")
    async with PostgresPreferenceStore.from_url(url, schema=schema) as limited:
        assert await limited.get("u", "k") == "v"
        with pytest.raises(StoreUnavailable, match=r"permission denied .* grant it"):
            await limited.set("u", "k", "w")


@pytest.mark.parametrize("name", ["", " ", "x" * 64, "会" * 22, "a\0b"])
async def test_a_name_that_would_be_cut_is_refused(name: str) -> None:
    """Postgres cuts names above 63 bytes without a word: two of them would be one."""
    with pytest.raises(InvalidArgument, match=r"schema"):
        PostgresPreferenceStore.from_url("postgresql://nowhere.invalid", schema=name)
    with pytest.raises(InvalidArgument, match=r"table"):
        episodes("postgresql://nowhere.invalid", "s", table=name)


async def test_hostile_names_of_schemas(postgres_url: str) -> None:
    """Quotes, percent signs, braces and case are part of the name."""
    stores: list[PreferenceStore] = []
    names = [f'{fresh()}"; %s {{x}} %(y)s', f"{fresh()}'A", f"{fresh()}'a"]
    for name in names:
        async with PostgresPreferenceStore.from_url(postgres_url, schema=name) as store:
            await store.set("u", "k", name)
            stores.append(store)
    for name in names:
        async with PostgresPreferenceStore.from_url(postgres_url, schema=name) as store:
            assert await store.get("u", "k") == name
