"""Sessions: time to live, seen and caused by the hooks of the backend. Nothing here waits for a clock."""

from __future__ import annotations

import time

import pytest

from conformance.clauses import clause, needs
from conformance.clauses.turns import Clock, marks, numbered, user
from conformance.expect import expect, expect_that, not_evaluable
from conformance.world import Kit, World
from memcore import ChatTurn, CountPolicy

pytestmark = pytest.mark.asyncio

TTL = 1000.0
PATIENCE_SECONDS = 30.0


async def _remaining(kit: Kit, clause_id: str, when: str) -> float:
    remaining = await kit.ttl.remaining_ttl("s")
    if remaining is None:
        expect(clause_id, f"remaining time {when}", None, "a number of seconds")
        raise AssertionError("unreachable")
    return remaining


async def _let_time_pass(kit: Kit, clock: Clock, clause_id: str) -> float:
    """Until the remaining time has visibly fallen: what it is then."""
    enough = TTL - max(2 * (kit.claims.ttl or 0.0), 0.02)
    clock.now += 10.0
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (remaining := await _remaining(kit, clause_id, "of an idle session")) > enough:
        if time.monotonic() > deadline:
            not_evaluable(f"the remaining time of an idle session stays at {remaining} s")
    return remaining


async def _renewed_by(kit: Kit, clause_id: str, what: str, *turns: ChatTurn) -> None:
    begun = time.monotonic()
    await kit.append("s", *turns)
    remaining = await _remaining(kit, clause_id, f"after {what}")
    slack = time.monotonic() - begun + (kit.claims.ttl or 0.0) + 0.001
    fine = TTL - slack <= remaining <= TTL + slack
    expect_that(clause_id, f"remaining time after {what}", fine, expected=f"{TTL} s", got=f"{remaining} s")


@clause("SES-022")
async def test_every_append_renews_the_ttl(world: World) -> None:
    """The first append and a later one leave the whole time."""
    clock = Clock()
    async with world.open(ttl_seconds=TTL, now=clock) as kit:
        await _renewed_by(kit, "SES-022", "the first append", user("a"))
        await _let_time_pass(kit, clock, "SES-022")
        await _renewed_by(kit, "SES-022", "a later append", user("b"))


@clause("SES-022")
@needs("idempotent")
async def test_an_append_of_known_turns_renews_the_ttl(world: World) -> None:
    """A turn sent again changes nothing but the expiry."""
    clock, turns = Clock(), numbered(2)
    async with world.open(ttl_seconds=TTL, now=clock) as kit:
        await kit.append("s", *turns)
        await _let_time_pass(kit, clock, "SES-022")
        await _renewed_by(kit, "SES-022", "an append of known turns", *turns)


@clause("SES-023")
async def test_reading_does_not_renew_the_ttl(world: World) -> None:
    """Window, history and list leave the remaining time to fall."""
    clock = Clock()
    async with world.open(ttl_seconds=TTL, now=clock) as kit:
        await kit.append("s", *numbered(3))
        before = await _let_time_pass(kit, clock, "SES-023")
        begun = time.monotonic()
        for limit in (0, 20, None):
            await kit.sessions.get_window("s", limit)
        await kit.sessions.get_history("s")
        await kit.sessions.list_sessions()
        after = await _remaining(kit, "SES-023", "after reading")
        slack = time.monotonic() - begun + (kit.claims.ttl or 0.0) + 0.001
        fine = before - slack <= after <= before
        expect_that("SES-023", "remaining time after reading", fine, expected=f"at most {before}", got=after)


@clause("SES-024")
@pytest.mark.parametrize("behaviour", ["works", "raises"])
async def test_compression_keeps_the_ttl(world: World, behaviour: str) -> None:
    """A compressed and a truncated session still expire, with the time that their append left them."""
    async with world.open(ttl_seconds=TTL, now=Clock(), policy=CountPolicy(4, 2)) as kit:
        kit.ledger.behave.append(behaviour)  # type: ignore[arg-type]  # one of the behaviours
        await _renewed_by(kit, "SES-024", "an append that compresses", *numbered(5))
        expect("SES-024", "calls of the summarizer", len(kit.ledger.calls), 1)


@clause("SES-024")
@needs("injected_clock")
async def test_compression_does_not_renew_the_ttl(world: World) -> None:
    """The time that a summary takes is lost to the session: it lives from its last append on."""
    clock = Clock()

    async def slow(turns: object, /, *, max_chars: int) -> str:  # noqa: ARG001
        clock.now += 100.0
        return "summary"

    async with world.open(ttl_seconds=TTL, now=clock, policy=CountPolicy(4, 2), summarizer=slow) as kit:
        await kit.append("s", *numbered(5))
        remaining = await _remaining(kit, "SES-024", "after a compression of 100 s")
        fine = abs(remaining - (TTL - 100.0)) <= (kit.claims.ttl or 0.0) + 0.001
        expect_that("SES-024", "remaining time", fine, expected=TTL - 100.0, got=remaining)


@clause("SES-025")
async def test_an_expired_session_is_gone(world: World) -> None:
    """Window, history and list do not know it any more, and know its neighbour as before."""
    turns = numbered(3)
    async with world.open(ttl_seconds=TTL, now=Clock()) as kit:
        await kit.append("s", *turns)
        await kit.append("other", *numbered(2))
        await kit.ttl.expire_now("s")
        listed = [(row.session_id, row.turns) for row in await kit.sessions.list_sessions()]
        expect("SES-025", "list", listed, [("other", 2)])
        expect("SES-025", "history", await kit.sessions.get_history("s"), [])
        expect("SES-025", "window", await kit.sessions.get_window("s"), [])
        expect("SES-025", "neighbour", await kit.contents("other"), marks(0, 2))
        await kit.append("s", *turns)
        expect("SES-025", "history begun anew with the old turns", await kit.contents("s"), marks(0, 3))
        listed = sorted((row.session_id, row.turns) for row in await kit.sessions.list_sessions())
        expect("SES-025", "list with the session begun anew", listed, [("other", 2), ("s", 3)])


@clause("SES-025")
@needs("injected_clock")
async def test_a_session_expires_by_itself(world: World) -> None:
    """Once its time has passed by the store's clock it is gone, though nobody told it; not before."""
    clock = Clock()
    async with world.open(ttl_seconds=TTL, now=clock) as kit:
        await kit.append("s", *numbered(3))
        clock.now += TTL - 1.0
        expect("SES-025", "history a second before its end", await kit.contents("s"), marks(0, 3))
        clock.now += 2.0
        expect("SES-025", "history a second after its end", await kit.sessions.get_history("s"), [])
        expect("SES-025", "list a second after its end", await kit.sessions.list_sessions(), [])


@clause("SES-026")
async def test_nothing_of_an_expired_session_stays(world: World) -> None:
    """After expiry of compressed and plain sessions and one more listing, the storage is empty."""
    async with world.open(ttl_seconds=TTL, now=Clock(), policy=CountPolicy(4, 2)) as kit:
        names = [f"s{n}" for n in range(1, 8)]
        for count, name in enumerate(names, start=1):
            await kit.append(name, *numbered(count))
        for name in names:
            await kit.ttl.expire_now(name)
        expect("SES-026", "list", await kit.sessions.list_sessions(), [])
        expect("SES-026", "what is left in storage", sorted(await kit.ttl.residue()), [])


@clause("SES-026")
async def test_no_part_of_a_session_lives_forever(world: World) -> None:
    """Once every session was cleared, the storage is empty."""
    async with world.open(ttl_seconds=TTL, now=Clock(), policy=CountPolicy(4, 2)) as kit:
        for count in range(1, 8):
            await kit.append(f"s{count}", *numbered(count))
        for count in range(1, 8):
            await kit.sessions.clear(f"s{count}")
        expect("SES-026", "what is left in storage", sorted(await kit.ttl.residue()), [])
