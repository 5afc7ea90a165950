"""Sessions on Redis when something goes wrong: cancelled, closed, cut, stopped, starved, demoted."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest
from redis.asyncio import Redis

import conformance.services.redis as redis_service
from conformance.clauses.turns import marks, numbered, user
from conformance.provenance import Gated
from conformance.services import Server
from memcore import (
    RETRY_WINDOW,
    Compressor,
    CountPolicy,
    InvalidArgument,
    StoreClosed,
    StoreCorrupt,
    StoreUnavailable,
)
from memcore.sessions.redis import RedisSessionStore
from memcore.sessions.redis.layout import Keys

pytestmark = pytest.mark.asyncio

SHORT = 1.0
"""Seconds after which a store of these tests gives up on a server that does not answer."""
PREFIX = "test:"


async def contents(store: RedisSessionStore, session_id: str = "s") -> list[str]:
    """Of the history, as they are."""
    return [turn.content for turn in await store.get_history(session_id)]


async def started(store: RedisSessionStore, append: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """An append whose call is on its way to the server."""
    task = asyncio.create_task(append)
    # The task of the append, the one that sends, and the driver all have to run: some turns of the loop.
    for _ in range(30):
        await asyncio.sleep(0)
    assert not store._appends._waiting
    return task


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    """The server takes bytes and answers nothing; it works through them when it goes on."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


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


@pytest.mark.parametrize("operation", ["append", "get_window", "get_history", "clear", "list_sessions"])
async def test_a_server_that_hangs_is_given_up(own_redis: Server, operation: str) -> None:
    """`StoreUnavailable` in time, from every method; the same object works when the server is back."""
    async with RedisSessionStore.from_url(own_redis.url, timeout=SHORT) as store:
        await store.append("s", user("before"))
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "append": lambda: store.append("t", user("x")),
            "get_window": lambda: store.get_window("s"),
            "get_history": lambda: store.get_history("s"),
            "clear": lambda: store.clear("unknown"),
            "list_sessions": store.list_sessions,
        }
        with stopped(own_redis), pytest.raises(StoreUnavailable, match=operation):
            await calls[operation]()
        await store.append("s", user("after"))
        assert await contents(store) == ["before", "after"]


async def test_a_server_that_was_restarted_is_used_again() -> None:
    """Refused connections raise, also for many appends at once; then the same store works."""
    program = next(redis_service._programs(os.environ, find_spec, []))
    port = redis_service._free_port()
    watched, server = redis_service._start_at(port, program)
    async with RedisSessionStore.from_url(server.url, timeout=SHORT) as store:
        with watched:
            await store.append("s", user("before"))
        for call in (store.list_sessions, partial(store.get_window, "s"), partial(store.clear, "s")):
            with pytest.raises(StoreUnavailable):
                await call()
        appends = (store.append(f"s{n}", user("x")) for n in range(20))
        results = await asyncio.gather(*appends, return_exceptions=True)
        assert {type(result) for result in results} == {StoreUnavailable}
        assert len({id(result) for result in results}) == 20
        watched, server = redis_service._start_at(port, program)
        with watched:
            await store.append("s", user("after"))
            assert await contents(store) == ["after"]


async def test_cut_connections_lose_and_double_nothing(own_redis: Server) -> None:
    """Every append has all connections cut under it; sent again if it must be, each turn is there once."""
    async with (
        Redis.from_url(own_redis.url) as client,
        RedisSessionStore.from_url(own_redis.url, Compressor(CountPolicy(1000, 500))) as store,
    ):
        for turn in numbered(100):
            cut = asyncio.ensure_future(client.client_kill_filter(_type="normal", skipme=True))
            try:
                await store.append("s", turn)
            except StoreUnavailable:
                await cut
                await store.append("s", turn)
            await cut
        assert await contents(store) == marks(0, 100)
        assert int((await client.info("stats"))["total_connections_received"]) > 100


async def test_a_strange_key_touches_its_session_alone(own_redis: Server) -> None:
    """In a shared call its append fails, the others land; every read says what to do, and clear does it."""
    keys = Keys(PREFIX)
    async with (
        Redis.from_url(own_redis.url) as client,
        RedisSessionStore.from_url(own_redis.url, prefix=PREFIX) as store,
    ):
        await client.set(keys.turns("string"), "x")
        await client.set(keys.seen("seen"), "x")
        await client.rpush(keys.turns("foreign"), '{"role": "user"}')
        names = ["a", "string", "b", "seen", "foreign", "c"]
        appends = (store.append(name, user("x")) for name in names)
        results = await asyncio.gather(*appends, return_exceptions=True)
        failed = {name for name, result in zip(names, results, strict=True) if result is not None}
        assert failed == {"string", "seen", "foreign"}
        assert {type(result) for result in results if result is not None} == {StoreCorrupt}
        for name in ("string", "foreign"):
            with pytest.raises(StoreCorrupt, match=f"(?s){name}.*clear"):
                await store.get_history(name)
        for name in failed:
            await store.clear(name)
            await store.append(name, user("anew"))
            assert await contents(store, name) == ["anew"]


async def test_an_evicted_list_is_not_served_as_an_empty_one(own_redis: Server) -> None:
    """Where the server dropped the turns and kept their ids, an append says so; clear begins anew."""
    keys = Keys(PREFIX)
    async with (
        Redis.from_url(own_redis.url) as client,
        RedisSessionStore.from_url(own_redis.url, prefix=PREFIX) as store,
    ):
        turns = numbered(3)
        await store.append("s", *turns)
        await client.delete(keys.turns("s"))
        for call in (
            partial(store.append, "s", turns[0]),
            partial(store.append, "s", user("new")),
            partial(store.get_history, "s"),
            partial(store.get_window, "s"),
        ):
            with pytest.raises(StoreCorrupt, match="missing"):
                await call()
        await store.clear("s")
        await store.append("s", *turns)
        assert await contents(store) == marks(0, 3)


async def test_a_full_server_writes_nothing_by_halves(own_redis: Server) -> None:
    """Out of memory is `StoreUnavailable`; reads go on, and appends as soon as there is room."""
    async with (
        Redis.from_url(own_redis.url) as client,
        RedisSessionStore.from_url(own_redis.url, prefix=PREFIX) as store,
    ):
        await store.append("s", user("before"))
        before = sorted(await client.keys("*"))
        await client.config_set("maxmemory", 1)
        for name in ("s", "t"):
            with pytest.raises(StoreUnavailable, match="OOM"):
                await store.append(name, user("x"))
        assert await contents(store) == ["before"]
        assert sorted(await client.keys("*")) == before
        await client.config_set("maxmemory", 0)
        await store.append("s", user("after"))
        assert await contents(store) == ["before", "after"]


async def test_a_demoted_server_refuses_and_is_left(own_redis: Server) -> None:
    """Read-only is `StoreUnavailable`; once it is a master again the same store writes."""
    async with Redis.from_url(own_redis.url) as client, RedisSessionStore.from_url(own_redis.url) as store:
        await store.append("s", user("before"))
        await client.replicaof("127.0.0.1", "1")
        for call in (partial(store.append, "s", user("x")), partial(store.clear, "s")):
            with pytest.raises(StoreUnavailable, match="READONLY"):
                await call()
        await client.replicaof("NO", "ONE")
        await store.append("s", user("after"))
        assert await contents(store) == ["before", "after"]


async def test_a_turn_is_known_for_exactly_the_retry_window(redis_url: str) -> None:
    """With one later turn less than the window it is known, with as many it is new again."""
    async with RedisSessionStore.from_url(redis_url, prefix=f"test-{uuid4().hex}:", retry_window=8) as store:
        turns = numbered(9)
        await store.append("s", *turns[:8])
        await store.append("s", turns[0])
        assert await contents(store) == marks(0, 8)
        await store.append("s", turns[8])
        await store.append("s", turns[0])
        assert await contents(store) == [*marks(0, 9), "t0"]
    assert RETRY_WINDOW == 1024


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


async def test_an_error_of_any_kind_reaches_every_caller(
    own_redis: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A credential provider that breaks fails the appends that wait, in all calls, and the next one works."""
    async with RedisSessionStore.from_url(own_redis.url) as store:
        run = store._link.run
        monkeypatch.setattr(store._link, "run", Mock(side_effect=RuntimeError("no credentials")))
        appends = (store.append(f"s{n}", user("x")) for n in range(200))
        results = await asyncio.gather(*appends, return_exceptions=True)
        assert {type(result) for result in results} == {StoreUnavailable}
        assert "no credentials" in str(results[-1])
        monkeypatch.setattr(store._link, "run", run)
        await store.append("s", user("x"))


async def test_a_strange_index_is_not_blamed_on_a_session(own_redis: Server) -> None:
    """Every call that needs it says so before it writes anything; a session of another type is named."""
    keys = Keys(PREFIX)
    async with (
        Redis.from_url(own_redis.url) as client,
        RedisSessionStore.from_url(own_redis.url, prefix=PREFIX) as store,
    ):
        await store.append("s", user("x"))
        await client.set(keys.index, "x")
        for call in (partial(store.append, "s", user("y")), partial(store.clear, "s"), store.list_sessions):
            with pytest.raises(StoreCorrupt, match="WRONGTYPE"):
                await call()
        assert await contents(store) == ["x"]
        await client.delete(keys.index)
        await store.append("s", user("z"))
        await client.zadd(keys.index, {"strange": 5})
        await client.set(keys.turns("strange"), "x")
        with pytest.raises(StoreCorrupt, match="'strange'"):
            await store.list_sessions()


async def test_the_clock_of_the_server_may_go_back(own_redis: Server) -> None:
    """The time of the last append stays where it was, and does not fall behind it."""
    keys, future = Keys(PREFIX), 4_000_000_000_000_000
    async with (
        Redis.from_url(own_redis.url) as client,
        RedisSessionStore.from_url(own_redis.url, prefix=PREFIX) as store,
    ):
        await store.append("s", user("x"))
        await client.zadd(keys.index, {"s": future})
        await store.append("s", user("y"))
        assert await client.zscore(keys.index, "s") == future


@pytest.mark.parametrize(
    "options",
    [
        *({"ttl_seconds": value} for value in (0, -1, 0.0001, 1e16, float("nan"), True, "60")),
        *({"retry_window": value} for value in (0, -3, 2.5, "x", True)),
        *({"timeout": value} for value in (0, -1, float("inf"))),
        {"prefix": ""},
    ],
)
async def test_limits_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    """When the store is made, not at its first use."""
    with pytest.raises(InvalidArgument, match="|".join(options)):
        RedisSessionStore.from_url("redis://localhost", **options)
