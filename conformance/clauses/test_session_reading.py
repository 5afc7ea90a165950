"""Sessions: windows, and that reading is only reading."""

from __future__ import annotations

from functools import partial

import pytest

from conformance.clauses import clause, needs
from conformance.clauses.turns import marks, numbered, user
from conformance.expect import expect
from conformance.model import view
from conformance.world import Kit, World
from memcore import CountPolicy

pytestmark = pytest.mark.asyncio

SMALL = CountPolicy(compress_after=6, keep_recent=3)


async def _window(kit: Kit, limit: int | None) -> list[tuple[object, ...]]:
    """A window in short: contents of messages, and what its summary covers."""
    shown = view(await kit.sessions.get_window("s", limit), kit.ledger)
    return [row if row[0] == "summary" else (row[2],) for row in shown]


@clause("SES-008")
@pytest.mark.parametrize("limit", [1, 2, 4, 5, 6])
async def test_a_window_is_the_end_of_the_history(world: World, limit: int) -> None:
    """A window has the last messages, oldest first."""
    async with world.open() as kit:
        await kit.append("s", *numbered(5))
        expected = [(mark,) for mark in marks(max(0, 5 - limit), 5)]
        expect("SES-008", f"window of {limit} of 5 messages", await _window(kit, limit), expected)


@clause("SES-008")
async def test_the_default_window_has_twenty_messages(world: World) -> None:
    """Without a limit a window has the last 20 messages."""
    async with world.open() as kit:
        await kit.append("s", *numbered(25))
        got = [turn.content for turn in await kit.sessions.get_window("s")]
        expect("SES-008", "default window of 25 messages", got, marks(5, 25))


@clause("SES-008", "SES-009")
@needs("compresses")
@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 5, None])
async def test_the_summary_comes_first_and_does_not_count(world: World, limit: int | None) -> None:
    """A window of a compressed session is its summary and then `limit` messages."""
    async with world.open(policy=SMALL) as kit:
        await kit.append("s", *numbered(7))
        messages = [(mark,) for mark in marks(4 if limit is None else max(4, 7 - limit), 7)]
        expected = [("summary", *marks(0, 4)), *messages]
        named = "SES-009" if limit in (0, None) else "SES-008"
        expect(named, f"window of {limit} beside a summary", await _window(kit, limit), expected)


@clause("SES-009")
@pytest.mark.parametrize("limit", [5, 6, 41, 10**6, 2**63, 10**30, None])
async def test_a_limit_above_the_length_gives_everything(world: World, limit: int | None) -> None:
    """`None`, and any number from the length on, gives all messages."""
    async with world.open() as kit:
        await kit.append("s", *numbered(5))
        expected = [(mark,) for mark in marks(0, 5)]
        expect("SES-009", f"window of {limit} of 5 messages", await _window(kit, limit), expected)


@clause("SES-009")
async def test_a_window_of_nothing_is_empty(world: World) -> None:
    """`limit=0` without a summary gives nothing, not everything."""
    async with world.open() as kit:
        await kit.append("s", *numbered(5))
        expect("SES-009", "window of 0 of 5 messages", await _window(kit, 0), [])


@clause("SES-010")
@pytest.mark.parametrize("limit", [-1, -20, True, False, 1.0, "5", b"5", float("nan"), [1]], ids=repr)
async def test_a_bad_limit_is_refused(world: World, limit: object) -> None:
    """A negative limit, a bool and what is not an int are refused, also for an unknown session."""
    async with world.open() as kit:
        await kit.append("s", *numbered(5))
        for session_id in ("s", "unknown"):
            await kit.refused("SES-010", f"a window of {limit!r}", kit.sessions.get_window, session_id, limit)


@clause("SES-011")
async def test_reading_changes_nothing(world: World) -> None:
    """After many reads of every kind, every read still says the same."""
    async with world.open() as kit:
        await kit.append("s", *numbered(5))
        await kit.append("other", user("x"))
        before = (await kit.sessions.get_history("s"), await kit.sessions.list_sessions())
        for limit in (0, 1, 20, None) * 5:
            await kit.sessions.get_window("s", limit)
            await kit.sessions.get_window("unknown", limit)
            await kit.sessions.get_history("s")
            await kit.sessions.list_sessions()
        after = (await kit.sessions.get_history("s"), await kit.sessions.list_sessions())
        expect("SES-011", "history and list after reading", after, before)


@clause("SES-012")
async def test_an_unknown_session_is_empty(world: World) -> None:
    """A session that was never appended to reads empty, can be cleared, and is not listed."""
    async with world.open() as kit:
        await kit.sessions.clear("unknown")
        expect("SES-012", "history", await kit.sessions.get_history("unknown"), [])
        for limit in (0, 20, None):
            got = await kit.sessions.get_window("unknown", limit)
            expect("SES-012", f"window of {limit}", got, [])
        expect("SES-012", "list", await kit.sessions.list_sessions(), [])


@clause("SES-021")
async def test_what_was_handed_out_is_the_callers(world: World) -> None:
    """Emptying and extending lists that were handed out changes nothing that is stored."""
    async with world.open() as kit:
        await kit.append("s", *numbered(3))
        store = kit.sessions
        reads = [partial(store.get_window, "s", limit) for limit in (None, 2, 3, 20)]
        for read in (partial(store.get_history, "s"), *reads):
            handed_out = await read()
            handed_out.append(user("not stored"))
            del handed_out[0]
        (await kit.sessions.list_sessions()).clear()
        expect("SES-021", "contents", await kit.contents("s"), marks(0, 3))
        listed = [row.session_id for row in await kit.sessions.list_sessions()]
        expect("SES-021", "list", listed, ["s"])
