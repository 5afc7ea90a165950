"""The rolling summary, without a store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest

from conformance.provenance import UNUSABLE, Ledger
from memcore import ChatTurn, CompressionEnded, Compressor, CountPolicy, InvalidArgument, TokenWatermarkPolicy
from memcore.compression import SUMMARY_PREFIX
from memcore.trace import emit, log_event

pytestmark = pytest.mark.asyncio

SMALL = CountPolicy(4, 2)


def turns(count: int) -> list[ChatTurn]:
    """t0, t1, …"""
    return [ChatTurn("user", f"t{n}", turn_id=f"id{n}") for n in range(count)]


async def test_a_short_history_comes_back_as_the_very_same_object() -> None:
    """Nothing has to go, so nothing is copied; the attempt is reported as unchanged."""
    history, events = turns(4), list[CompressionEnded]()
    assert await Compressor(SMALL, Ledger(), trace=events.append).compress(history) is history
    assert [(event.status, event.before, event.after) for event in events] == [("unchanged", 4, 4)]


async def test_a_long_history_gets_a_summary() -> None:
    """The summary turn is of the system, known by its kind, with the prefix; the input is left alone."""
    history, ledger = turns(5), Ledger()
    after = await Compressor(SMALL, ledger).compress(history)
    assert [(turn.role, turn.kind, turn.content) for turn in after] == [
        ("system", "summary", f"{SUMMARY_PREFIX}§0§"),
        ("user", "message", "t3"),
        ("user", "message", "t4"),
    ]
    assert len(history) == 5
    assert ledger.order(after) == ("t0", "t1", "t2", "t3", "t4")


@pytest.mark.parametrize("behaviour", UNUSABLE)
async def test_an_unusable_summary_says_why(behaviour: str) -> None:
    """The event has the reason and the ids of what was dropped, in order."""
    ledger, events = Ledger(), list[CompressionEnded]()
    ledger.behave.append(behaviour)  # type: ignore[arg-type]  # one of the behaviours
    after = await Compressor(SMALL, ledger, trace=events.append).compress(turns(5))
    assert [turn.content for turn in after] == ["t3", "t4"]
    assert [(event.status, event.dropped) for event in events] == [("truncated", ("id0", "id1", "id2"))]
    assert "summar" in events[0].reason


async def test_a_summary_that_cannot_be_stored_is_a_failure() -> None:
    """More than a store takes in one text truncates, and does not break the next append."""

    async def huge(_: Sequence[ChatTurn], /, *, max_chars: int) -> str:  # noqa: ARG001
        return "x" * 1024 * 1024

    events: list[CompressionEnded] = []
    await Compressor(SMALL, huge, trace=events.append).compress(turns(5))
    assert [event.status for event in events] == ["truncated"]


async def test_cancelling_is_not_a_failed_summary() -> None:
    """The cancellation goes through, nothing is reported, and the summarizer is stopped."""
    ledger, events = Ledger(), list[CompressionEnded]()
    ledger.behave.append("hangs")
    compressor = Compressor(SMALL, ledger, trace=events.append)
    task = asyncio.create_task(compressor.compress(turns(5)))
    for _ in range(5):
        await asyncio.sleep(0)
    assert ledger.calls
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await compressor.aclose()
    assert events == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_summarizer_that_ignores_cancellation_holds_nobody_up() -> None:
    """It is given up after its limit, and what it raises later is not reported as lost."""
    stop = asyncio.Event()

    async def stubborn(_: Sequence[ChatTurn], /, *, max_chars: int) -> str:  # noqa: ARG001
        while not stop.is_set():
            try:
                await stop.wait()
            except asyncio.CancelledError:
                continue
        raise RuntimeError("too late")

    compressor = Compressor(SMALL, stubborn, timeout=0.01)
    assert len(await compressor.compress(turns(5))) == 2
    stop.set()
    await compressor.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_little_room_asks_for_a_short_summary() -> None:
    """Where 200 tokens are left of 500 for a summary, fewer characters are asked; where none, nothing is."""
    ledger, events = Ledger(), list[CompressionEnded]()
    policy = TokenWatermarkPolicy(1000, count_tokens=len)
    compressor = Compressor(policy, ledger, trace=events.append)
    history = [ChatTurn("user", "x" * 400), ChatTurn("user", "x" * (500 - 4 - 40))]
    await compressor.compress(history)
    assert ledger.calls[0].max_chars < 150
    await compressor.compress([ChatTurn("user", "x" * 400), ChatTurn("user", "x" * 494)])
    assert len(ledger.calls) == 1
    assert "no room" in events[-1].reason


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), True, "30"])
async def test_a_limit_that_is_none_is_refused(seconds: float) -> None:
    """A time limit is a number of seconds above zero."""
    with pytest.raises(InvalidArgument, match="timeout"):
        Compressor(SMALL, timeout=seconds)


async def test_lost_turns_are_logged_as_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The default trace names them; what is well is logged for debugging only."""
    with caplog.at_level(logging.DEBUG, "memcore.trace"):
        await Compressor(SMALL, trace=log_event).compress(turns(5))
        await Compressor(SMALL, Ledger(), trace=log_event).compress(turns(5))
    assert [record.levelname for record in caplog.records] == ["WARNING", "DEBUG"]
    assert "🧠" in caplog.text
    assert "id0, id1, id2" in caplog.text


async def test_a_subscriber_that_fails_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Its error is logged with the event."""

    def broken(_: object) -> None:
        raise RuntimeError("subscriber")

    emit(broken, CompressionEnded("s", "unchanged", "a"))
    assert "subscriber" in caplog.text
