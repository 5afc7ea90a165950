"""Sessions on Redis, where a kit for any backend does not look: keys, scripts, round trips, shared calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.asyncio.connection import BlockingConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import key_slot

from conformance.clauses.turns import marks, numbered, user
from conformance.provenance import Gated, Ledger
from memcore import CompressionEnded, Compressor, CountPolicy, InvalidArgument, StoreClosed
from memcore.compression import Rewrite
from memcore.sessions.redis import RedisSessionStore
from memcore.sessions.redis import store as store_module
from memcore.sessions.redis.compressible import RedisCompressible
from memcore.sessions.redis.layout import Keys

pytestmark = pytest.mark.asyncio


@dataclass
class Bench:
    """A store under a prefix of its own, beside a plain client that looks at its keys."""

    url: str
    prefix: str
    client: Redis
    store: RedisSessionStore
    events: list[CompressionEnded]
    ledger: Ledger

    @property
    def keys(self) -> Keys:
        """Names of its keys."""
        return Keys(self.prefix)

    def another(self, compressor: Compressor) -> RedisSessionStore:
        """A second store on the same keys, as another process has it."""
        return RedisSessionStore.from_url(self.url, compressor, prefix=self.prefix)

    async def contents(self, session_id: str = "s") -> list[str]:
        """Of the history, the summary resolved."""
        return list(self.ledger.order(await self.store.get_history(session_id)))

    async def calls(self, run: Callable[[], Awaitable[object]]) -> dict[str, int]:
        """How often the server was asked to do what, while something ran."""
        await self.client.config_resetstat()
        await run()
        stats = await self.client.info("commandstats")
        # What scripts do inside the server counts too, so only what they do not use, or is one call itself.
        scripts = ("evalsha", "eval", "lrange", "set", "multi", "exec")
        return {name: stats[f"cmdstat_{name}"]["calls"] for name in scripts if f"cmdstat_{name}" in stats}


@pytest_asyncio.fixture
async def bench(redis_url: str) -> AsyncIterator[Bench]:
    """A store that compresses 4 → 2."""
    ledger, events, prefix = Ledger(), list[CompressionEnded](), f"test-{uuid4().hex}:"
    compressor = Compressor(CountPolicy(4, 2), ledger, trace=events.append)
    async with (
        Redis.from_url(redis_url) as client,
        RedisSessionStore.from_url(redis_url, compressor, prefix=prefix) as store,
    ):
        yield Bench(redis_url, prefix, client, store, events, ledger)


async def test_a_session_has_two_keys_in_one_slot(bench: Bench) -> None:
    """List and known ids share the braces by which a cluster chooses a slot; all keys expire."""
    await bench.store.append("a}b{%", user("x"))
    names = sorted(
        str(key, "utf-8") for key in await bench.client.keys(f"{bench.prefix}*") if isinstance(key, bytes)
    )
    session = f"{bench.prefix}{{a%7Db%7B%25}}"
    assert names == sorted([f"{bench.prefix}index", session, f"{session}:seen"])
    for name in names:
        assert 86_390_000 < await bench.client.pttl(name) <= 86_400_000
    slots = {key_slot(name.encode()) for name in names if "{" in name}
    assert len(slots) == 1


async def test_an_append_is_one_round_trip(bench: Bench) -> None:
    """Whatever the length of the history, the number of turns, and the number of other sessions."""
    for n in range(200):
        await bench.store.append(f"s{n}", user("x"))
    await bench.store.append("s", *numbered(3))
    assert await bench.calls(lambda: bench.store.append("s", user("y"))) == {"evalsha": 1}
    assert await bench.calls(lambda: bench.store.append("t", *numbered(4))) == {"evalsha": 1}
    await bench.store.get_window("warm")
    assert await bench.calls(lambda: bench.store.get_window("s", 2)) == {"evalsha": 1, "lrange": 1}
    # The script of reading calls LRANGE inside the server.
    assert await bench.calls(lambda: bench.store.get_history("s")) == {"evalsha": 1, "lrange": 1}


async def test_a_compression_is_five_round_trips(bench: Bench) -> None:
    """Push, lease, read, commit, release; nothing else, at any length."""
    expected = {"evalsha": 5, "lrange": 1, "set": 1}
    await bench.store.append("warm", *numbered(5))
    assert await bench.calls(lambda: bench.store.append("s", *numbered(5))) == expected
    assert await bench.calls(lambda: bench.store.append("s", *numbered(50, start=5))) == expected
    assert [event.status for event in bench.events] == ["compressed"] * 3


async def test_appends_that_wait_share_a_call(bench: Bench) -> None:
    """A single one goes at once; 64 that come while it is under way go together."""

    async def many() -> None:
        single = asyncio.create_task(bench.store.append("s", user("x")))
        for _ in range(30):
            await asyncio.sleep(0)
        await asyncio.gather(*(bench.store.append(f"s{n}", user("x")) for n in range(64)))
        await single

    assert await bench.calls(many) == {"evalsha": 2}


async def test_shared_calls_are_bounded(bench: Bench) -> None:
    """300 waiting appends take calls of at most 128, and one of a megabyte goes alone."""

    async def many() -> None:
        await asyncio.gather(*(bench.store.append(f"s{n}", user("x")) for n in range(300)))

    async def large() -> None:
        texts = ["first", "small", "x" * 2**20, "small"]
        await asyncio.gather(*(bench.store.append(f"t{n}", user(text)) for n, text in enumerate(texts)))

    assert await bench.calls(many) == {"evalsha": 3}
    assert await bench.calls(large) == {"evalsha": 3}


async def test_more_sessions_than_connections(bench: Bench) -> None:
    """500 sessions at once, read and written over four connections: nobody gets an error."""
    prefix = f"{bench.prefix}many:"
    async with RedisSessionStore.from_url(bench.url, prefix=prefix, max_connections=4) as store:

        async def chat(name: str) -> list[str]:
            await store.append(name, user(f"hello {name}"))
            return [turn.content for turn in await store.get_window(name)]

        names = [f"s{n}" for n in range(500)]
        assert await asyncio.gather(*map(chat, names)) == [[f"hello {name}"] for name in names]


async def test_a_flushed_script_is_sent_again(bench: Bench) -> None:
    """A server that forgot the scripts gets them, by append, window and commit."""
    await bench.store.append("s", *numbered(4))
    await bench.client.script_flush()
    await bench.store.append("s", *numbered(1, start=4))
    await bench.client.script_flush()
    assert len(await bench.store.get_window("s", 1)) == 2
    assert await bench.contents() == marks(0, 5)


async def test_the_noted_size_never_drifts(bench: Bench) -> None:
    """After compressions and truncations the size that an append reports is that of the history."""
    bench.ledger.behave.extend(["works", "raises", "works", "blank", "long"])
    weigh = bench.store._policy.weigh
    for turn in numbered(40):
        await bench.store.append("s", turn)
        size = await bench.store._appends.append(bench.store._prepared("s", [turn]))
        history = await bench.store.get_history("s")
        assert (size.turns, size.tokens) == (len(history), sum(map(weigh, history)))


async def _attempt(store: RedisSessionStore, summary: bool) -> tuple[RedisCompressible, Rewrite]:
    session = RedisCompressible(store._link, store._fence, store._keys, "s", store._policy.weigh, 60)
    proposed = await store._compressor._propose("s", await session.read())
    assert isinstance(proposed, Rewrite)
    assert (proposed.event.status == "compressed") is summary
    return session, proposed


@pytest.mark.parametrize("behaviours", [["works"], ["raises"], ["works", "raises"]])
async def test_a_commit_that_is_sent_twice_lands_once(bench: Bench, behaviours: list[str]) -> None:
    """A summary, a truncation, and one beside an earlier summary recognize themselves; later appends stay."""
    async with bench.another(Compressor(CountPolicy(100, 50))) as quiet:
        bench.ledger.behave.extend(behaviours)  # type: ignore[arg-type]  # behaviours
        if len(behaviours) == 2:
            await bench.store.append("s", *numbered(5))
        await quiet.append("s", *numbered(6, start=5))
        session, rewrite = await _attempt(bench.store, behaviours[-1] == "works")
        assert await session.commit(rewrite)
        await quiet.append("s", user("later"))
        before = await bench.store.get_history("s")
        assert await session.commit(rewrite)
        assert await bench.store.get_history("s") == before


@pytest.mark.parametrize("meanwhile", ["cleared", "begun anew", "compressed", "truncated", "expired"])
@pytest.mark.parametrize("behaviour", ["works", "raises"])
async def test_a_result_whose_base_changed_is_thrown_away(
    bench: Bench, meanwhile: str, behaviour: str
) -> None:
    """Cleared, begun anew with the same turns, rewritten by another, expired: the history stays as it is."""
    turns = numbered(6)
    async with bench.another(Compressor(CountPolicy(100, 50))) as quiet:
        await quiet.append("s", *turns)
        bench.ledger.behave.append(behaviour)  # type: ignore[arg-type]  # a behaviour
        session, rewrite = await _attempt(bench.store, behaviour == "works")
        if meanwhile == "expired":
            await bench.client.pexpireat(bench.keys.turns("s"), 1)
            await bench.client.pexpireat(bench.keys.seen("s"), 1)
        if meanwhile in ("cleared", "begun anew"):
            await quiet.clear("s")
        if meanwhile == "begun anew":
            await quiet.append("s", *turns)
        if meanwhile in ("compressed", "truncated"):
            bench.ledger.behave.append("works" if meanwhile == "compressed" else "raises")
            other, theirs = await _attempt(bench.store, meanwhile == "compressed")
            assert await other.commit(theirs)
        before = await quiet.get_history("s")
        assert not await session.commit(rewrite)
        assert await quiet.get_history("s") == before


async def test_two_stores_compress_one_session(bench: Bench) -> None:
    """While one waits for its summarizer the other defers; both store their turns, and none is lost."""
    gate = Gated()
    async with bench.another(Compressor(CountPolicy(4, 2), gate, trace=bench.events.append)) as slow:
        waiting = asyncio.create_task(slow.append("s", *numbered(5)))
        await gate.entered.wait()
        await bench.store.append("s", *numbered(2, start=5))
        assert [event.status for event in bench.events] == ["deferred"]
        gate.go.set()
        await waiting
        assert list(gate.order(await slow.get_history("s"))) == marks(0, 7)


async def test_a_lease_that_ran_out_costs_nothing(bench: Bench) -> None:
    """Two attempts at once, for want of a lease: one lands, the other is discarded."""
    gate = Gated()
    async with bench.another(Compressor(CountPolicy(4, 2), gate, trace=bench.events.append)) as slow:
        waiting = asyncio.create_task(slow.append("s", *numbered(5)))
        await gate.entered.wait()
        await bench.client.delete(bench.keys.lease("s"))
        await bench.store.append("s", *numbered(1, start=5))
        gate.go.set()
        await waiting
        assert [event.status for event in bench.events] == ["compressed", "discarded"]
        assert await bench.contents() == marks(0, 6)
    assert await bench.client.exists(bench.keys.lease("s")) == 0


async def test_a_cancelled_compression_gives_its_lease_back(bench: Bench) -> None:
    """The turns are stored, nothing is dropped, and the next append compresses."""
    gate = Gated()
    async with bench.another(Compressor(CountPolicy(4, 2), gate, trace=bench.events.append)) as slow:
        waiting = asyncio.create_task(slow.append("s", *numbered(5)))
        await gate.entered.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await bench.client.exists(bench.keys.lease("s")) == 0
    await bench.store.append("s", *numbered(1, start=5))
    assert await bench.contents() == marks(0, 6)
    assert [event.status for event in bench.events] == ["discarded", "compressed"]


@pytest.mark.parametrize("page", [1, 7, 500])
async def test_a_listing_gets_past_ties(bench: Bench, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of one score are all listed, whatever the size of a page."""
    monkeypatch.setattr(store_module, "PAGE", page)
    names = [f"s{n:02}" for n in range(40)]
    for name in names:
        await bench.store.append(name, user("x"))
    await bench.client.zadd(bench.keys.index, dict.fromkeys(names[5:35], 1_700_000_000_000_001))
    rows = await bench.store.list_sessions()
    assert [row.session_id for row in rows] == names[39:34:-1] + names[4::-1] + names[5:35]
    assert {row.updated_at.microsecond for row in rows[10:]} == {1}


async def test_an_append_prunes_the_index(bench: Bench) -> None:
    """Entries older than the TTL go if their session is gone, and stay if it lives."""
    await bench.store.append("lives", user("x"))
    await bench.client.zadd(bench.keys.index, {"lives": 1, "gone": 2})
    await bench.store.append("s", user("x"))
    assert await bench.client.zrange(bench.keys.index, 0, -1) == [b"lives", b"s"]


async def test_a_listing_prunes_what_expired_and_nothing_else(bench: Bench) -> None:
    """A session begun anew between reading and pruning keeps its entry."""
    await bench.store.append("s", user("x"))
    await bench.client.zadd(bench.keys.index, {"gone": 1_700_000_000_000_000})
    run = bench.store._link.run

    async def begin_anew(operation: str, name: str, *args: object, **kwargs: object) -> object:
        if name == "prune":
            await bench.store.append("gone", user("anew"))
        return await run(operation, name, *args, **kwargs)  # type: ignore[arg-type]

    bench.store._link.run = begin_anew  # type: ignore[method-assign]
    assert [row.session_id for row in await bench.store.list_sessions()] == ["s"]
    assert [row.session_id for row in await bench.store.list_sessions()] == ["gone", "s"]


@pytest.mark.parametrize(
    ("options", "remedy"),
    [({}, "NoBackoff"), ({"decode_responses": True, "retry": Retry(NoBackoff(), 0)}, "decode_responses")],
)
async def test_a_client_that_does_not_fit_is_refused(options: dict[str, Any], remedy: str) -> None:
    """One that repeats commands, as the driver's default does, and one that decodes; with what to do."""
    with pytest.raises(InvalidArgument, match=remedy):
        RedisSessionStore(Redis(**options))


@pytest.mark.parametrize("url", ["", "localhost", "http://localhost", "redis://user:secret@localhost:port"])
async def test_a_bad_url_is_refused(url: str) -> None:
    """What is no URL of Redis is refused at once, and no password is shown."""
    with pytest.raises(InvalidArgument, match="url") as refused:
        RedisSessionStore.from_url(url)
    assert "secret" not in str(refused.value)


@pytest.mark.clause("INF-006")
async def test_a_client_that_was_handed_in_stays_open(bench: Bench) -> None:
    """It answers after the store was closed; the store does not."""
    client = Redis.from_url(bench.url, retry=Retry(NoBackoff(), 0))
    async with client:
        async with RedisSessionStore(client, prefix=bench.prefix) as store:
            await store.append("s", user("x"))
        assert await client.ping()
        with pytest.raises(StoreClosed, match="append"):
            await store.append("s", user("y"))
    assert await bench.contents() == ["x"]


@pytest.mark.clause("INF-006")
async def test_an_own_client_is_closed(bench: Bench) -> None:
    """After `aclose` no connection of the store is left, and no call opens a new one."""
    store = RedisSessionStore.from_url(bench.url, prefix=bench.prefix)
    await asyncio.gather(*(store.get_window(f"s{n}") for n in range(5)))
    pool = store._link.client.connection_pool
    assert isinstance(pool, BlockingConnectionPool)
    await store.aclose()
    await store.aclose()
    with pytest.raises(StoreClosed):
        await store._link.call("append", store._link.client.ping)
    assert not any(connection.is_connected for connection in pool._available_connections)


async def test_a_store_belongs_to_one_loop(bench: Bench) -> None:
    """Used in a second event loop it says so, instead of what the driver makes of it."""
    await bench.store.append("s", user("x"))
    with pytest.raises(StoreClosed, match="event loop"):
        await asyncio.to_thread(asyncio.run, bench.store.get_window("s"))
