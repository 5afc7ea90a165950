"""Sessions: which is which, clearing them, listing them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from conformance.clauses import clause, needs
from conformance.clauses.turns import Clock, marks, numbered, user
from conformance.expect import expect, expect_that, not_evaluable
from conformance.hostile import IDS, bad_ids, longest_id
from conformance.world import Kit, World
from memcore import ChatTurn, CountPolicy, SessionSummary

pytestmark = pytest.mark.asyncio

CLOCKS_APART = timedelta(minutes=10)
"""Clocks of two machines may differ by so much; a time zone differs by more."""


def _ids(world: World) -> list[str]:
    allowed = [name for name in IDS if len(name) <= world.claims.max_id_length]
    longest = longest_id(world.claims)
    return [*allowed, longest, longest[:-1]]


@clause("SES-013")
async def test_hostile_ids_are_sessions_of_their_own(world: World) -> None:
    """Ids that collide under careless building of keys are different sessions, each listed as it is."""
    names = _ids(world)
    async with world.open() as kit:
        for name in names:
            await kit.append(name, user(f"first of {name}"))
        for name in names:
            await kit.append(name, user(f"second of {name}"))
        for name in names:
            expected = [f"first of {name}", f"second of {name}"]
            expect("SES-013", f"session {name!r}", await kit.contents(name), expected)
        listed = sorted(row.session_id for row in await kit.sessions.list_sessions())
        expect("SES-013", "listed ids", listed, sorted(names))


@clause("SES-014")
async def test_bad_ids_are_refused(world: World) -> None:
    """An id that is none is refused by every method, and nothing is written."""
    async with world.open() as kit:
        store = kit.sessions
        for name in bad_ids(world.claims):
            what = f"session id {name!a:.80}"
            await kit.refused("SES-014", f"append, {what}", store.append, name, user("x"))
            for method in (store.get_window, store.get_history, store.clear):
                await kit.refused("SES-014", f"{what}", method, name)
        expect("SES-014", "list after the refusals", await store.list_sessions(), [])


@clause("SES-015")
async def test_clear_touches_its_session_alone(world: World) -> None:
    """Hostile ids are cleared one by one; at every step exactly those not yet cleared are whole."""
    names = _ids(world)
    async with world.open() as kit:
        for name in names:
            await kit.append(name, *numbered(2))
        for n, name in enumerate(names):
            await kit.sessions.clear(name)
            expect("SES-015", f"history of {name!r} after clear", await kit.contents(name), [])
            listed = sorted(row.session_id for row in await kit.sessions.list_sessions())
            expect("SES-015", f"listed after clear of {name!r}", listed, sorted(names[n + 1 :]))
            lengths = {other: len(await kit.contents(other)) for other in names[n + 1 :]}
            expected = dict.fromkeys(names[n + 1 :], 2)
            expect("SES-015", f"turns of the others after clear of {name!r}", lengths, expected)


@clause("SES-015")
@needs("compresses")
async def test_clear_removes_the_summary(world: World) -> None:
    """A compressed session is empty after clear, and begins anew without its summary."""
    async with world.open(policy=CountPolicy(4, 2)) as kit:
        await kit.append("s", *numbered(7))
        await kit.sessions.clear("s")
        expect("SES-015", "window of a cleared session", await kit.sessions.get_window("s"), [])
        await kit.append("s", user("new"))
        expect("SES-015", "history begun anew", await kit.contents("s"), ["new"])


@clause("SES-016")
async def test_clear_forgets_turn_ids(world: World) -> None:
    """The same turn objects are stored again after clear."""
    turns = numbered(3)
    async with world.open() as kit:
        await kit.append("s", *turns)
        await kit.sessions.clear("s")
        await kit.append("s", *turns)
        expect("SES-016", "contents", await kit.contents("s"), marks(0, 3))


def _in_order(rows: list[SessionSummary]) -> list[SessionSummary]:
    return sorted(sorted(rows, key=lambda row: row.session_id), key=lambda row: row.updated_at, reverse=True)


@clause("SES-018")
async def test_the_list_says_how_long_histories_are(world: World) -> None:
    """A row has the number of turns of its history, before and after compression, with its summary."""
    async with world.open(policy=CountPolicy(6, 3)) as kit:
        for count in (1, 5, 6, 7, 8, 20):
            await kit.append(f"s{count}", *numbered(count))
        await kit.append("gone", user("x"))
        await kit.sessions.clear("gone")
        rows = {row.session_id: row.turns for row in await kit.sessions.list_sessions()}
        lengths = {name: len(await kit.sessions.get_history(name)) for name in rows}
        expect("SES-018", "listed ids", sorted(rows), sorted(f"s{n}" for n in (1, 5, 6, 7, 8, 20)))
        expect("SES-018", "listed lengths", rows, lengths)


@clause("SES-018")
async def test_many_sessions_are_all_listed(world: World) -> None:
    """More sessions than any page has are all there, each once."""
    names = [f"s{n}" for n in range(1500)]
    async with world.open() as kit:
        for name in names:
            await kit.append(name, user("x"))
        rows = await kit.sessions.list_sessions()
        expect("SES-018", "listed ids", sorted(row.session_id for row in rows), sorted(names))
        expect("SES-018", "lengths", {row.turns for row in rows}, {1})


@clause("SES-019")
@pytest.mark.parametrize("step", [0.0, 1.0])
async def test_the_list_is_newest_first(world: World, step: float) -> None:
    """Rows come by their last append, newest first, ties by id; an append moves its session to the front."""
    clock = Clock()
    async with world.open(now=clock) as kit:
        for name in ("b", "a", "c", "B", "会", "b"):
            await kit.append(name, user("x"))
            clock.now += step
        rows = await kit.sessions.list_sessions()
        expect("SES-019", "rows", rows, _in_order(rows))
        if len({row.updated_at for row in rows}) == len(rows):
            expect("SES-019", "ids", [row.session_id for row in rows], ["b", "会", "B", "c", "a"])


async def _row(kit: Kit, session_id: str) -> SessionSummary:
    found = [row for row in await kit.sessions.list_sessions() if row.session_id == session_id]
    expect_that("SES-020", "row", len(found) == 1, expected=f"one row of {session_id!r}", got=found)
    return found[0]


@clause("SES-020")
async def test_updated_at_is_aware_utc(world: World) -> None:
    """The time of the last append is aware, in UTC, and that of the present."""
    async with world.open() as kit:
        await kit.append("s", user("x"))
        stamp, now = (await _row(kit, "s")).updated_at, datetime.now(UTC)
        aware = stamp.tzinfo is not None and stamp.utcoffset() == timedelta(0)
        expect_that("SES-020", "zone of updated_at", aware, expected="aware UTC", got=stamp)
        near = abs(stamp - now) < CLOCKS_APART
        expect_that("SES-020", "updated_at", near, expected=f"about {now}", got=stamp)


@clause("SES-020")
@pytest.mark.parametrize("step", [0.0, 1.0, -3600.0])
async def test_updated_at_moves_with_appends_alone(world: World, step: float) -> None:
    """It never goes back, though a clock may, and clear and appends elsewhere leave it."""
    clock = Clock()
    async with world.open(now=clock) as kit:
        before = datetime.min.replace(tzinfo=UTC)
        for turn in numbered(10):
            await kit.append("s", turn)
            clock.now += step
            after = (await _row(kit, "s")).updated_at
            expect_that("SES-020", "updated_at", after >= before, expected=f"not before {before}", got=after)
            before = after
        await kit.append("other", user("x"))
        await kit.sessions.clear("other")
        expect("SES-020", "updated_at", (await _row(kit, "s")).updated_at, before)


@clause("SES-020")
@needs("compresses")
async def test_compression_does_not_move_updated_at(world: World) -> None:
    """The time is the same while the summarizer works and after the compression."""
    clock, seen = Clock(), list[datetime | None]()

    async def summarize(turns: object, /, *, max_chars: int) -> str:  # noqa: ARG001
        try:
            async with asyncio.timeout(5):
                seen.append((await _row(kit, "s")).updated_at)
        except TimeoutError:
            seen.append(None)
        clock.now += 100
        return "summary"

    async with world.open(policy=CountPolicy(4, 2), summarizer=summarize, now=clock) as kit:
        turns: list[ChatTurn] = numbered(5)
        await kit.append("s", *turns)
        if seen == [None]:
            not_evaluable("the list waits for the summarizer")
        expect("SES-020", "updated_at", [(await _row(kit, "s")).updated_at], seen)


@clause("SES-040")
async def test_another_store_object_finds_everything(world: World) -> None:
    """Turns, the summary, the listing and the known turn ids are there for an object that is opened later."""
    turns = numbered(7)
    async with world.open(policy=CountPolicy(6, 3)) as kit:
        await kit.append("s", *turns)
        await kit.append("t", user("x"))
        before = (await kit.sessions.get_history("s"), await kit.sessions.list_sessions())
        async with world.open(namespace=kit.ctx.namespace, policy=CountPolicy(6, 3)) as later:
            after = (await later.sessions.get_history("s"), await later.sessions.list_sessions())
            expect("SES-040", "history and list", after, before)
            await later.append("s", *turns[-2:], *numbered(1, start=7))
            expect("SES-040", "end of the history", (await later.contents("s"))[-2:], marks(6, 8))
