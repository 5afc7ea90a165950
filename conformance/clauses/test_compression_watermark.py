"""Compression by tokens. Here a character is a token, so that every bound can be hit exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.clauses import EXAMPLES, clause, needs
from conformance.expect import expect, expect_that
from conformance.provenance import Behaviour
from conformance.world import Kit, World
from memcore import ChatTurn, TokenWatermarkPolicy

pytestmark = pytest.mark.asyncio

WINDOW, HIGH, LOW = 1000, 750, 500
POLICY = TokenWatermarkPolicy(WINDOW, count_tokens=len)
SUMMARY_ROOM = 200
"""More than a summary of the asked length takes, with its prefix and overhead."""


def weighing(tokens: int, number: int) -> ChatTurn:
    """A message that takes exactly so many tokens, its overhead included; numbers make it unlike others."""
    overhead = POLICY.weigh(ChatTurn("user", ""))
    return ChatTurn("user", chr(0x4E00 + number) + "." * (tokens - overhead - 1))


async def _tokens(kit: Kit) -> int:
    return sum(POLICY.weigh(turn) for turn in await kit.sessions.get_history("s"))


async def _fill(kit: Kit, *weights: int) -> list[ChatTurn]:
    turns = [weighing(weight, n) for n, weight in enumerate(weights)]
    for turn in turns:
        await kit.append("s", turn)
    return turns


async def _untouched(kit: Kit, clause_id: str, turns: Sequence[ChatTurn]) -> None:
    expect(clause_id, "calls of the summarizer", len(kit.ledger.calls), 0)
    expect(clause_id, "history", await kit.sessions.get_history("s"), turns)


@clause("CMP-004")
@pytest.mark.parametrize("weights", [(75,) * 10, (750,), (400, 350), (5,) * 150])
async def test_exactly_the_high_share_is_left_alone(world: World, weights: tuple[int, ...]) -> None:
    """A history of exactly 75 % of the window is untouched, in few turns or many."""
    async with world.open(policy=POLICY) as kit:
        await _untouched(kit, "CMP-004", await _fill(kit, *weights))


@clause("CMP-005")
@pytest.mark.parametrize("weights", [(75,) * 9 + (76,), (400, 351), (5,) * 149 + (6,)])
async def test_one_token_more_is_compressed(world: World, weights: tuple[int, ...]) -> None:
    """One token above, and afterwards it takes at most 50 %, and keeps what fits beside a summary."""
    async with world.open(policy=POLICY) as kit:
        turns = await _fill(kit, *weights)
        history = await kit.sessions.get_history("s")
        expect("CMP-005", "calls of the summarizer", len(kit.ledger.calls), 1)
        tokens = await _tokens(kit)
        expect_that("CMP-005", "tokens", tokens <= LOW, expected=f"at most {LOW}", got=tokens)
        kept = history[1:]
        expect("CMP-005", "messages after the summary", kept, turns[len(turns) - len(kept) :])
        next_one = POLICY.weigh(turns[len(turns) - len(kept) - 1])
        full = tokens + next_one + SUMMARY_ROOM > LOW
        expect_that("CMP-005", "kept", full, expected="as many as fit beside a summary", got=kept)


@clause("CMP-004", "CMP-005")
async def test_the_tool_name_counts(world: World) -> None:
    """A tool name takes tokens as a content does: with it the history is at the bound, and then above it."""
    for extra, calls in ((0, 0), (1, 1)):
        async with world.open(policy=POLICY) as kit:
            await kit.append("s", weighing(400, 0))
            turn = replace(weighing(250, 1), tool_name="t" * (100 + extra))
            await kit.append("s", turn)
            named = "CMP-005" if calls else "CMP-004"
            expect(named, f"calls at {HIGH + extra} tokens", len(kit.ledger.calls), calls)


@clause("CMP-004", "CMP-005")
async def test_the_summary_counts(world: World) -> None:
    """After a compression the history is filled to exactly 75 %, summary included; one more fires."""
    async with world.open(policy=POLICY) as kit:
        await _fill(kit, 400, 351)
        rest = HIGH - await _tokens(kit)
        await kit.append("s", weighing(rest, 1000))
        expect("CMP-004", "calls at exactly 75 % with a summary", len(kit.ledger.calls), 1)
        await kit.append("s", weighing(5, 1001))
        expect("CMP-005", "calls above 75 % with a summary", len(kit.ledger.calls), 2)


@clause("CMP-006")
async def test_a_turn_over_the_budget_stays(world: World) -> None:
    """It stays verbatim, everything else is compressed, the outcome says irreducible; later it leaves."""
    async with world.open(policy=POLICY) as kit:
        turns = await _fill(kit, 20, 20, 900)
        history = await kit.sessions.get_history("s")
        expect("CMP-006", "messages after the summary", history[1:], turns[2:])
        covered = [turn.content for turn in turns[:2]]
        expect("CMP-006", "covered", list(kit.ledger.covers(history[0])), covered)
        if kit.claims.traces:
            flags = [(event.status, event.irreducible) for event in kit.events]
            expect("CMP-006", "outcomes", flags, [("compressed", True)])
        await kit.append("s", weighing(20, 1000))
        tokens = await _tokens(kit)
        expect_that("CMP-006", "tokens later", tokens <= LOW, expected=f"at most {LOW}", got=tokens)


@clause("CMP-006")
async def test_a_single_turn_over_the_budget_does_not_loop(world: World) -> None:
    """Alone in its session it is kept, and no summarizer is called for it."""
    async with world.open(policy=POLICY) as kit:
        await _untouched(kit, "CMP-006", await _fill(kit, 5000))


@clause("CMP-006")
@needs("idempotent")
async def test_irreducible_does_not_fire_again_by_itself(world: World) -> None:
    """Reading, and sending the same turns again, calls no summarizer."""
    async with world.open(policy=POLICY) as kit:
        turns = await _fill(kit, 20, 20, 900)
        for turn in turns:
            await kit.append("s", turn)
            await kit.sessions.get_window("s")
        expect("CMP-006", "calls of the summarizer", len(kit.ledger.calls), 1)


@clause("CMP-007")
async def test_a_summary_over_the_budget_is_a_failure(world: World) -> None:
    """It is not stored; the window is truncated to what fits."""
    async with world.open(policy=POLICY) as kit:
        kit.ledger.behave.append("long")
        turns = await _fill(kit, 200, 200, 200, 200)
        expect("CMP-007", "history", await kit.sessions.get_history("s"), turns[2:])


_WEIGHTS = st.lists(st.integers(5, 900) | st.integers(5, 60), min_size=1, max_size=30)
_BEHAVIOURS = st.lists(st.sampled_from(["works", "works", "raises", "long", "blank"]), max_size=10)


@clause("CMP-005", "CMP-006", "CMP-011")
@needs("traces")
@EXAMPLES
@given(weights=_WEIGHTS, behaviours=_BEHAVIOURS)
async def test_any_conversation_stays_within_its_budget(
    world: World, weights: list[int], behaviours: list[Behaviour]
) -> None:
    """Whatever the sizes and the fate of summaries: the bounds hold, and every turn is accounted for."""
    world.program.begin()
    turns = [weighing(weight, n) for n, weight in enumerate(weights)]
    async with world.open(policy=POLICY) as kit:
        kit.ledger.behave += behaviours
        for n, turn in enumerate(turns, start=1):
            attempts = len(kit.events)
            await kit.append("s", turn)
            await _check_bounds(kit, turn, attempts)
            await _check_conservation(kit, turns[:n])


async def _check_bounds(kit: Kit, newest: ChatTurn, attempts: int) -> None:
    history, tokens = await kit.sessions.get_history("s"), await _tokens(kit)
    expect("CMP-006", "newest turn", history[-1], newest)
    allowed = LOW if len(kit.events) > attempts else HIGH
    # Only what cannot leave may be over: the newest turn, and an earlier summary that a failure left.
    reducible = len([turn for turn in history if turn.kind == "message"]) > 1
    fine = tokens <= allowed or not reducible
    expect_that("CMP-005", "tokens", fine, expected=f"at most {allowed}", got=tokens)
    if tokens > allowed and len(kit.events) > attempts:
        expect("CMP-006", "irreducible flag", kit.events[-1].irreducible, True)


async def _check_conservation(kit: Kit, turns: Sequence[ChatTurn]) -> None:
    content_of = {turn.turn_id: turn.content for turn in turns}
    dropped = [content_of[name] for event in kit.events for name in event.dropped]
    seen = sorted([*await kit.order("s"), *dropped])
    expect("CMP-011", "covered, kept and dropped", seen, sorted(turn.content for turn in turns))
    order = [turn.content for turn in turns if turn.content not in dropped]
    expect("CMP-011", "order of covered and kept", await kit.order("s"), order)
