"""Sessions: what is stored is what was said, once, in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.backend import Claims
from conformance.clauses import EXAMPLES, clause
from conformance.clauses.turns import Clock, marks, numbered, user
from conformance.expect import expect
from conformance.hostile import LONE_SURROGATES, NOT_TEXT, NUL_TEXTS, TEXTS, texts
from conformance.world import World
from memcore import MAX_ID_LENGTH, ChatTurn, CountPolicy

pytestmark = pytest.mark.asyncio

ROOMY = CountPolicy(compress_after=5000, keep_recent=4000)
_ANY_TEXT = texts(Claims(layers=frozenset(), nul=False))
_ANY_TURN = st.builds(
    ChatTurn, st.sampled_from(["user", "assistant", "system"]), _ANY_TEXT, st.none() | _ANY_TEXT
)


@clause("SES-001")
@pytest.mark.parametrize("role", ["user", "assistant", "system"])
async def test_hostile_texts_come_back_exactly(world: World, role: str) -> None:
    """Texts that broke real stores come back exactly, in every role, with and without a tool name."""
    sent = [ChatTurn(role, text) for text in TEXTS]  # type: ignore[arg-type]  # one of the three roles
    sent += [ChatTurn(role, text, "tool") for text in TEXTS]  # type: ignore[arg-type]
    sent += [ChatTurn(role, "answer", text) for text in TEXTS]  # type: ignore[arg-type]
    async with world.open(policy=ROOMY) as kit:
        for turn in sent:
            await kit.append("s", turn)
        expect("SES-001", "history after appending hostile texts", await kit.sessions.get_history("s"), sent)


@clause("SES-001")
@EXAMPLES
@given(sent=st.lists(_ANY_TURN, min_size=1, max_size=8))
async def test_any_turns_come_back_exactly(world: World, sent: list[ChatTurn]) -> None:
    """Any turns come back exactly, from history and window."""
    world.program.begin()
    async with world.open(policy=ROOMY) as kit:
        await kit.append("s", *sent)
        expect("SES-001", "history", await kit.sessions.get_history("s"), sent)
        expect("SES-001", "window", await kit.sessions.get_window("s", len(sent)), sent)


@clause("SES-001")
@pytest.mark.parametrize("character", ["x", "é", "会", "🦊"])
async def test_the_largest_text_comes_back(world: World, character: str) -> None:
    """A text of exactly the limit comes back, whatever its characters take."""
    width = len(character.encode())
    limit = world.claims.max_text_bytes
    text = character * (limit // width) + "." * (limit % width)
    async with world.open() as kit:
        await kit.append("s", user(text))
        got = [(len(turn.content), turn.content == text) for turn in await kit.sessions.get_history("s")]
        expect("SES-001", f"length and equality of {limit} bytes", got, [(len(text), True)])


@clause("SES-001")
async def test_the_longest_tool_name_comes_back(world: World) -> None:
    """A tool name of 512 code points, and an empty one, which is not the same as none."""
    sent = [ChatTurn("assistant", "x", name) for name in ("🔧" * MAX_ID_LENGTH, "", None)]
    async with world.open() as kit:
        await kit.append("s", *sent)
        expect("SES-001", "history", await kit.sessions.get_history("s"), sent)


@clause("SES-002")
@pytest.mark.parametrize("text", [*LONE_SURROGATES, *NOT_TEXT], ids=ascii)
async def test_what_is_not_text_is_refused(world: World, text: object) -> None:
    """A lone surrogate and what is not text at all are refused, and their whole batch is not written."""
    async with world.open() as kit:
        await kit.append("s", user("before"))
        bad = ChatTurn("user", text)  # type: ignore[arg-type]  # the point of this check
        await kit.refused("SES-002", f"content {text!a}", kit.sessions.append, "s", user("good"), bad)
        expect("SES-002", "history after the refusal", await kit.contents("s"), ["before"])


@clause("SES-002")
async def test_a_text_above_the_limit_is_refused(world: World) -> None:
    """One byte above the limit is refused, in one-byte and in wide characters."""
    limit = world.claims.max_text_bytes
    async with world.open() as kit:
        for text in ("x" * (limit + 1), "🦊" * (limit // 4) + "x" * (limit % 4 + 1)):
            await kit.refused("SES-002", "content", kit.sessions.append, "s", user(text))
        expect("SES-002", "history after the refusals", await kit.contents("s"), [])
        expect("SES-002", "list after the refusals", await kit.sessions.list_sessions(), [])


@clause("SES-003")
@pytest.mark.parametrize("text", NUL_TEXTS, ids=ascii)
async def test_nul_comes_back_or_is_refused(world: World, text: str) -> None:
    """A NUL comes back exactly, or is refused where the backend claims so; never is it cut off."""
    async with world.open() as kit:
        if world.claims.nul or "\0" not in text:
            await kit.append("s", user(text))
            expect("SES-003", "history", await kit.contents("s"), [text])
        else:
            await kit.refused("SES-003", "content", kit.sessions.append, "s", user(text))
            expect("SES-003", "history after the refusal", await kit.contents("s"), [])


@clause("SES-004")
async def test_every_turn_is_there_once(world: World) -> None:
    """A thousand appends leave a thousand turns, each once."""
    async with world.open(policy=ROOMY) as kit:
        for turn in numbered(1000):
            await kit.append("s", turn)
        expect("SES-004", "contents", await kit.contents("s"), marks(0, 1000))


@clause("SES-004")
async def test_equal_texts_are_two_turns(world: World) -> None:
    """The same text said twice is kept twice: next to each other, in one batch, and later."""
    async with world.open() as kit:
        await kit.append("s", user("yes"))
        await kit.append("s", user("yes"))
        await kit.append("s", user("yes"), user("yes"))
        await kit.append("s", user("no"), user("yes"))
        expect("SES-004", "contents", await kit.contents("s"), ["yes", "yes", "yes", "yes", "no", "yes"])


@clause("SES-005")
@EXAMPLES
@given(sizes=st.lists(st.integers(1, 12), min_size=1, max_size=8))
async def test_order_is_that_of_acknowledgements(world: World, sizes: list[int]) -> None:
    """Batches of any sizes keep their order, inside and among each other."""
    world.program.begin()
    async with world.open(policy=ROOMY) as kit:
        for n, size in enumerate(sizes):
            await kit.append("s", *numbered(size, start=sum(sizes[:n])))
        expect("SES-005", "contents", await kit.contents("s"), marks(0, sum(sizes)))


@clause("SES-005")
async def test_a_long_batch_keeps_its_order(world: World) -> None:
    """A batch longer than what drivers and scripts take at once keeps its order."""
    async with world.open(policy=CountPolicy(20_000, 10_000)) as kit:
        await kit.append("s", *numbered(9000))
        expect("SES-005", "contents", await kit.contents("s"), marks(0, 9000))


@clause("SES-006")
@pytest.mark.parametrize("step", [0.0, -1.0, -3600.0])
async def test_order_needs_no_clock(world: World, step: float) -> None:
    """Under a clock that stands still or runs backwards turns stay in order."""
    clock = Clock()
    async with world.open(now=clock) as kit:
        for turn in numbered(20):
            await kit.append("s", turn)
            clock.now += step
        expect("SES-006", f"contents, clock step {step}", await kit.contents("s"), marks(0, 20))


@clause("SES-007")
async def test_turns_that_are_none_are_refused(world: World) -> None:
    """No turn, no ChatTurn, an unknown role and a summary are refused; nothing of the batch is written."""
    bad: list[object] = [
        "text",
        None,
        {"role": "user", "content": "x"},
        ChatTurn("tool", "x"),  # type: ignore[arg-type]  # the point of this check
        ChatTurn("User", "x"),  # type: ignore[arg-type]
        ChatTurn("", "x"),  # type: ignore[arg-type]
        ChatTurn(None, "x"),  # type: ignore[arg-type]
        ChatTurn("system", "x", kind="summary"),
        ChatTurn("user", "x", 7),  # type: ignore[arg-type]
        ChatTurn("user", "x", "\ud800"),
    ]
    async with world.open() as kit:
        await kit.refused("SES-007", "an append of no turn", kit.sessions.append, "s")
        for turn in bad:
            await kit.refused(
                "SES-007", f"an append of {turn!a}", kit.sessions.append, "s", user("good"), turn
            )
        expect("SES-007", "history after the refusals", await kit.contents("s"), [])
        expect("SES-007", "list after the refusals", await kit.sessions.list_sessions(), [])
