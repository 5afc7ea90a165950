"""Cancelled calls, closing, and other event loops: whatever happens, connections stay whole."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import psycopg
import pytest

from memcore import StoreClosed, StoreUnavailable
from memcore.postgres import Database
from memcore.preferences.postgres import PostgresPreferenceStore
from tests.postgres_help import fresh, sql, until, wired
from tests.test_postgres_faults import blocked, opened

LIMIT = 2


def free(store: PostgresPreferenceStore) -> int:
    """Connections that another call could take."""
    return store._database._connections._free._value


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.asyncio
async def test_calls_cancelled_at_any_point(postgres_url: str, seed: int) -> None:
    """Of 100 calls over two connections many are cancelled: each cancel is seen, both connections work."""
    chance = random.Random(seed)
    store = await opened(postgres_url, max_connections=LIMIT)
    tasks = [asyncio.create_task(store.set("u", f"{n}", f"{n}")) for n in range(100)]
    cancelled = set()
    while not all(task.done() for task in tasks):
        for _ in range(chance.randrange(8)):
            await asyncio.sleep(0)
        n = chance.randrange(100)
        if not tasks[n].done() and n not in cancelled:
            tasks[n].cancel()
            cancelled.add(n)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert {n for n, task in enumerate(tasks) if task.cancelled()} == cancelled
    assert len(cancelled) > 10
    assert free(store) == LIMIT
    kept = await store.all("u")
    assert {f"{n}" for n in range(100)} - {f"{n}" for n in cancelled} <= set(kept)
    assert all(preference.value == key for key, preference in kept.items() if key != "k")
    states = [connection.info.transaction_status.name for connection in store._database._connections._idle]
    assert set(states) <= {"IDLE"}
    await store.aclose()


@pytest.mark.asyncio
async def test_a_cancelled_write_is_ended_at_the_server(postgres_url: str) -> None:
    """It waits for a lock when it is cancelled; once the lock is free, it does not come."""
    store = await opened(postgres_url)
    with psycopg.connect(postgres_url) as other:
        other.execute(f"SELECT 1 FROM {store._table.schema}.user_preferences FOR UPDATE".encode())
        setting = asyncio.create_task(store.set("u", "k", "second"))
        await blocked(postgres_url, store)
        setting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await setting
        # The request to cancel may come late, and would meet the next call on that connection.
        assert store._database._connections._idle == []
    assert await store.get("u", "k") == "first"
    await store.aclose()


@pytest.mark.asyncio
async def test_a_transaction_that_was_left_open_is_not_handed_on(postgres_url: str) -> None:
    """The connection is ended with what was not committed; the next call has another one."""
    store = await opened(postgres_url, max_connections=1)
    table = f"{store._table.schema}.user_preferences"

    async def leave_open(connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute(f"BEGIN; DELETE FROM {table}".encode())

    await store._database.run(store._database.call("leave open"), leave_open)
    assert await store.get("u", "k") == "first"
    await store.aclose()


@pytest.mark.asyncio
async def test_a_cancelled_call_is_not_held_up_by_a_silent_server(postgres_url: str) -> None:
    """The cancel is seen within the time of a call, and not before it is certain that nothing is written."""
    async with wired(postgres_url) as (wire, url):
        store = await opened(url, timeout=1.0)
        wire.requests.clear()
        setting = asyncio.create_task(store.set("u", "k", "second"))
        await until(lambda: not store._database._connections._idle)
        setting.cancel()
        async with asyncio.timeout(5):
            with pytest.raises(asyncio.CancelledError):
                await setting
        wire.requests.set()
        assert await store.get("u", "k") == "first"
        await store.aclose()


@pytest.mark.clause("INF-006")
@pytest.mark.asyncio
async def test_a_shared_database_stays_open(postgres_url: str) -> None:
    """Closing a store leaves what it did not open; closing the database ends all connections."""
    database = Database(postgres_url)
    first = PostgresPreferenceStore(database, schema=fresh())
    second = PostgresPreferenceStore(database, schema=fresh())
    async with first, second:
        await first.set("u", "k", "v")
        await first.aclose()
        with pytest.raises(StoreClosed, match="get: this PostgresPreferenceStore was closed"):
            await first.get("u", "k")
        await second.set("u", "k", "v")
        pid = database._connections._idle[0].info.backend_pid
    await database.aclose()
    await database.aclose()
    with pytest.raises(StoreClosed):
        await PostgresPreferenceStore(database).get("u", "k")
    await until(lambda: not sql(postgres_url, "SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid]))


@pytest.mark.asyncio
async def test_closing_waits_for_calls_under_way(postgres_url: str) -> None:
    """Also if whoever closes is cancelled: the second one to close waits too; nothing is left running."""
    before = asyncio.all_tasks()
    store = await opened(postgres_url)
    with psycopg.connect(postgres_url) as other:
        other.execute(f"LOCK TABLE {store._table.schema}.user_preferences IN ACCESS EXCLUSIVE MODE".encode())
        setting = asyncio.create_task(store.set("u", "k", "second"))
        await blocked(postgres_url, store)
        closing = [asyncio.create_task(store.aclose()) for _ in range(2)]
        await asyncio.sleep(0)
        closing[0].cancel()
        with pytest.raises(StoreClosed):
            await store.get("u", "k")
        assert not closing[1].done()
    await setting
    await closing[1]
    assert closing[0].cancelled()
    assert store._calls._under_way == 0
    assert store._database._connections._idle == []
    assert asyncio.all_tasks() - before == set()


@pytest.mark.asyncio
async def test_a_call_that_waits_for_a_connection_when_the_store_is_closed(postgres_url: str) -> None:
    """It was begun before, so it is still answered; connections do not outlive it."""
    store = await opened(postgres_url, max_connections=1)
    with psycopg.connect(postgres_url) as other:
        other.execute(f"LOCK TABLE {store._table.schema}.user_preferences IN ACCESS EXCLUSIVE MODE".encode())
        calls = [asyncio.create_task(store.get("u", "k")) for _ in range(3)]
        await blocked(postgres_url, store)
        closing = asyncio.create_task(store.aclose())
        await asyncio.sleep(0)
    assert await asyncio.gather(*calls) == ["first"] * 3
    await closing
    assert store._database._connections._idle == []


def test_another_event_loop_is_refused(postgres_url: str) -> None:
    """Connections cannot move; the sentence says to open a store in each loop."""
    store = PostgresPreferenceStore.from_url(postgres_url, schema=fresh())
    with asyncio.Runner() as first, asyncio.Runner() as second:
        first.run(store.set("u", "k", "v"))
        for call in (store.get("u", "k"), store.aclose()):
            with pytest.raises(StoreClosed, match="open one in each loop"):
                second.run(call)
        assert first.run(store.get("u", "k")) == "v"
        first.run(store.aclose())


@pytest.mark.asyncio
async def test_opening_that_fails_leaves_nothing() -> None:
    """`async with` of a server that is away closes what it began."""
    store = PostgresPreferenceStore.from_url("postgresql://127.0.0.1:1/d")
    with pytest.raises(StoreUnavailable):
        async with store:
            pass
    with pytest.raises(StoreClosed):
        await store.get("u", "k")
