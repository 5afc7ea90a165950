"""The rolling summary: the one place where the algorithm exists.

An attempt reads a history, asks the policy what has to leave, lets the summarizer write a summary of it
outside any lock, and hands the store a `Rewrite` of the first elements. The store applies it only if these
are still the elements that were read; turns appended meanwhile stay where they are. A summarizer that fails
does not stop the conversation: the turns that had to leave are dropped, and the event names them.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from memcore import guards
from memcore.errors import InvalidArgument, MemcoreError, StoreUnavailable
from memcore.policy import SUMMARY_MAX_CHARS, Plan, Policy, Size
from memcore.trace import CompressionEnded, Trace, emit, log_event
from memcore.types import ChatTurn, new_id

SUMMARY_PREFIX = "[会话摘要] "
"""Opens the content of every summary turn, for a model that reads it; code looks at `kind`."""
SUMMARIZER_TIMEOUT_SECONDS = 30.0
"""A summarizer that takes longer than this has failed."""
MAX_ROUNDS = 3
"""Attempts of one trigger, where turns that arrived meanwhile make the next one due at once."""

# Letters by category that show as nothing: Hangul fillers and the empty Braille pattern.
_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")


class Summarizer(Protocol):
    """Writes a summary, usually with a language model.

    It gets an earlier summary (`kind == "summary"`) first, if there is one, then the messages that leave,
    oldest first. What it returns should have at most `max_chars` characters; it is stored as it comes. Input
    longer than the model takes is the summarizer's to split.
    """

    async def __call__(self, turns: Sequence[ChatTurn], /, *, max_chars: int) -> str: ...


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What a store shall do: put `head` in place of the first `cut` elements that were read.

    Args:
        cut: At least 1, and less than the length that was read.
        head: The summary turn, new or the earlier one; `None` if there is none to keep.
        attempt: Identifies the attempt, so that a commit sent twice is recognized.
        event: What is reported if it lands.
    """

    cut: int
    head: ChatTurn | None
    attempt: str
    event: CompressionEnded

    def apply(self, history: Sequence[ChatTurn]) -> list[ChatTurn]:
        """The history after the rewrite, as a new list."""
        return [*([self.head] if self.head else []), *history[self.cut :]]


class Compressible(Protocol):
    """One session as compression sees it; each store implements these."""

    session_id: str

    async def claim(self, attempt: str) -> bool:
        """Say that an attempt is under way; false if another is. Saves double work, nothing rests on it."""

    async def release(self, attempt: str) -> None:
        """End what this attempt claimed."""

    async def read(self) -> Sequence[ChatTurn]:
        """The whole history, of one instant."""

    async def commit(self, rewrite: Rewrite) -> Size | None:
        """Apply the rewrite atomically and say how large the history is now; `None` if its base changed."""


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
        self._summarizer = summarizer
        self._timeout = guards.seconds("Compressor", "timeout", timeout)
        self._prefix = guards.content("Compressor", "prefix", prefix)
        self._max_chars = max_chars
        self._trace = trace
        self._abandoned: set[asyncio.Task[object]] = set()

    async def compress(self, history: Sequence[ChatTurn], *, session_id: str = "") -> Sequence[ChatTurn]:
        """Compress a history that is held in hand; the very same object comes back if nothing has to go."""
        rewrite = await self._propose(session_id, history)
        if isinstance(rewrite, CompressionEnded):
            emit(self._trace, rewrite)
            return history
        emit(self._trace, rewrite.event)
        return rewrite.apply(history)

    async def run(self, session: Compressible) -> None:
        """Compress a session in its store, and report what became of it.

        A store that fails meanwhile is reported too and not raised: the turns whose append triggered this
        are stored, and the next append tries again.
        """
        lease = new_id()
        try:
            if not await session.claim(lease):
                emit(self._trace, CompressionEnded(session.session_id, "deferred", lease))
                return
            try:
                await self._rounds(session)
            finally:
                await session.release(lease)
        except MemcoreError as error:
            event = CompressionEnded(session.session_id, "discarded", lease, reason=str(error))
            emit(self._trace, event)

    async def aclose(self) -> None:
        """Wait a moment for summarizers that were told to stop."""
        if self._abandoned:
            await asyncio.wait(self._abandoned, timeout=1.0)

    async def _rounds(self, session: Compressible) -> None:
        for _ in range(MAX_ROUNDS):
            size = await self._attempt(session)
            if size is None or not self.policy.due(size):
                return

    async def _attempt(self, session: Compressible) -> Size | None:
        rewrite = await self._propose(session.session_id, await session.read())
        if isinstance(rewrite, CompressionEnded):
            emit(self._trace, rewrite)
            return None
        try:
            size = await session.commit(rewrite)
        except StoreUnavailable as error:
            # It may have landed, so the event keeps the turns that it would have cost.
            reason = f"outcome unknown: {error}"
            emit(self._trace, replace(rewrite.event, status="discarded", reason=reason))
            return None
        emit(self._trace, rewrite.event if size else _stale(rewrite.event))
        return size

    async def _propose(self, session_id: str, history: Sequence[ChatTurn]) -> Rewrite | CompressionEnded:
        attempt = new_id()
        plan = self.policy.plan(history)
        if plan is None:
            length = len(history)
            flag = self.policy.irreducible(history)
            return CompressionEnded(session_id, "unchanged", attempt, length, length, irreducible=flag)
        summary = await self._summary(attempt, history[: plan.cut], plan)
        if isinstance(summary, ChatTurn):
            return _compressed(session_id, history, plan, summary)
        return _truncated(session_id, history, plan, attempt, reason=summary)

    async def _summary(self, attempt: str, leaving: Sequence[ChatTurn], plan: Plan) -> ChatTurn | str:
        """The summary turn, or why there is none."""
        if self._summarizer is None:
            return "no summarizer"
        bare = ChatTurn("system", self._prefix, turn_id=attempt, kind="summary")
        if plan.budget is not None and self.policy.weigh(bare) >= plan.budget:
            return f"no room for a summary: {plan.budget} tokens are left"
        text = await self._ask(self._summarizer, leaving, self._asked(plan, bare))
        if isinstance(text, _Failure):
            return text.reason
        summary = replace(bare, content=self._prefix + text.strip())
        if plan.budget is not None and self.policy.weigh(summary) > plan.budget:
            return f"summary of {self.policy.weigh(summary)} tokens, {plan.budget} are left"
        return summary

    def _asked(self, plan: Plan, bare: ChatTurn) -> int:
        """Characters to ask for: fewer where little room is left, at up to 1.5 tokens a character."""
        if plan.budget is None:
            return self._max_chars
        return max(1, min(self._max_chars, (plan.budget - self.policy.weigh(bare)) * 2 // 3))

    async def _ask(
        self, summarizer: Summarizer, leaving: Sequence[ChatTurn], max_chars: int
    ) -> str | _Failure:
        """Call the summarizer, in a task of its own: one that ignores its cancellation holds nobody up."""

        async def call() -> object:
            return await summarizer(tuple(leaving), max_chars=max_chars)

        task = asyncio.create_task(call())
        try:
            await asyncio.wait([task], timeout=self._timeout)
        finally:
            if not task.done():
                self._abandon(task)
        if not task.done():
            return _Failure(f"summarizer took longer than {self._timeout:g} s")
        # A summarizer that was cancelled from inside has failed; if we were, `wait` has raised already.
        if task.cancelled():
            return _Failure("summarizer was cancelled")
        error = task.exception()
        if error is not None:
            return _Failure(f"summarizer raised {type(error).__name__}: {error}")
        return _usable(task.result(), self._prefix)

    def _abandon(self, task: asyncio.Task[object]) -> None:
        self._abandoned.add(task)
        task.add_done_callback(self._forget)
        task.cancel()

    def _forget(self, task: asyncio.Task[object]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()  # Looked at, so that asyncio does not report it as lost.


@dataclass(frozen=True, slots=True)
class _Failure:
    reason: str


def _usable(text: object, prefix: str) -> str | _Failure:
    """A summary that can be stored and seen."""
    if not isinstance(text, str):
        return _Failure(f"summarizer returned {type(text).__name__}, not text")
    try:
        guards.content("summarize", "summary", prefix + text)
    except InvalidArgument as error:
        return _Failure(str(error))
    if not any(_visible(character) for character in text):
        return _Failure("summarizer returned nothing visible")
    return text


def _visible(character: str) -> bool:
    return unicodedata.category(character)[0] in "LNPS" and character not in _BLANK_LETTERS


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
    return Rewrite(plan.cut, summary, summary.turn_id, event)


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
    return Rewrite(plan.fallback_cut, earlier, attempt, event)


def _stale(event: CompressionEnded) -> CompressionEnded:
    return CompressionEnded(
        event.session_id,
        "discarded",
        event.attempt,
        event.before,
        event.before,
        reason="the history changed meanwhile",
    )
