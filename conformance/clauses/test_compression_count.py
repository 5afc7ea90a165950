"""Compression by count, the rolling summary, and what becomes of each turn."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from conformance.clauses import clause
from conformance.clauses.turns import marks, numbered, user
from conformance.expect import expect, expect_that
from conformance.model import View
from conformance.provenance import LONG
from conformance.world import World
from memcore import SUMMARY_MAX_CHARS, SUMMARY_PREFIX, ChatTurn, CountPolicy

pytestmark = pytest.mark.asyncio

SMALL = CountPolicy(compress_after=6, keep_recent=3)


def compressed(covered: int, length: int) -> View:
    """A history of `numbered` turns of which the first `covered` are in the summary."""
    messages = [("message", turn.role, turn.content, None) for turn in numbered(length)]
    return [("summary", *marks(0, covered)), *messages[covered:]]


def plain(start: int, stop: int) -> View:
    """A history of `numbered` turns without a summary."""
    return [("message", turn.role, turn.content, None) for turn in numbered(stop)[start:]]


@clause("CMP-001", "CMP-002")
@pytest.mark.parametrize(("length", "covered"), [(39, 0), (40, 0), (41, 21), (42, 21), (60, 21), (61, 41)])
async def test_forty_turns_stay_and_one_more_leaves_twenty(world: World, length: int, covered: int) -> None:
    """One by one: 40 turns are left alone, the 41st leaves a summary and the last 20; then again."""
    async with world.open(policy=CountPolicy()) as kit:
        for turn in numbered(length):
            await kit.append("s", turn)
        expected = compressed(covered, length) if covered else plain(0, length)
        named = "CMP-002" if covered else "CMP-001"
        expect(named, "calls of the summarizer", len(kit.ledger.calls), {0: 0, 21: 1, 41: 2}[covered])
        expect(named, f"history of {length} turns", await kit.view("s"), expected)


@clause("CMP-001", "CMP-002")
@pytest.mark.parametrize(("length", "covered"), [(40, 0), (41, 21), (100, 80)])
async def test_the_bound_holds_for_a_batch(world: World, length: int, covered: int) -> None:
    """The same when all turns come in one append."""
    async with world.open(policy=CountPolicy()) as kit:
        await kit.append("s", *numbered(length))
        expected = compressed(covered, length) if covered else plain(0, length)
        named = "CMP-002" if covered else "CMP-001"
        expect(named, f"history of a batch of {length}", await kit.view("s"), expected)


@clause("CMP-002")
@pytest.mark.parametrize(("after", "keep"), [(2, 1), (3, 1), (3, 2), (7, 6)])
async def test_other_bounds_hold_as_well(world: World, after: int, keep: int) -> None:
    """Other bounds are kept at every length, down to one turn beside the summary."""
    async with world.open(policy=CountPolicy(after, keep)) as kit:
        covered, length = 0, 0
        for n, turn in enumerate(numbered(20), start=1):
            await kit.append("s", turn)
            length += 1
            if length > after:
                covered, length = n - keep, keep + 1
            expected = compressed(covered, n) if covered else plain(0, n)
            expect("CMP-002", f"history of {n} turns under {after} → {keep}", await kit.view("s"), expected)


@clause("CMP-003")
async def test_append_returns_after_its_compression(world: World) -> None:
    """When the append that triggered it returns, the summary is there, and was written by one call."""
    async with world.open(policy=SMALL) as kit:
        await kit.append("s", *numbered(7))
        expect("CMP-003", "history", await kit.view("s"), compressed(4, 7))
        expect("CMP-003", "calls of the summarizer", len(kit.ledger.calls), 1)


@clause("CMP-008", "CMP-011")
async def test_an_earlier_summary_is_folded_into_the_next(world: World) -> None:
    """Over ten rounds there is one summary, first, and it gets what the last one stood for and the rest."""
    async with world.open(policy=SMALL) as kit:
        for n, turn in enumerate(numbered(40), start=1):
            await kit.append("s", turn)
            kinds = [turn.kind for turn in await kit.sessions.get_history("s")]
            expect("CMP-008", f"summaries beyond the first place, {n} turns", kinds[1:].count("summary"), 0)
        given = [[turn.kind for turn in call.turns] for call in kit.ledger.calls]
        expect("CMP-008", "what the summarizer was given first", given[0], ["message"] * 4)
        later = [kinds[:1] for kinds in given[1:]]
        expect("CMP-008", "head of what it was given later", later, [["summary"]] * len(later))
        expect("CMP-011", "all that is covered or kept", await kit.order("s"), marks(0, 40))


@clause("CMP-009")
async def test_a_message_that_looks_like_a_summary_is_a_message(world: World) -> None:
    """Its prefix and role do not make it one: it counts in a window, and is folded like any other."""
    fake = ChatTurn("system", f"{SUMMARY_PREFIX}not a summary")
    async with world.open(policy=SMALL) as kit:
        await kit.append("s", fake, user("a"))
        expect("CMP-009", "window of 1", [t.content for t in await kit.sessions.get_window("s", 1)], ["a"])
        expect("CMP-009", "window of 0", await kit.sessions.get_window("s", 0), [])
        await kit.append("s", *numbered(5))
        summary = ("summary", fake.content, "a", "t0", "t1")
        expect("CMP-009", "history", await kit.view("s"), [summary, *plain(2, 5)])


@clause("CMP-010")
async def test_a_long_summary_is_stored_whole(world: World) -> None:
    """150 characters are asked for; five thousand come, and are kept."""
    async with world.open(policy=SMALL) as kit:
        kit.ledger.behave.append("long")
        await kit.append("s", *numbered(7))
        expect("CMP-010", "asked lengths", [call.max_chars for call in kit.ledger.calls], [SUMMARY_MAX_CHARS])
        summary = (await kit.sessions.get_window("s", 0))[0].content
        whole = summary.endswith("§0§" + "…" * LONG)
        expect_that("CMP-010", "summary", whole, expected=f"§0§ and {LONG} dots", got=summary)


@clause("CMP-018")
async def test_a_summarizer_may_spoil_what_it_was_given(world: World) -> None:
    """Emptying the list of turns changes neither what is kept nor what counts as covered."""

    async def spoil(turns: Sequence[ChatTurn], /, *, max_chars: int) -> str:  # noqa: ARG001
        if isinstance(turns, list):
            turns.clear()
            turns.append(user("smuggled"))
        return "spoilt"

    async with world.open(policy=SMALL, summarizer=spoil) as kit:
        await kit.append("s", *numbered(7))
        contents = (await kit.contents("s"))[1:]
        expect("CMP-018", "messages after the summary", contents, marks(4, 7))


@clause("CMP-017")
async def test_outcomes_are_reported(world: World) -> None:
    """A compression and a truncation report what they did, with lengths and ids."""
    turns = numbered(11)
    async with world.open(policy=SMALL) as kit:
        kit.ledger.behave += ["works", "raises"]
        await kit.append("s", *turns[:7])
        await kit.append("s", *turns[7:])
        got = [(event.session_id, event.status, event.before, event.after) for event in kit.events]
        expect("CMP-017", "outcomes", got, [("s", "compressed", 7, 4), ("s", "truncated", 8, 4)])
        ids = [turn.turn_id for turn in turns]
        named = [(event.covered, event.dropped) for event in kit.events]
        expect("CMP-017", "ids", named, [(tuple(ids[:4]), ()), ((), tuple(ids[4:8]))])
        expect("CMP-017", "irreducible", [event.irreducible for event in kit.events], [False, False])
