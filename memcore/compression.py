"""The rolling summary: the one place where the algorithm exists.

An attempt reads a history, asks the policy what has to leave, lets the summarizer write a summary of it
outside any lock, and hands the store a `Rewrite` of the first elements. The store applies it only if these
are still the elements that were read; turns appended meanwhile stay where they are. A summarizer that fails
does not stop the conversation: the turns that had to leave are dropped, and the event names them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from memcore import guards
from memcore.errors import MemcoreError, StoreUnavailable
from memcore.policy import SUMMARY_MAX_CHARS, Plan, Policy, Size
from memcore.summarizer import Failure, PatientCaller, Summarizer
from memcore.trace import CompressionEnded, Trace, emit, log_event
from memcore.types import ChatTurn, new_id

SUMMARY_PREFIX = "[会话摘要] "
"""Opens the content of every summary turn, for a model that reads it; code looks at `kind`."""
SUMMARIZER_TIMEOUT_SECONDS = 30.0
"""A summarizer that takes longer than this has failed."""
MAX_ROUNDS = 3
"""Attempts of one trigger, where turns that arrived meanwhile make the next one due at once."""
RELEASE_SECONDS = 1.0
"""How long an attempt waits to give back its claim; one that is not given back ends by itself."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What a store shall do: put `head` in place of the first `cut` elements that were read.

    Args:
        cut: At least 1, and less than the length that was read.
        head: The summary turn, new or the earlier one; `None` if there is none to keep.
        event: What is reported if it lands.
    """

    cut: int
    head: ChatTurn | None
    event: CompressionEnded

    def apply(self, history: Sequence[ChatTurn]) -> list[ChatTurn]:
        """The history after the rewrite, as a new list."""
        return [*([self.head] if self.head else []), *history[self.cut :]]


class Compressible(Protocol):
    """One session as compression sees it; each store implements these.

    A session that is gone, or was never there, is empty: it can be claimed, its size is 0, nothing is read.
    """

    session_id: str

    def claim(self, owner: str) -> Coroutine[Any, Any, bool]:
        """Say that an attempt is under way; false if another is. Saves double work, nothing rests on it.

        A claim that other processes see has to end by itself, for its owner may die: twice the time that a
        summary may take is enough.
        """

    async def release(self, owner: str) -> Size:
        """End what this owner claimed, if it did; how large the history is at that instant."""

    async def read(self) -> Sequence[ChatTurn]:
        """The whole history, of one instant."""

    async def commit(self, rewrite: Rewrite) -> bool:
        """Apply the rewrite atomically; false if what was read is no longer there."""


class Compressor:
    """A policy, a summarizer and its limits: all that compression needs besides a store.

    Args:
        policy: When to compress, and what to keep.
        summarizer: Writes summaries; without one, what has to leave is dropped.
        timeout: Seconds that a summary may take.
        prefix: Opens the content of every summary turn.
        max_chars: Length that is asked of the summarizer.
        trace: Gets the outcome of every attempt.
    """

    def __init__(
        self,
        policy: Policy,
        summarizer: Summarizer | None = None,
        *,
        timeout: float = SUMMARIZER_TIMEOUT_SECONDS,
        prefix: str = SUMMARY_PREFIX,
        max_chars: int = SUMMARY_MAX_CHARS,
        trace: Trace = log_event,
    ) -> None:
        self.policy = policy
        self.timeout = guards.seconds("Compressor", "timeout", timeout)
        self._summarizer = PatientCaller(summarizer, timeout=self.timeout) if summarizer else None
        self._prefix = guards.content("Compressor", "prefix", prefix)
        self._max_chars = guards.whole_number("Compressor", "max_chars", max_chars, at_least=1)
        self._trace = trace
        self._releasing: set[asyncio.Task[Size | None]] = set()

    async def compress(self, history: Sequence[ChatTurn], *, session_id: str = "") -> Sequence[ChatTurn]:
        """Compress a history that is held in hand; the very same object comes back if nothing has to go."""
        proposed = await self._propose(session_id, history)
        if isinstance(proposed, CompressionEnded):
            emit(self._trace, proposed)
            return history
        emit(self._trace, proposed.event)
        return proposed.apply(history)

    async def run(self, session: Compressible) -> None:
        """Compress a session in its store until it is not due any more, and report what became of it.

        A store that fails meanwhile is reported too and not raised: the turns whose append triggered this
        are stored, and the next append tries again.
        """
        for _ in range(MAX_ROUNDS):
            size = await self._claimed(session)
            if size is None or not self.policy.due(size):
                return

    async def aclose(self) -> None:
        """Wait a moment for claims that are given back, and for summarizers that were told to stop."""
        if self._releasing:
            await asyncio.wait(self._releasing)
        if self._summarizer is not None:
            await self._summarizer.aclose()

    async def _claimed(self, session: Compressible) -> Size | None:
        """One attempt under a claim; the size afterwards if another may be due, else `None`.

        The size is that at the release: appends that came before it have left the work to this attempt.
        """
        owner, claimed, rewritten = new_id(), True, False
        size: Size | None = None
        # In tasks of their own, as giving it back: a cancellation in between must not leave a claim behind.
        claim = asyncio.create_task(session.claim(owner))
        try:
            claimed = await asyncio.shield(claim)
            if claimed:
                rewritten = await self._attempt(session)
            else:
                emit(self._trace, CompressionEnded(session.session_id, "deferred", owner))
        except MemcoreError as error:
            self._discard(session.session_id, str(error))
        finally:
            # Also where it is not known whether the claim was made. A cancellation goes on after this.
            if claimed:
                release = asyncio.create_task(self._release(session, owner, claim))
                self._releasing.add(release)
                release.add_done_callback(self._releasing.discard)
                size = await asyncio.shield(release)
        return size if rewritten else None

    async def _release(self, session: Compressible, owner: str, claim: asyncio.Task[bool]) -> Size | None:
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                # What is still on its way to the server would come after its own end.
                await asyncio.wait([claim])
                return await session.release(owner)
        except (MemcoreError, TimeoutError) as error:
            self._discard(session.session_id, f"the claim could not be given back: {error!r}")
            return None

    async def _attempt(self, session: Compressible) -> bool:
        """Whether the history was rewritten, and would be shorter if it were rewritten again."""
        try:
            proposed = await self._propose(session.session_id, await session.read())
        except asyncio.CancelledError:
            self._discard(session.session_id, "cancelled")
            raise
        if isinstance(proposed, CompressionEnded):
            emit(self._trace, proposed)
            return False
        landed = await self._commit(session, proposed)
        return landed and not proposed.event.irreducible

    async def _commit(self, session: Compressible, rewrite: Rewrite) -> bool:
        try:
            landed = await session.commit(rewrite)
        except (StoreUnavailable, asyncio.CancelledError) as error:
            # It may have landed, so the event keeps the turns that it would have cost.
            reason = f"outcome unknown: {error!r}"
            emit(self._trace, replace(rewrite.event, status="discarded", reason=reason))
            if isinstance(error, asyncio.CancelledError):
                raise
            return False
        if landed:
            emit(self._trace, rewrite.event)
        else:
            self._discard(rewrite.event.session_id, "the history changed meanwhile", rewrite.event.before)
        return landed

    def _discard(self, session_id: str, reason: str, length: int = 0) -> None:
        emit(self._trace, CompressionEnded(session_id, "discarded", new_id(), length, length, reason=reason))

    async def _propose(self, session_id: str, history: Sequence[ChatTurn]) -> Rewrite | CompressionEnded:
        """What to do with a history: a rewrite, or the report that nothing is to be done."""
        attempt = new_id()
        plan = self.policy.plan(history)
        if plan is None:
            length = len(history)
            flag = self.policy.irreducible(history)
            return CompressionEnded(session_id, "unchanged", attempt, length, length, irreducible=flag)
        summary = await self._summary(attempt, history[: plan.cut], plan)
        if isinstance(summary, ChatTurn):
            return _compressed(session_id, history, plan, summary)
        return _truncated(session_id, history, plan, attempt, reason=summary.reason)

    async def _summary(self, attempt: str, leaving: Sequence[ChatTurn], plan: Plan) -> ChatTurn | Failure:
        if self._summarizer is None:
            return Failure("no summarizer")
        bare = ChatTurn("system", self._prefix, turn_id=attempt, kind="summary")
        room = None if plan.budget is None else plan.budget - self.policy.weigh(bare)
        if room is not None and room <= 0:
            return Failure(f"no room for a summary: {plan.budget} tokens are left")
        # Where little room is left a shorter one is asked for, at up to 1.5 tokens a character.
        asked = self._max_chars if room is None else max(1, min(self._max_chars, room * 2 // 3))
        text = await self._summarizer.ask(leaving, max_chars=asked)
        if isinstance(text, Failure):
            return text
        summary = replace(bare, content=self._prefix + text)
        return self._fitting(summary, plan.budget)

    def _fitting(self, summary: ChatTurn, budget: int | None) -> ChatTurn | Failure:
        if len(summary.content.encode()) > guards.MAX_TEXT_BYTES:
            return Failure("summary is longer than a text may be, with its prefix")
        if budget is not None and self.policy.weigh(summary) > budget:
            return Failure(f"summary takes {self.policy.weigh(summary)} tokens, {budget} are left")
        return summary


class Compressions:
    """The compressions of one store that are under way, each in a task of its own, so that it can end them.

    Args:
        compressor: How to compress; several stores may share one.
    """

    def __init__(self, compressor: Compressor) -> None:
        self._compressor = compressor
        self._running: set[asyncio.Task[None]] = set()

    async def run(self, session: Compressible) -> None:
        """Compress a session; returns early if the store is closed, ends it if the caller is cancelled."""
        task = asyncio.create_task(self._compressor.run(session))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            await _ended([task])
            raise
        if not task.cancelled():
            task.result()

    async def aclose(self) -> None:
        """End what is running."""
        await _ended(list(self._running))
        await self._compressor.aclose()


async def _ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def _messages(turns: Sequence[ChatTurn]) -> tuple[str, ...]:
    return tuple(turn.turn_id for turn in turns if turn.kind == "message")


def _compressed(session_id: str, history: Sequence[ChatTurn], plan: Plan, summary: ChatTurn) -> Rewrite:
    event = CompressionEnded(
        session_id,
        "compressed",
        summary.turn_id,
        before=len(history),
        after=len(history) - plan.cut + 1,
        covered=_messages(history[: plan.cut]),
        irreducible=plan.irreducible,
    )
    return Rewrite(plan.cut, summary, event)


def _truncated(
    session_id: str, history: Sequence[ChatTurn], plan: Plan, attempt: str, *, reason: str
) -> Rewrite:
    earlier = history[0] if history[0].kind == "summary" else None
    event = CompressionEnded(
        session_id,
        "truncated",
        attempt,
        before=len(history),
        after=len(history) - plan.fallback_cut + (earlier is not None),
        dropped=_messages(history[: plan.fallback_cut]),
        irreducible=plan.fallback_irreducible,
        reason=reason,
    )
    return Rewrite(plan.fallback_cut, earlier, event)
