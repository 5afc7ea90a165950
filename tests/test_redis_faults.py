"""Sessions on Redis when the server fails: cut, stopped, starved, demoted, and what strangers left there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.util import find_spec
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest
from redis.asyncio import Redis

import conformance.services.redis as redis_service
from conformance.clauses.turns import marks, numbered, user
from conformance.services import Server
from conformance.services.embedded import free_port
from memcore import (
    RETRY_WINDOW,
    Compressor,
    CountPolicy,
    InvalidArgument,
    StoreCorrupt,
    StoreUnavailable,
)
from memcore.sessions.redis import RedisSessionStore
from memcore.sessions.redis.layout import Keys
from tests.redis_help import PREFIX, SHORT, contents, stopped

pytestmark = pytest.mark.asyncio


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
    port = free_port()
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


async def test_a_step_of_the_servers_clock_costs_no_append(own_redis: Server) -> None:
    """Appends that are found late by a clock that stepped go out once more, in their order."""
    async with RedisSessionStore.from_url(own_redis.url, timeout=SHORT) as store:
        await store.append("s", user("t-1"))
        assert store._fence._ahead is not None
        store._fence._ahead -= 100.0
        await asyncio.gather(*(store.append("s", turn) for turn in numbered(5)))
        assert await contents(store) == ["t-1", *marks(0, 5)]
