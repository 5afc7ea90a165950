"""Sessions: a turn sent again is the same turn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.clauses import clause, needs
from conformance.clauses.turns import marks, numbered, user
from conformance.expect import expect
from conformance.world import World
from memcore import ChatTurn, CountPolicy

pytestmark = pytest.mark.asyncio

LONGEST_WINDOW = 5000
"""A claimed retry window is tried up to this many turns."""


@clause("SES-027")
async def test_a_turn_sent_again_is_stored_once(world: World) -> None:
    """At once, later, twice in one batch, and as an equal object with the same id."""
    first, second = numbered(2)
    async with world.open() as kit:
        await kit.append("s", first)
        await kit.append("s", first)
        await kit.append("s", second)
        await kit.append("s", replace(first))
        await kit.append("s", second, second)
        expect("SES-027", "contents", await kit.contents("s"), marks(0, 2))
        ids = [turn.turn_id for turn in await kit.sessions.get_history("s")]
        expect("SES-027", "turn ids that come back", ids, [first.turn_id, second.turn_id])


@clause("SES-027")
async def test_the_same_turn_in_two_sessions_is_two(world: World) -> None:
    """Turn ids are known per session."""
    turn = user("x")
    async with world.open() as kit:
        await kit.append("a", turn)
        await kit.append("b", turn)
        expect("SES-027", "contents of the other session", await kit.contents("b"), ["x"])


@clause("SES-027")
async def test_a_turn_is_known_to_the_end_of_the_window(world: World) -> None:
    """It is recognized while one turn less than the window came after it, in batches or one by one."""
    window = min(world.claims.idempotent or 0, LONGEST_WINDOW)
    first, *later = numbered(window)
    async with world.open(policy=CountPolicy(20_000, 10_000)) as kit:
        await kit.append("s", first)
        for at in range(0, len(later) - 10, 100):
            await kit.append("s", *later[at : min(at + 100, len(later) - 10)])
        for turn in later[-10:]:
            await kit.append("s", turn)
        await kit.append("s", first)
        expect("SES-027", f"contents, {window - 1} turns later", await kit.contents("s"), marks(0, window))


@clause("SES-027")
@needs("compresses")
async def test_a_turn_is_known_after_compression(world: World) -> None:
    """Compressed away or dropped, once or several times: still it is not stored again."""
    turns = numbered(12)
    async with world.open(policy=CountPolicy(4, 2)) as kit:
        kit.ledger.behave += ["works", "raises", "works"]
        for turn in turns:
            await kit.append("s", turn)
        before = await kit.view("s")
        expect("SES-027", "end of the history", before[-1:], [("message", "assistant", "t11", None)])
        for turn in turns:
            await kit.append("s", turn)
        expect("SES-027", "history after all was sent again", await kit.view("s"), before)


@clause("SES-028")
@pytest.mark.parametrize("compressed", [False, True])
async def test_one_id_for_two_turns_is_a_conflict(world: World, compressed: bool) -> None:
    """Another role, content or tool name under a known id is refused with its whole batch."""
    turn = ChatTurn("user", "said", "tool", turn_id="t")
    changed = [
        replace(turn, role="assistant"),
        replace(turn, content="said "),
        replace(turn, tool_name=None),
        replace(turn, tool_name=""),
    ]
    async with world.open(policy=CountPolicy(4, 2)) as kit:
        await kit.append("s", turn, *numbered(8 if compressed else 2))
        before = await kit.view("s")
        for other in changed:
            batch = ("s", user("new"), other, user("newer"))
            await kit.conflicts("SES-028", f"an append of {other!r}", kit.sessions.append, *batch)
        expect("SES-028", "history after the conflicts", await kit.view("s"), before)


@clause("SES-029")
async def test_known_turns_of_a_batch_are_skipped(world: World) -> None:
    """What is new in a batch is stored in its order, whatever known turns stand between."""
    a, b, c, d, e = numbered(5)
    async with world.open() as kit:
        await kit.append("s", b, d)
        await kit.append("s", a, b, c, d, e)
        expect("SES-029", "contents", await kit.contents("s"), ["t1", "t3", "t0", "t2", "t4"])
        await kit.append("s", b, *numbered(2, start=5))
        expect("SES-029", "end after a known first turn", (await kit.contents("s"))[5:], ["t5", "t6"])
