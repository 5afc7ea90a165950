"""Session stores that are wrong in how they compress."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from conformance.backend import Context
from memcore import (
    ChatTurn,
    CompressionEnded,
    Compressor,
    CountPolicy,
    InMemorySessionStore,
    TokenWatermarkPolicy,
    guards,
)
from memcore.compression import Rewrite
from memcore.policy import Plan, Policy, Size
from memcore.sessions.memory import _Compressible
from tests.wrong import compression, sessions


class _WrongPolicy:
    """A policy that passes on to another, for those that are wrong in one point."""

    def __init__(self, right: Policy) -> None:
        self.right = right

    def weigh(self, turn: ChatTurn) -> int:
        return self.right.weigh(turn)

    def due(self, size: Size) -> bool:
        return self.right.due(size)

    def plan(self, history: Sequence[ChatTurn]) -> Plan | None:
        return self.right.plan(history)

    def irreducible(self, history: Sequence[ChatTurn]) -> bool:
        return self.right.irreducible(history)


class _OneTooMany(_WrongPolicy):
    def plan(self, history: Sequence[ChatTurn]) -> Plan | None:
        plan = self.right.plan(history)
        if plan is None or plan.cut + 1 >= len(history):
            return plan
        return replace(plan, cut=plan.cut + 1, fallback_cut=plan.fallback_cut + 1)


def _with(ctx: Context, policy: Policy) -> Compressor:
    return Compressor(policy, ctx.summarizer, timeout=ctx.summarizer_timeout, trace=ctx.trace)


@compression("KEEPS_ONE_LESS", "CMP-002")
def _(ctx: Context) -> Compressor:
    return _with(ctx, _OneTooMany(ctx.policy))


@compression("FIRES_AT_THE_BOUND", "CMP-001")
def _(ctx: Context) -> Compressor:
    policy = ctx.policy
    if isinstance(policy, CountPolicy):
        policy = replace(policy, compress_after=max(policy.compress_after - 1, policy.keep_recent + 1))
    return _with(ctx, policy)


@compression("OVERHEAD_IS_FREE", "CMP-005")
def _(ctx: Context) -> Compressor:
    class Free(_WrongPolicy):
        def weigh(self, turn: ChatTurn) -> int:
            return len(turn.content)

        def due(self, size: Size) -> bool:
            return self.right.due(size)

    return _with(ctx, Free(ctx.policy) if isinstance(ctx.policy, TokenWatermarkPolicy) else ctx.policy)


@compression("SUMMARY_OF_ANY_LENGTH", "CMP-007")
def _(ctx: Context) -> Compressor:
    class Generous(_WrongPolicy):
        def plan(self, history: Sequence[ChatTurn]) -> Plan | None:
            plan = self.right.plan(history)
            return replace(plan, budget=None) if plan else None

    return _with(ctx, Generous(ctx.policy))


@compression("SUMMARY_IS_CUT", "CMP-010")
def _(ctx: Context) -> Compressor:
    async def cut(turns: Sequence[ChatTurn], /, *, max_chars: int) -> str:
        assert ctx.summarizer is not None
        text = await ctx.summarizer(turns, max_chars=max_chars)
        return text[:max_chars]

    return Compressor(ctx.policy, ctx.summarizer and cut, timeout=ctx.summarizer_timeout, trace=ctx.trace)


@compression("ERROR_IS_THE_SUMMARY", "CMP-012", "CMP-014")
def _(ctx: Context) -> Compressor:
    async def careless(turns: Sequence[ChatTurn], /, *, max_chars: int) -> str:
        assert ctx.summarizer is not None
        try:
            text = await ctx.summarizer(turns, max_chars=max_chars)
            return text.strip() or "(nothing)"
        except Exception as error:
            return f"error: {error}"

    return Compressor(
        ctx.policy, ctx.summarizer and careless, timeout=ctx.summarizer_timeout, trace=ctx.trace
    )


@compression("SILENT", "CMP-016", "CMP-017")
def _(ctx: Context) -> Compressor:
    return Compressor(ctx.policy, ctx.summarizer, timeout=ctx.summarizer_timeout, trace=lambda _: None)


class _LosesTheSummary(Compressor):
    async def _propose(self, session_id: str, history: Sequence[ChatTurn]) -> Rewrite | CompressionEnded:
        proposed = await super()._propose(session_id, history)
        if isinstance(proposed, Rewrite) and proposed.event.status == "truncated":
            return replace(proposed, head=None)
        return proposed


@compression("FAILURE_LOSES_THE_SUMMARY", "CMP-012", "CMP-014", "CMP-013")
def _(ctx: Context) -> Compressor:
    return _LosesTheSummary(ctx.policy, ctx.summarizer, timeout=ctx.summarizer_timeout, trace=ctx.trace)


class _Last(Rewrite):
    def apply(self, history: Sequence[ChatTurn]) -> list[ChatTurn]:
        return [*history[self.cut :], *([self.head] if self.head else [])]


class _SummaryLast(Compressor):
    async def _propose(self, session_id: str, history: Sequence[ChatTurn]) -> Rewrite | CompressionEnded:
        proposed = await super()._propose(session_id, history)
        if isinstance(proposed, Rewrite):
            return _Last(proposed.cut, proposed.head, proposed.event)
        return proposed


@compression("SUMMARY_COMES_LAST", "CMP-008")
def _(ctx: Context) -> Compressor:
    return _SummaryLast(ctx.policy, ctx.summarizer, timeout=ctx.summarizer_timeout, trace=ctx.trace)


@sessions("CMP-009")
class SummaryByPrefix(InMemorySessionStore):
    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        history = await super().get_window(session_id, None)
        await super().get_window(session_id, limit)
        first = 1 if history and history[0].content.startswith("[会话摘要]") else 0
        messages = history[first:]
        return [*history[:first], *(messages if limit is None else messages[max(0, len(messages) - limit) :])]


class _Unchecked(_Compressible):
    """Commits whatever is there by now."""

    def fits(self, history: Sequence[ChatTurn]) -> bool:  # noqa: ARG002
        return True

    async def commit(self, rewrite: Rewrite) -> bool:
        session = self._store._sessions.setdefault(self.session_id, self._session)
        if not self.fits(session.turns):
            return False
        session.turns = rewrite.apply(session.turns)
        session.tokens = sum(self._store._policy.weigh(turn) for turn in session.turns)
        return True


class _ByHead(_Unchecked):
    """Commits if the first turn is the one that was read."""

    def fits(self, history: Sequence[ChatTurn]) -> bool:
        return bool(history) and history[0].turn_id == self._session.turns[0].turn_id


class _FromSnapshot(_Unchecked):
    """Writes back what was read, with the summary."""

    async def read(self) -> Sequence[ChatTurn]:
        self.snapshot = await super().read()
        return self.snapshot

    async def commit(self, rewrite: Rewrite) -> bool:
        self._session.turns = rewrite.apply(self.snapshot)
        return True


class _Unclaimed(_Compressible):
    """Does not look whether another is at it."""

    async def claim(self, owner: str) -> bool:  # noqa: ARG002
        return True


class _WithCompressible(InMemorySessionStore):
    kind: type[_Compressible]

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        self._check_open("append")
        session_id = guards.identifier("append", "session_id", session_id)
        if self._policy.due(self._store(session_id, guards.turns("append", turns))):
            await self._compressions.run(self.kind(self, session_id))


@sessions("SES-017", "CMP-020")
class CommitUnchecked(_WithCompressible):
    kind = _Unchecked


@sessions("CMP-020")
class CommitByTheHead(_WithCompressible):
    kind = _ByHead


@sessions("CMP-020")
class CommitFromASnapshot(_WithCompressible):
    kind = _FromSnapshot


@sessions("CMP-021")
class CompressesTwiceAtOnce(_WithCompressible):
    kind = _Unclaimed


@sessions("CMP-019")
class LocksWhileItSummarizes(InMemorySessionStore):
    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        if not hasattr(self, "lock"):
            self.lock = asyncio.Lock()
        async with self.lock:
            await super().append(session_id, *turns)


@sessions("CMP-022")
class CancelledIsFailed(InMemorySessionStore):
    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        try:
            await super().append(session_id, *turns)
        except asyncio.CancelledError:
            session = self._sessions[session_id]
            session.turns = session.turns[-2:]
            raise
