"""The rolling summary, without a store."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence

import pytest

from conformance.provenance import UNUSABLE, Ledger
from memcore import (
    ChatTurn,
    CompressionEnded,
    Compressor,
    CountPolicy,
    InvalidArgument,
    StoreUnavailable,
    TokenWatermarkPolicy,
)
from memcore.compression import MAX_ROUNDS, SUMMARY_PREFIX, Compressions, Rewrite
from memcore.policy import Size
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


class Session:
    """A session for one trigger, that fails where it is told to.

    Args:
        fails: What a method raises instead of working, by its name.
    """

    def __init__(self, length: int, **fails: BaseException) -> None:
        self.session_id = "s"
        self.turns: list[ChatTurn] = turns(length)
        self.fails = fails
        self.released: list[str] = []
        self.arriving: list[ChatTurn] = []

    def _maybe_fail(self, method: str) -> None:
        if method in self.fails:
            raise self.fails.pop(method)

    async def claim(self, owner: str) -> bool:
        self._maybe_fail("claim")
        self.owner = owner
        return True

    async def release(self, owner: str) -> Size:
        self._maybe_fail("release")
        self.released.append(owner)
        self.turns += self.arriving
        self.arriving = []
        return Size(len(self.turns), 0)

    async def read(self) -> Sequence[ChatTurn]:
        self._maybe_fail("read")
        return tuple(self.turns)

    async def commit(self, rewrite: Rewrite) -> bool:
        self._maybe_fail("commit")
        self.turns = rewrite.apply(self.turns)
        return True


def compressor(events: list[CompressionEnded]) -> Compressor:
    """4 → 2, reporting to a list."""
    return Compressor(SMALL, Ledger(), trace=events.append)


@pytest.mark.parametrize("method", ["claim", "read", "commit", "release"])
async def test_a_store_that_fails_is_reported_and_not_raised(method: str) -> None:
    """The append whose turns are stored succeeds, and the claim is given back, made or not."""
    session, events = Session(5, **{method: StoreUnavailable("gone")}), list[CompressionEnded]()
    await compressor(events).run(session)
    assert events[-1].status == "discarded"
    assert "gone" in events[-1].reason
    assert len(session.released) == (method != "release")


@pytest.mark.parametrize("method", ["claim", "read", "commit"])
async def test_a_cancellation_goes_through_wherever_it_comes(method: str) -> None:
    """Also where giving back the claim fails as well; the claim is given back in any case."""
    session, events = Session(5, **{method: asyncio.CancelledError()}), list[CompressionEnded]()
    with pytest.raises(asyncio.CancelledError):
        await compressor(events).run(session)
    assert len(session.released) == 1
    session = Session(5, **{method: asyncio.CancelledError()}, release=StoreUnavailable("gone"))
    with pytest.raises(asyncio.CancelledError):
        await compressor(events).run(session)
    assert "could not be given back" in events[-1].reason


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), asyncio.CancelledError()], ids=repr)
async def test_an_unknown_commit_names_what_it_may_have_cost(error: BaseException) -> None:
    """It may have landed, so the event has the ids, and does not say that it did."""
    session, events = Session(5, commit=error), list[CompressionEnded]()
    with contextlib.suppress(asyncio.CancelledError):
        await Compressor(SMALL, trace=events.append).run(session)
    assert [(event.status, event.dropped) for event in events] == [("discarded", ("id0", "id1", "id2"))]
    assert "unknown" in events[0].reason


async def test_what_was_deferred_until_the_release_is_not_forgotten() -> None:
    """Turns that came before the claim was given back are compressed in the next round."""
    session, events = Session(5), list[CompressionEnded]()
    session.arriving = [ChatTurn("user", f"late {n}") for n in range(3)]
    await compressor(events).run(session)
    assert [event.status for event in events] == ["compressed", "compressed"]
    assert len(session.turns) == 3


async def test_rounds_are_bounded() -> None:
    """Where more turns arrive than a round takes, it ends all the same."""
    session, events = Session(5), list[CompressionEnded]()

    class Flooded(Session):
        async def release(self, owner: str) -> Size:
            self.arriving = turns(9)
            return await super().release(owner)

    session = Flooded(5)
    await compressor(events).run(session)
    assert [event.status for event in events] == ["compressed"] * MAX_ROUNDS


async def test_an_irreducible_history_is_left_after_one_attempt() -> None:
    """There is nothing that a second round could take away."""
    session, events = Session(0), list[CompressionEnded]()
    session.turns = [ChatTurn("user", "x" * 20), ChatTurn("user", "x" * 900)]
    policy = TokenWatermarkPolicy(1000, count_tokens=len)
    await Compressor(policy, Ledger(), trace=events.append).run(session)
    assert [(event.status, event.irreducible) for event in events] == [("compressed", True)]


async def test_compressions_end_with_their_store() -> None:
    """Closing cancels them; the append that waits returns, for its turns are stored."""
    ledger, events, session = Ledger(), list[CompressionEnded](), Session(5)
    ledger.behave.append("hangs")
    running = Compressions(Compressor(SMALL, ledger, trace=events.append))
    waiting = asyncio.create_task(running.run(session))
    for _ in range(10):
        await asyncio.sleep(0)
    assert ledger.calls
    await running.aclose()
    await waiting
    assert [event.status for event in events] == ["discarded"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
