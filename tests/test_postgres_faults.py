"""A Postgres server that is away, full, late, or cuts the line: what callers see, and what is stored."""

from __future__ import annotations

import asyncio
import socket
import time

import psycopg
import pytest

from memcore import InvalidArgument, StoreUnavailable
from memcore.postgres import Database
from memcore.preferences.postgres import PostgresPreferenceStore
from tests.postgres_help import fresh, sql, until, wired, with_options, with_place

pytestmark = pytest.mark.asyncio


async def opened(url: str, **options: float) -> PostgresPreferenceStore:
    """A store that was used once, in a schema of its own."""
    schema = fresh()
    async with PostgresPreferenceStore.from_url(url, schema=schema):
        pass
    store = PostgresPreferenceStore.from_url(url, schema=schema, **options)  # type: ignore[arg-type]
    await store.set("u", "k", "first")
    return store


@pytest.mark.clause("INF-004")
async def test_an_absent_server_raises_at_first_use() -> None:
    """At once, with the reason and without the password; nothing is connected before."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"postgresql://u:hunter2@127.0.0.1:{unused.getsockname()[1]}/d"
        store = PostgresPreferenceStore.from_url(url)
        with pytest.raises(StoreUnavailable, match=r"^get: Postgres does not answer: .*refused") as caught:
            await store.get("u", "k")
        assert "hunter2" not in str(caught.value)
        with pytest.raises(StoreUnavailable, match=r"^open: "):
            async with store:
                pass


@pytest.mark.parametrize(
    "url",
    ["postgresql://[hunter2", "hunter2", "postgresql://u:hunter2@h/d?x=y", "postgresql://u:p@hunter2@h/d"],
)
async def test_a_url_that_cannot_be_read(url: str) -> None:
    """It is refused when the store is made, without a word of it."""
    with pytest.raises(InvalidArgument, match=r"percent-encoded") as caught:
        PostgresPreferenceStore.from_url(url)
    assert "hunter2" not in str(caught.value)


async def test_a_silent_server_is_given_up_in_time(postgres_url: str) -> None:
    """Neither a request without a reply nor a new connection without one takes longer than the timeout."""
    async with wired(postgres_url) as (wire, url):
        store = await opened(url, timeout=0.8)
        wire.replies.clear()
        for _ in range(2):
            begin = time.monotonic()
            with pytest.raises(StoreUnavailable, match=r"gave no answer within 0\.8 s"):
                await store.get("u", "k")
            # The second call finds no connection and opens one. The driver alone would wait for 5 s or more.
            assert time.monotonic() - begin < 4.5
        wire.replies.set()
        assert await store.get("u", "k") == "first"
        await store.aclose()


async def test_a_write_that_was_given_up_does_not_come_later(postgres_url: str) -> None:
    """It lies in a buffer until after the timeout; when it reaches the server, nothing is written."""
    async with wired(postgres_url) as (wire, url):
        store = await opened(url, timeout=0.5)
        wire.requests.clear()
        for call in (store.set("u", "k", "late"), store.delete("u", "k"), store.forget("u")):
            with pytest.raises(StoreUnavailable):
                await call
        wire.requests.set()
        assert await store.get("u", "k") == "first"
        await _idle(postgres_url, store)
        assert await store.get("u", "k") == "first"
        await store.aclose()


@pytest.mark.parametrize("operation", ["set", "set anew", "delete", "forget"])
async def test_a_write_that_waited_for_a_lock_too_long_undoes_itself(
    postgres_url: str, operation: str
) -> None:
    """It was given up, but the request to cancel it was lost; the lock is free only after its time."""
    async with wired(postgres_url) as (wire, url):
        store = await opened(url, timeout=0.6)
        table = f"{store._table.schema}.user_preferences"
        with psycopg.connect(postgres_url) as other:
            other.execute(f"UPDATE {table} SET updated_at = updated_at".encode())
            other.execute(f"INSERT INTO {table} VALUES ('u', 'new', 'foreign', now())".encode())
            call = {
                "set": store.set("u", "k", "late"),
                "set anew": store.set("u", "new", "late"),
                "delete": store.delete("u", "k"),
                "forget": store.forget("u"),
            }
            writing = asyncio.create_task(call.pop(operation))
            for unused in call.values():
                unused.close()
            pid = await blocked(postgres_url, store)
            wire.requests.clear()
            with pytest.raises(StoreUnavailable, match=f"^{operation.split()[0]}: "):
                await writing
            other.rollback()
            await until(lambda: not sql(postgres_url, _BUSY, [pid]))
        wire.requests.set()
        assert {key: found.value for key, found in (await store.all("u")).items()} == {"k": "first"}
        await store.aclose()


_BUSY = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND state = 'active'"


async def test_a_clock_that_jumps_ahead(postgres_url: str) -> None:
    """One write is refused, or none; then the store knows the server's clock again."""
    store = await opened(postgres_url)
    for write in (store.set, store.set):
        assert store._database._ahead is not None
        store._database._ahead -= 3600
        with pytest.raises(StoreUnavailable, match="got to it too late, and did nothing"):
            await write("u", "k", "late")
        assert await store.get("u", "k") != "late"
        await write("u", "k", "in time")
        assert await store.get("u", "k") == "in time"
    await store.aclose()


async def _idle(url: str, store: PostgresPreferenceStore) -> None:
    """Until no session works on a statement of this store any more."""
    query = (
        "SELECT 1 FROM pg_stat_activity WHERE query LIKE %s AND pid <> pg_backend_pid() AND state <> 'idle'"
    )
    await until(lambda: not sql(url, query, [f"%{store._table.schema}%"]))


async def test_a_lost_reply_is_not_asked_for_again(postgres_url: str) -> None:
    """The write took effect, the caller hears that nobody knows, and it was sent once."""
    async with wired(postgres_url) as (wire, url):
        store = await opened(url)
        sql(postgres_url, _COUNTING.format(schema=store._table.schema))
        wire.replies.clear()
        setting = asyncio.create_task(store.set("u", "k", "second"))
        await until(lambda: sql(postgres_url, f"SELECT 1 FROM {store._table.schema}.counted"))
        wire.cut()
        with pytest.raises(StoreUnavailable, match=r"^set: Postgres does not answer"):
            await setting
        wire.replies.set()
        assert await store.get("u", "k") == "second"
        assert sql(postgres_url, f"SELECT count(*) FROM {store._table.schema}.counted") == [(1,)]
        await store.aclose()


_COUNTING = """
CREATE TABLE {schema}.counted (n int);
CREATE FUNCTION {schema}.count_it() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO {schema}.counted VALUES (1); RETURN NULL; END $$;
CREATE TRIGGER counting AFTER UPDATE ON {schema}.user_preferences
    FOR EACH ROW EXECUTE FUNCTION {schema}.count_it()
"""


async def test_idle_connections_that_ended_are_noticed(postgres_url: str) -> None:
    """After a restart of the server, the next calls of the same store object work at once."""
    store = await opened(postgres_url, max_connections=5)
    await asyncio.gather(*(store.get("u", "k") for _ in range(5)))
    pids = [connection.info.backend_pid for connection in store._database._connections._idle]
    assert len(pids) == 5
    sql(postgres_url, "SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s::int[]) AS pid", [pids])
    assert await asyncio.gather(*(store.get("u", "k") for _ in range(5))) == ["first"] * 5
    await store.aclose()


async def test_a_connection_that_ends_under_a_call(postgres_url: str) -> None:
    """The call says so, and the next one works."""
    store = await opened(postgres_url)
    with psycopg.connect(postgres_url) as other:
        other.execute(f"LOCK TABLE {store._table.schema}.user_preferences IN ACCESS EXCLUSIVE MODE".encode())
        getting = asyncio.create_task(store.get("u", "k"))
        pid = await blocked(postgres_url, store)
        sql(postgres_url, "SELECT pg_terminate_backend(%s)", [pid])
        with pytest.raises(StoreUnavailable, match=r"^get: "):
            await getting
    assert await store.get("u", "k") == "first"
    await store.aclose()


async def blocked(url: str, store: PostgresPreferenceStore) -> int:
    """The session of this store that waits for a lock, once there is one."""
    query = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
    found = await until(lambda: sql(url, query, [f"%{store._table.schema}%"]))
    return int(found[0][0])


async def test_all_connections_in_use(postgres_url: str) -> None:
    """A call that gets none in time says how many there are and what to do; later ones work."""
    store = await opened(postgres_url, max_connections=2, timeout=1.0)
    with psycopg.connect(postgres_url) as other:
        other.execute(f"LOCK TABLE {store._table.schema}.user_preferences IN ACCESS EXCLUSIVE MODE".encode())
        calls = [asyncio.create_task(store.get("u", f"{n}")) for n in range(6)]
        errors = await asyncio.gather(*calls, return_exceptions=True)
    texts = [str(error) for error in errors]
    assert sum("gave no answer within 1 s" in text for text in texts) == 2
    assert sum("all 2 connections were in use for 1 s: the server is slow" in text for text in texts) == 4
    assert await asyncio.gather(*(store.get("u", "k") for _ in range(6))) == ["first"] * 6
    await store.aclose()


async def test_a_server_without_room(role: str, postgres_url: str) -> None:
    """That it takes no more connections is what the error says."""
    sql(postgres_url, f"ALTER ROLE {role} CONNECTION LIMIT 0")
    store = PostgresPreferenceStore.from_url(with_place(postgres_url, user=role))
    with pytest.raises(StoreUnavailable, match=r"too many connections for role"):
        await store.get("u", "k")
    await store.aclose()


async def test_a_statement_timeout_of_the_server(postgres_url: str) -> None:
    """The sentence says what ended the statement; the connection is as good as before."""
    schema = fresh()
    url = with_options(postgres_url, statement_timeout=100)
    async with PostgresPreferenceStore.from_url(url, schema=schema) as store:
        await store.set("u", "k", "first")
        with psycopg.connect(postgres_url) as other:
            other.execute(f"LOCK TABLE {schema}.user_preferences IN ACCESS EXCLUSIVE MODE".encode())
            with pytest.raises(StoreUnavailable, match=r"^set: .*raise the server's statement_timeout"):
                await store.set("u", "k", "second")
        (idle,) = store._database._connections._idle
        assert await store.get("u", "k") == "first"
        assert store._database._connections._idle == [idle]


async def test_a_demoted_primary_is_left(postgres_url: str) -> None:
    """A server that has become read-only is not asked over the connections that led to it before."""
    name = fresh("memcore_test")
    sql(postgres_url, f"CREATE DATABASE {name}")
    store = await opened(with_place(postgres_url, database=name), max_connections=3)
    await asyncio.gather(*(store.get("u", "k") for _ in range(3)))
    for connection in store._database._connections._idle:
        await connection.execute("SET default_transaction_read_only = on")
    with pytest.raises(StoreUnavailable, match=r"read-only"):
        await store.set("u", "k", "second")
    await store.set("u", "k", "second")
    assert await store.get("u", "k") == "second"
    await store.aclose()
    sql(postgres_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "1"])
async def test_a_timeout_that_is_none_is_refused(seconds: object) -> None:
    """A database needs a positive number of seconds, and at least one connection."""
    with pytest.raises(InvalidArgument, match="timeout"):
        Database("postgresql://h/d", timeout=seconds)  # type: ignore[arg-type]  # the point
    with pytest.raises(InvalidArgument, match=r"max_connections"):
        Database("postgresql://h/d", max_connections=0)
