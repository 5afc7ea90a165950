"""What happens while a summary is written: the summarizer waits at a gate until the check lets it through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import pytest

from conformance.clauses import clause, needs
from conformance.clauses.turns import Clock, marks, numbered, user
from conformance.expect import Violation, expect
from conformance.provenance import Gated
from conformance.world import Kit, World
from memcore import ChatTurn, CountPolicy

pytestmark = pytest.mark.asyncio

PATIENCE_SECONDS = 2.0
"""A call that is held up by the summarizer never ends by itself; one that is not ends long before this."""
TURNS = numbered(5)


async def _in_time(clause_id: str, what: str, call: Awaitable[object]) -> None:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await call
    except TimeoutError as error:
        raise Violation(clause_id, what, "done while the summarizer works", "it waits for it") from error


class Meanwhile:
    """An open backend with one append of `TURNS`, whose summary waits at the gate.

    Args:
        kit: The backend.
        gate: The gate.
        waiting: The append.
    """

    def __init__(self, kit: Kit, gate: Gated, waiting: asyncio.Task[None]) -> None:
        self.kit = kit
        self.gate = gate
        self.waiting = waiting

    async def let_through(self) -> None:
        """Let the summarizer go on, and wait until the append and its compression have ended."""
        self.gate.go.set()
        await self.waiting
        await self.kit.at_rest()

    @property
    def outcomes(self) -> list[str]:
        """What was reported, in order."""
        return [event.status for event in self.kit.events]


async def _entered(clause_id: str, kit: Kit, gate: Gated, waiting: asyncio.Task[None]) -> None:
    """Until the summarizer was called; an append that ends without calling it has broken the promise."""
    entered = asyncio.create_task(gate.entered.wait())
    ends = {entered} if kit.claims.compress_late else {entered, waiting}
    await asyncio.wait(ends, timeout=PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    entered.cancel()
    if not gate.entered.is_set():
        raise Violation(
            clause_id, "an append of 5 turns under 4 → 2", "the summarizer is called", "it is not"
        )


@asynccontextmanager
async def _meanwhile(world: World, clause_id: str) -> AsyncIterator[Meanwhile]:
    gate = Gated()
    async with world.open(ledger=gate, policy=CountPolicy(4, 2), now=Clock(), ttl_seconds=1000) as kit:
        waiting = asyncio.create_task(kit.sessions.append("s", *TURNS))
        try:
            await _entered(clause_id, kit, gate, waiting)
            yield Meanwhile(kit, gate, waiting)
        finally:
            gate.go.set()
            await asyncio.wait([waiting])


@clause("SES-017")
async def test_clear_is_not_undone(world: World) -> None:
    """A session that was cleared while its summary was written stays empty and is not listed."""
    async with _meanwhile(world, "SES-017") as at_gate:
        await _in_time("SES-017", "clear", at_gate.kit.sessions.clear("s"))
        await at_gate.let_through()
        if at_gate.kit.claims.traces:
            expect("SES-017", "outcomes", at_gate.outcomes, ["discarded"])
        expect("SES-017", "history", await at_gate.kit.sessions.get_history("s"), [])
        expect("SES-017", "list", await at_gate.kit.sessions.list_sessions(), [])


_OTHERS = [user("x"), user("y"), user("z")]


@clause("SES-017", "CMP-020")
@pytest.mark.parametrize(
    "anew",
    [
        pytest.param([user("new")], id="another turn"),
        pytest.param([TURNS[0], *_OTHERS], id="the same first turn"),
        pytest.param([TURNS[0], _OTHERS[0], TURNS[2], _OTHERS[1]], id="the same ends of what left"),
        pytest.param(TURNS[:4], id="the same turns"),
    ],
)
async def test_a_session_begun_anew_is_left_alone(world: World, anew: list[ChatTurn]) -> None:
    """Cleared and begun anew, even with turns that it had before, it keeps every turn that it has now."""
    async with _meanwhile(world, "SES-017") as at_gate:
        await _in_time("SES-017", "clear", at_gate.kit.sessions.clear("s"))
        await _in_time("CMP-019", "an append", at_gate.kit.sessions.append("s", *anew))
        await at_gate.let_through()
        history = await at_gate.kit.sessions.get_history("s")
        expect("CMP-020", "history", history, anew)


@clause("CMP-020")
@needs("ttl")
async def test_expiry_is_not_undone(world: World) -> None:
    """A session that expired while its summary was written stays gone, and leaves nothing behind."""
    async with _meanwhile(world, "CMP-020") as at_gate:
        await at_gate.kit.ttl.expire_now("s")
        await at_gate.let_through()
        expect("CMP-020", "history", await at_gate.kit.sessions.get_history("s"), [])
        expect("CMP-020", "list", await at_gate.kit.sessions.list_sessions(), [])
        expect("CMP-020", "what is left in storage", list(await at_gate.kit.ttl.residue()), [])


@clause("CMP-019", "CMP-020")
@pytest.mark.parametrize("count", [1, 2, 10])
async def test_turns_that_come_meanwhile_are_kept(world: World, count: int) -> None:
    """Appends, reads and the list do not wait for the summarizer, and its result loses and moves no turn."""
    async with _meanwhile(world, "CMP-019") as at_gate:
        kit = at_gate.kit
        for turn in numbered(count, start=5):
            await _in_time("CMP-019", "an append beside it", kit.sessions.append("s", turn))
        await _in_time("CMP-019", "an append elsewhere", kit.sessions.append("t", user("x")))
        await _in_time("CMP-019", "a window", kit.sessions.get_window("s"))
        await _in_time("CMP-019", "a list", kit.sessions.list_sessions())
        expect("CMP-020", "messages before the result", (await kit.order("s"))[-count:], marks(5, 5 + count))
        await at_gate.let_through()
        expect("CMP-020", "all that is covered or kept", await kit.order("s"), marks(0, 5 + count))
        last = (await kit.sessions.get_history("s"))[-1]
        expect("CMP-020", "last turn", (last.kind, last.content), ("message", f"t{4 + count}"))


@clause("CMP-021")
async def test_a_second_compression_is_deferred(world: World) -> None:
    """An append that is due while a summary is written leaves it to that one, and says so."""
    async with _meanwhile(world, "CMP-021") as at_gate:
        beside = at_gate.kit.sessions.append("s", *numbered(1, start=5))
        await _in_time("CMP-021", "an append beside it", beside)
        expect("CMP-021", "calls of the summarizer", at_gate.gate.calls, [])
        # One that compresses late may not have looked yet.
        if not at_gate.kit.claims.compress_late:
            expect("CMP-021", "outcomes", at_gate.outcomes, ["deferred"])
        await at_gate.let_through()
        expect("CMP-021", "outcomes", sorted(at_gate.outcomes), ["compressed", "deferred"])


@clause("CMP-022")
async def test_a_cancelled_append_drops_nothing(world: World) -> None:
    """Cancelled while its summary is written it ends cancelled; its turns are whole, and compressed later."""
    async with _meanwhile(world, "CMP-022") as at_gate:
        kit = at_gate.kit
        # One that compresses late has returned by now, and is not cancelled any more.
        at_gate.waiting.cancel()
        await asyncio.wait([at_gate.waiting], timeout=PATIENCE_SECONDS)
        cancelled = at_gate.waiting.cancelled() or kit.claims.compress_late
        expect("CMP-022", "whether the append was cancelled", cancelled, True)
        expect("CMP-022", "history", await kit.order("s"), marks(0, 5))
        dropped = [name for event in kit.events for name in event.dropped]
        expect("CMP-022", "dropped turns", dropped, [])
        at_gate.gate.go.set()
        await kit.append("s", *numbered(1, start=5))
        # Where it was not cancelled the turn before is not due, and stays.
        kept = 3 if kit.claims.compress_late else 2
        expected = ["summary", *["message"] * kept]
        expect("CMP-022", "kinds after the next append", await _kinds(kit), expected)
        expect("CMP-022", "history after the next append", await kit.order("s"), marks(0, 6))


async def _kinds(kit: Kit) -> list[str]:
    return [turn.kind for turn in await kit.sessions.get_history("s")]
