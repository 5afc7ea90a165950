"""Compression that fails: the conversation goes on, and nothing disappears unreported."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from conformance.clauses import clause
from conformance.clauses.test_compression_count import SMALL, plain
from conformance.clauses.turns import marks, numbered
from conformance.expect import Violation, expect
from conformance.provenance import UNUSABLE, Behaviour
from conformance.world import Kit, World
from memcore import ChatTurn

pytestmark = pytest.mark.asyncio

PATIENCE_SECONDS = 5.0
"""Far longer than it takes to give a summarizer up after `SHORT`."""
SHORT = 0.05
"""Seconds after which a summarizer that hangs is given up."""


async def _without_a_summary(kit: Kit, clause_id: str) -> None:
    await kit.append("s", *numbered(7))
    expect(clause_id, "history after a first failure", await kit.view("s"), plain(4, 7))
    await kit.append("s", *numbered(3, start=7))
    expect(clause_id, "history below the bound", await kit.view("s"), plain(4, 10))


async def _with_an_earlier_summary(kit: Kit, clause_id: str, behaviour: Behaviour) -> None:
    kit.ledger.behave += ["works", behaviour]
    await kit.append("s", *numbered(7))
    await kit.append("s", *numbered(4, start=7))
    expected = [("summary", *marks(0, 4)), *plain(8, 11)]
    expect(clause_id, "history with an earlier summary", await kit.view("s"), expected)
    await kit.append("s", *numbered(3, start=11))
    covered = ("summary", *marks(0, 4), *marks(8, 11))
    expect(clause_id, "history after it works again", await kit.view("s"), [covered, *plain(11, 14)])


@clause("CMP-012")
@pytest.mark.parametrize("behaviour", ["raises", "cancels"])
async def test_a_summarizer_that_raises_truncates(world: World, behaviour: Behaviour) -> None:
    """The append succeeds and the recent turns stay, whether it raises an error or a cancellation."""
    async with world.open(policy=SMALL) as kit:
        kit.ledger.behave.append(behaviour)
        await _without_a_summary(kit, "CMP-012")


@clause("CMP-012")
@pytest.mark.parametrize("behaviour", ["raises", "cancels"])
async def test_an_earlier_summary_outlives_a_failure(world: World, behaviour: Behaviour) -> None:
    """It stays as it was, and is folded into the next that works."""
    async with world.open(policy=SMALL) as kit:
        await _with_an_earlier_summary(kit, "CMP-012", behaviour)


@clause("CMP-013")
async def test_a_summarizer_that_hangs_is_given_up(world: World) -> None:
    """After its limit the window is truncated; an earlier summary stays."""
    async with world.open(policy=SMALL, summarizer_timeout=SHORT) as kit:
        kit.ledger.behave.append("hangs")
        await _without_a_summary(kit, "CMP-013")
    async with world.open(policy=SMALL, summarizer_timeout=SHORT) as kit:
        await _with_an_earlier_summary(kit, "CMP-013", "hangs")


@clause("CMP-013")
async def test_a_late_summary_changes_nothing(world: World) -> None:
    """A summarizer that ignores its cancellation and answers later is not heard."""
    called, answer, answered = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def late(turns: Sequence[ChatTurn], /, *, max_chars: int) -> str:  # noqa: ARG001
        called.set()
        while not answer.is_set():
            with suppress(asyncio.CancelledError):
                await answer.wait()
        answered.set()
        return "too late"

    async with world.open(policy=SMALL, summarizer=late, summarizer_timeout=SHORT) as kit:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await kit.append("s", *numbered(7))
        except TimeoutError as error:
            raise Violation("CMP-013", "an append", f"done after {SHORT} s", "it waits on") from error
        finally:
            answer.set()
        expect("CMP-013", "whether the summarizer was called", called.is_set(), True)
        await answered.wait()
        await kit.append("s", *numbered(1, start=7))
        expect("CMP-013", "history after the late answer", await kit.view("s"), plain(4, 8))


@clause("CMP-014")
@pytest.mark.parametrize("behaviour", list(UNUSABLE))
async def test_an_unusable_summary_is_a_failure(world: World, behaviour: Behaviour) -> None:
    """Blank, invisible, half a character and what is not text truncate like an error."""
    async with world.open(policy=SMALL) as kit:
        kit.ledger.behave.append(behaviour)
        await _without_a_summary(kit, "CMP-014")
    async with world.open(policy=SMALL) as kit:
        await _with_an_earlier_summary(kit, "CMP-014", behaviour)


@clause("CMP-015")
async def test_no_summarizer_truncates(world: World) -> None:
    """Without a summarizer the recent turns stay, at every round."""
    async with world.open(policy=SMALL, summarizer=None) as kit:
        await _without_a_summary(kit, "CMP-015")
        await kit.append("s", *numbered(1, start=10))
        expect("CMP-015", "history after the next round", await kit.view("s"), plain(8, 11))


@clause("CMP-016", "CMP-011")
async def test_dropped_turns_are_named_in_order(world: World) -> None:
    """Covered, dropped and kept turns together are the conversation, in its order."""
    turns = numbered(19)
    content_of = {turn.turn_id: turn.content for turn in turns}
    async with world.open(policy=SMALL) as kit:
        kit.ledger.behave += ["works", "raises", "none", "works", "raises"]
        for turn in turns:
            await kit.append("s", turn)
        dropped = [[content_of[name] for name in event.dropped] for event in kit.events]
        expected = [[], marks(4, 7), marks(7, 10), [], marks(13, 16)]
        expect("CMP-016", "dropped turns of each attempt", dropped, expected)
        covered = ("summary", *marks(0, 4), *marks(10, 13))
        expect("CMP-011", "what is left", await kit.view("s"), [covered, *plain(16, 19)])


@clause("CMP-011")
async def test_every_turn_that_left_was_given_to_the_summarizer(world: World) -> None:
    """What each successful call was given is what its summary stands for, without gap or overlap."""
    turns = [replace(turn, tool_name="tool") for turn in numbered(40)]
    async with world.open(policy=SMALL) as kit:
        for turn in turns:
            await kit.append("s", turn)
        given = [turn for call in kit.ledger.calls for turn in call.turns if turn.kind == "message"]
        expect("CMP-011", "messages given to the summarizer", given, turns[: len(given)])
        expect("CMP-011", "messages kept", (await kit.sessions.get_history("s"))[1:], turns[len(given) :])
        expect("CMP-011", "all that is covered or kept", await kit.order("s"), marks(0, 40))
