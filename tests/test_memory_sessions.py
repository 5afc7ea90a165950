"""Sessions in memory, where a kit for any backend does not look: interleavings, and the cost of idle ones."""

from __future__ import annotations

import asyncio

import pytest

from conformance.clauses.turns import Clock, marks, numbered, user
from conformance.provenance import Gated, Ledger
from memcore import (
    CompressionEnded,
    Compressor,
    CountPolicy,
    InMemorySessionStore,
    StoreClosed,
)

pytestmark = pytest.mark.asyncio


class Opened:
    """A store that compresses 4 → 2 behind a gate, and one append that waits there."""

    def __init__(self) -> None:
        self.gate, self.events, self.clock = Gated(), list[CompressionEnded](), Clock()
        compressor = Compressor(CountPolicy(4, 2), self.gate, trace=self.events.append)
        self.store = InMemorySessionStore(compressor, ttl_seconds=100, now=self.clock)

    async def __aenter__(self) -> Opened:
        self.waiting = asyncio.create_task(self.store.append("s", *numbered(5)))
        await self.gate.entered.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.store.aclose()

    async def release(self) -> None:
        """Let the summarizer through and wait for the append that waits for it."""
        self.gate.go.set()
        await self.waiting

    async def contents(self) -> list[str]:
        """Of the history, the summary resolved."""
        return list(self.gate.order(await self.store.get_history("s")))

    @property
    def outcomes(self) -> list[str]:
        """Of all attempts, in order."""
        return [event.status for event in self.events]


async def test_appends_do_not_wait_for_the_summarizer() -> None:
    """Those that come meanwhile are stored at once, deferred, kept, and compressed in the next round."""
    async with Opened() as opened:
        for turn in numbered(3, start=5):
            await opened.store.append("s", turn)
        assert await opened.contents() == marks(0, 8)
        await opened.release()
        assert await opened.contents() == marks(0, 8)
        assert len(await opened.store.get_history("s")) == 3
        assert opened.outcomes == ["deferred"] * 3 + ["compressed"] * 2


async def test_clear_is_not_undone_by_a_compression() -> None:
    """A summary that comes after clear is thrown away, also when the same turns came again."""
    async with Opened() as opened:
        await opened.store.clear("s")
        await opened.store.append("s", *numbered(4))
        await opened.release()
        assert await opened.store.get_history("s") == numbered(4)
        assert opened.outcomes == ["discarded"]


async def test_expiry_is_not_undone_by_a_compression() -> None:
    """A summary that comes after expiry is thrown away."""
    async with Opened() as opened:
        opened.clock.now += 101
        await opened.release()
        assert await opened.store.get_history("s") == []
        assert opened.outcomes == ["discarded"]


async def test_a_cancelled_append_leaves_the_session_compressible() -> None:
    """Its turns are stored, nothing is dropped, and the next append compresses."""
    async with Opened() as opened:
        opened.waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opened.waiting
        assert await opened.contents() == marks(0, 5)
        opened.gate.go.set()
        await opened.store.append("s", *numbered(1, start=5))
        assert await opened.contents() == marks(0, 6)
        assert opened.outcomes == ["discarded", "compressed"]


async def test_a_compression_that_outlives_its_store_is_discarded() -> None:
    """Closing meanwhile is reported, and the append that waits returns."""
    async with Opened() as opened:
        await opened.store.aclose()
        await opened.release()
        assert opened.outcomes == ["discarded"]
        with pytest.raises(StoreClosed, match="get_history"):
            await opened.store.get_history("s")


async def test_idle_and_expired_sessions_cost_nothing() -> None:
    """Ten thousand expired sessions are gone with the next call, whatever it is, and nothing else is kept."""
    clock = Clock()
    store = InMemorySessionStore(ttl_seconds=100, now=clock)
    for n in range(10_000):
        await store.append(f"s{n}", user("x"))
    clock.now += 100
    await store.get_window("unknown")
    sizes = {name: len(value) for name, value in vars(store).items() if hasattr(value, "__len__")}
    assert sizes == {"_sessions": 0}


async def test_the_noted_size_never_drifts() -> None:
    """After many compressions and truncations the tokens noted are those of the history."""
    ledger = Ledger()
    ledger.behave.extend(["works", "raises", "works", "blank"])
    policy = CountPolicy(4, 2)
    store = InMemorySessionStore(Compressor(policy, ledger))
    for turn in numbered(40):
        await store.append("s", turn)
        session = store._sessions["s"]
        assert session.tokens == sum(policy.weigh(turn) for turn in session.turns)
