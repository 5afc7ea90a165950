"""Sessions on Redis when calls are ended: cancelled, given up, closed; nothing comes later, nothing stays."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from conformance.clauses.turns import marks, numbered, user
from conformance.provenance import Gated, Ledger
from conformance.services import Server
from memcore import (
    Compressor,
    CountPolicy,
    StoreClosed,
    StoreUnavailable,
)
from memcore.sessions.redis import RedisSessionStore
from memcore.sessions.redis.layout import Keys
from tests.redis_help import SHORT, contents, started, stopped

pytestmark = pytest.mark.asyncio


async def test_a_cancelled_append_that_waits_is_absent(own_redis: Server) -> None:
    """Beside one that is under way it is taken back; the others notice nothing."""
    async with RedisSessionStore.from_url(own_redis.url) as store:
        await store.append("s", user("warm"))
        with stopped(own_redis):
            first = await started(store, store.append("s", user("first")))
            others = [asyncio.create_task(store.append("s", user(text))) for text in ("gone", "third")]
            await asyncio.sleep(0)
            others[0].cancel()
        results = await asyncio.gather(first, *others, return_exceptions=True)
        assert [type(result) for result in results] == [type(None), asyncio.CancelledError, type(None)]
        assert await contents(store) == ["warm", "first", "third"]


async def test_a_cancelled_append_under_way_is_whole_and_in_its_place(own_redis: Server) -> None:
    """It lands before every later one of the same store, with all its turns, and can be sent again."""
    batch = numbered(3)
    async with RedisSessionStore.from_url(own_redis.url) as store:
        await store.append("s", user("warm"))
        with stopped(own_redis):
            first = await started(store, store.append("s", *batch))
            beside = asyncio.create_task(store.append("s", user("later")))
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.sleep(0)
        await beside
        assert first.cancelled()
        assert await contents(store) == ["warm", *marks(0, 3), "later"]
        await store.append("s", *batch)
        assert len(await contents(store)) == 5


async def test_closing_waits_for_what_is_under_way(own_redis: Server) -> None:
    """What was sent is stored when `aclose` returns, what was not is refused, and nothing comes later."""
    async with Redis.from_url(own_redis.url) as client:
        store = RedisSessionStore.from_url(own_redis.url)
        await store.append("s", user("warm"))
        with stopped(own_redis):
            first = await started(store, store.append("s", user("first")))
            second = asyncio.create_task(store.append("s", user("second")))
            await asyncio.sleep(0)
            closing = asyncio.create_task(store.aclose())
            await asyncio.sleep(0)
            with pytest.raises(StoreClosed):
                await second
        await closing
        assert await client.llen(Keys("agent:sess:").turns("s")) == 2
        await first
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_appends_that_wait_are_given_up_in_time(own_redis: Server) -> None:
    """With three calls' worth of them waiting none takes longer than one that waits alone."""
    async with RedisSessionStore.from_url(own_redis.url, timeout=SHORT) as store:
        await store.append("s", user("before"))
        loop = asyncio.get_running_loop()
        with stopped(own_redis):
            begun = loop.time()
            appends = (store.append("s", user("x")) for _ in range(300))
            results = await asyncio.gather(*appends, return_exceptions=True)
            waited = loop.time() - begun
        assert {type(result) for result in results} == {StoreUnavailable}
        assert waited < 2 * SHORT
        assert any("nothing was stored" in str(result) for result in results)
        assert any("it may be stored" in str(result) for result in results)


async def test_what_was_given_up_does_not_come_later(own_redis: Server) -> None:
    """A cancelled append that a stopped server holds does not land once the store is closed."""
    store = RedisSessionStore.from_url(own_redis.url, timeout=SHORT)
    await store.append("s", user("before"))
    with stopped(own_redis):
        gone = await started(store, store.append("s", user("gone")))
        gone.cancel()
        await store.aclose()
    async with RedisSessionStore.from_url(own_redis.url) as later:
        await later.append("s", user("after"))
        assert await contents(later) == ["before", "after"]


async def test_cancelling_beside_a_server_that_is_away(own_redis: Server) -> None:
    """An append that compresses is cancelled as asked, though it cannot give back its claim."""
    gate = Gated()
    compressor = Compressor(CountPolicy(4, 2), gate)
    async with RedisSessionStore.from_url(own_redis.url, compressor, timeout=5 * SHORT) as store:
        waiting = asyncio.create_task(store.append("s", *numbered(5)))
        await gate.entered.wait()
        with stopped(own_redis):
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting


async def test_a_first_append_that_was_given_up_does_not_come_later(own_redis: Server) -> None:
    """A store that never heard from its server does not let a call wait in its buffers."""
    store = RedisSessionStore.from_url(own_redis.url, timeout=SHORT)
    with stopped(own_redis), pytest.raises(StoreUnavailable):
        await store.append("s", user("gone"))
    await store.aclose()
    async with RedisSessionStore.from_url(own_redis.url) as later:
        assert await contents(later) == []


async def test_a_clear_that_was_given_up_does_not_come_later(own_redis: Server) -> None:
    """What was appended after it is not destroyed by bytes that waited."""
    async with RedisSessionStore.from_url(own_redis.url, timeout=SHORT) as store:
        await store.append("s", user("before"))
        with stopped(own_redis), pytest.raises(StoreUnavailable, match="clear"):
            await store.clear("s")
        await store.append("s", user("after"))
        assert await contents(store) == ["before", "after"]


async def test_closing_twice_waits_for_the_first(own_redis: Server) -> None:
    """Also where the first was cancelled: whoever closes returns when all is closed."""
    store = RedisSessionStore.from_url(own_redis.url, timeout=SHORT)
    await store.append("s", user("before"))
    with stopped(own_redis):
        under_way = await started(store, store.append("s", user("x")))
        first = asyncio.create_task(store.aclose())
        await asyncio.sleep(0)
        first.cancel()
        second = asyncio.create_task(store.aclose())
        await asyncio.sleep(0)
        assert not second.done()
    await second
    assert first.cancelled()
    assert under_way.done()
    assert not store._link.client.connection_pool._in_use_connections
    await asyncio.gather(under_way, return_exceptions=True)


async def test_a_summarizer_may_close_its_store(own_redis: Server) -> None:
    """However odd: the append returns, and everything is closed."""
    stores: list[RedisSessionStore] = []

    async def closing(_: object, /, *, max_chars: int) -> str:  # noqa: ARG001
        await stores[0].aclose()
        return "summary"

    stores.append(RedisSessionStore.from_url(own_redis.url, Compressor(CountPolicy(4, 2), closing)))
    await stores[0].append("s", *numbered(5))
    await stores[0].aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_closing_belongs_to_the_loop_as_well(own_redis: Server) -> None:
    """From another loop it is refused, and the store goes on in its own."""
    async with RedisSessionStore.from_url(own_redis.url) as store:
        await store.append("s", user("x"))
        with pytest.raises(StoreClosed, match="event loop"):
            await asyncio.to_thread(asyncio.run, store.aclose())
        assert await contents(store) == ["x"]


@pytest.mark.parametrize("flushed", [False, True])
async def test_no_cancellation_leaves_a_lease(own_redis: Server, flushed: bool) -> None:
    """Cancelled twice, after any number of turns of the loop, with scripts known and forgotten."""
    ledger = Ledger()
    async with (
        Redis.from_url(own_redis.url) as client,
        RedisSessionStore.from_url(own_redis.url, Compressor(CountPolicy(4, 2), ledger)) as store,
    ):
        for n in range(0, 160, 2):
            if flushed:
                await client.script_flush()
            append = asyncio.create_task(store.append(f"s{n}", *numbered(5)))
            for _ in range(n):
                await asyncio.sleep(0)
            append.cancel()
            await asyncio.sleep(0)
            append.cancel()
            await asyncio.wait([append])
            # Claims are given back by tasks of their own.
            await store._compressions.aclose()
            assert await client.exists(Keys("agent:sess:").lease(f"s{n}")) == 0
            kept = list(ledger.order(await store.get_history(f"s{n}")))
            assert kept in ([], marks(0, 5))
