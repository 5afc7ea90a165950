"""Backends that are wrong on purpose, each in one way that real stores were wrong in.

`WRONG` says for each the clauses that have to fail on it.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

from conformance.backend import Backend, Context, Layer, Stores, backend
from conformance.backends import memory
from memcore import (
    ChatTurn,
    CompressionEnded,
    Compressor,
    CountPolicy,
    Episode,
    InMemoryEpisodicStore,
    InMemoryPreferenceStore,
    InMemorySessionStore,
    Preference,
    RecalledEpisode,
    SessionSummary,
    TokenWatermarkPolicy,
    guards,
)
from memcore.compression import Rewrite
from memcore.policy import Plan, Policy, Size
from memcore.sessions.memory import _Compressible
from memcore.types import Embedding

WRONG: dict[str, tuple[str, ...]] = {}
"""Name of a backend in this module → clauses that have to fail."""


def _registered(
    layer: Layer, name: str, clauses: Sequence[str], made: Callable[[Context], Stores]
) -> Backend:
    @backend(name, replace(memory.CLAIMS, layers=frozenset({layer})))
    async def opened(ctx: Context) -> AsyncIterator[Stores]:
        stores = made(ctx)
        yield stores
        for store in (stores.sessions, stores.preferences, stores.episodes):
            if store is not None:
                await store.aclose()

    WRONG[name] = tuple(clauses)
    globals()[name] = opened
    return opened


def sessions(*clauses: str) -> Callable[[type[InMemorySessionStore]], type[InMemorySessionStore]]:
    """Register a session store."""

    def register(kind: type[InMemorySessionStore]) -> type[InMemorySessionStore]:
        def made(ctx: Context) -> Stores:
            store = kind(ctx.compressor(), ttl_seconds=ctx.ttl_seconds, now=ctx.now)
            return Stores(sessions=store, ttl=memory._Ttl(store, ctx))

        _registered("sessions", kind.__name__.upper(), clauses, made)
        return kind

    return register


def compression(name: str, *clauses: str) -> Callable[[Callable[[Context], Compressor]], object]:
    """Register a session store with a compressor of its own."""

    def register(compressor: Callable[[Context], Compressor]) -> object:
        def made(ctx: Context) -> Stores:
            store = InMemorySessionStore(compressor(ctx), ttl_seconds=ctx.ttl_seconds, now=ctx.now)
            return Stores(sessions=store, ttl=memory._Ttl(store, ctx))

        return _registered("sessions", name, clauses, made)

    return register


def preferences(*clauses: str) -> Callable[[type[InMemoryPreferenceStore]], type[InMemoryPreferenceStore]]:
    """Register a preference store."""

    def register(kind: type[InMemoryPreferenceStore]) -> type[InMemoryPreferenceStore]:
        _registered(
            "preferences", kind.__name__.upper(), clauses, lambda ctx: Stores(preferences=kind(now=ctx.now))
        )
        return kind

    return register


def episodes(*clauses: str) -> Callable[[type[InMemoryEpisodicStore]], type[InMemoryEpisodicStore]]:
    """Register an episodic store."""

    def register(kind: type[InMemoryEpisodicStore]) -> type[InMemoryEpisodicStore]:
        def made(ctx: Context) -> Stores:
            return Stores(episodes=kind(model=ctx.model, dimension=ctx.dimension, now=ctx.now))

        _registered("episodes", kind.__name__.upper(), clauses, made)
        return kind

    return register


@sessions("SES-008")
class OldestWindow(InMemorySessionStore):
    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        history = await super().get_window(session_id, None)
        await super().get_window(session_id, limit)
        first = 1 if history and history[0].kind == "summary" else 0
        return history[: first + limit] if limit is not None else history


@sessions("SES-008")
class SummaryCounts(InMemorySessionStore):
    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        shown = await super().get_window(session_id, limit)
        return shown if limit is None or len(shown) <= limit else [*shown[:1], *shown[2:]]


@sessions("SES-009")
class ZeroIsEverything(InMemorySessionStore):
    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        return await super().get_window(session_id, limit or None)


@sessions("SES-010")
class NegativeIsEverything(InMemorySessionStore):
    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        negative = isinstance(limit, int) and limit < 0
        return await super().get_window(session_id, None if negative else limit)


@sessions("SES-004")
class EqualTextsAreOne(InMemorySessionStore):
    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        known = await super().get_history(session_id)
        await super().append(session_id, *([turn for turn in turns if turn not in known] or turns))


@sessions("SES-003")
class NulIsCut(InMemorySessionStore):
    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        await super().append(session_id, *map(self._cut, turns))

    def _cut(self, turn: Any) -> Any:
        text = getattr(turn, "content", None)
        return replace(turn, content=text.partition("\0")[0]) if isinstance(text, str) else turn


def _stripped(name: Any) -> Any:
    """Callers of a check give what is no text too."""
    return name.strip() if isinstance(name, str) else name


@sessions("SES-013")
class IdsAreStripped(InMemorySessionStore):
    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        await super().append(_stripped(session_id), *turns)

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        return await super().get_history(_stripped(session_id))


@sessions("SES-016")
class ClearKeepsIds(InMemorySessionStore):
    async def clear(self, session_id: str) -> None:
        session = self._sessions.get(session_id)
        await super().clear(session_id)
        if session is not None:
            session.turns, session.tokens = [], 0
            self._sessions[session_id] = session

    async def list_sessions(self) -> list[SessionSummary]:
        return [row for row in await super().list_sessions() if row.turns]


@sessions("SES-015")
class ClearByPrefix(InMemorySessionStore):
    async def clear(self, session_id: str) -> None:
        await super().clear(session_id)
        for name in [name for name in self._sessions if name.startswith(session_id)]:
            await super().clear(name)


@sessions("SES-019")
class ListByName(InMemorySessionStore):
    async def list_sessions(self) -> list[SessionSummary]:
        return sorted(await super().list_sessions(), key=lambda row: row.session_id)


@sessions("SES-018")
class ListWithoutSummary(InMemorySessionStore):
    async def list_sessions(self) -> list[SessionSummary]:
        rows = await super().list_sessions()
        return [
            replace(row, turns=sum(turn.kind == "message" for turn in self._sessions[row.session_id].turns))
            for row in rows
        ]


@sessions("SES-020")
class LocalTime(InMemorySessionStore):
    async def list_sessions(self) -> list[SessionSummary]:
        rows = await super().list_sessions()
        return [replace(row, updated_at=row.updated_at.replace(tzinfo=None)) for row in rows]


@sessions("SES-021")
class HandsOutItsList(InMemorySessionStore):
    async def get_history(self, session_id: str) -> list[ChatTurn]:
        history = await super().get_history(session_id)
        return self._sessions[session_id].turns if history else history


@sessions("SES-022")
class TtlIsNotRenewed(InMemorySessionStore):
    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        before = self._live(session_id)
        expires_at = before.expires_at if before else None
        await super().append(session_id, *turns)
        if expires_at is not None:
            self._sessions[session_id].expires_at = expires_at


@sessions("SES-023")
class ReadingRenewsTheTtl(InMemorySessionStore):
    async def get_history(self, session_id: str) -> list[ChatTurn]:
        history = await super().get_history(session_id)
        if history:
            self._renew(session_id, self._sessions[session_id])
        return history


@sessions("SES-026")
class ExpiredStays(InMemorySessionStore):
    def _drop_expired(self) -> None:
        pass

    def _live(self, session_id: str):  # type: ignore[no-untyped-def]  # a private class
        session = self._sessions.get(session_id)
        return session if session and session.expires_at > self._now() else None

    async def list_sessions(self) -> list[SessionSummary]:
        rows = await super().list_sessions()
        return [row for row in rows if self._live(row.session_id)]


@sessions("SES-027")
class RetryIsNew(InMemorySessionStore):
    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        session = self._sessions.get(session_id)
        if session is not None and session.turns and session.turns[0].kind == "summary":
            session.known.clear()
        await super().append(session_id, *turns)


@sessions("SES-028")
class ConflictIsIgnored(InMemorySessionStore):
    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        session = self._sessions.get(session_id)
        known = session.known if session else {}
        new = [turn for turn in turns if getattr(turn, "turn_id", None) not in known]
        if new or not turns:
            await super().append(session_id, *new)


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

    def fits(self, history: Sequence[ChatTurn]) -> bool:
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


@preferences("PRE-004")
class KeysAreLowerCase(InMemoryPreferenceStore):
    def _checked(self, operation: str, user_id: str, key: str) -> tuple[str, str]:
        user_id, key = super()._checked(operation, user_id, key)
        return user_id, key.lower()


@preferences("PRE-004")
class KeysAreNormalized(InMemoryPreferenceStore):
    def _checked(self, operation: str, user_id: str, key: str) -> tuple[str, str]:
        user_id, key = super()._checked(operation, user_id, key)
        return user_id, unicodedata.normalize("NFC", key)


@preferences("PRE-002")
class FirstSetWins(InMemoryPreferenceStore):
    async def set(self, user_id: str, key: str, value: str) -> None:
        if await super().get(user_id, key) is None:
            await super().set(user_id, key, value)


@preferences("PRE-006")
class BlankDeletes(InMemoryPreferenceStore):
    async def set(self, user_id: str, key: str, value: str) -> None:
        await super().set(user_id, key, value)
        if not value.strip():
            await super().delete(user_id, key)


@preferences("PRE-008")
class OrderedByUtf16(InMemoryPreferenceStore):
    async def all(self, user_id: str) -> dict[str, Preference]:
        found = await super().all(user_id)
        return dict(sorted(found.items(), key=lambda item: item[0].encode("utf-16-be")))


@preferences("PRE-009")
class DeleteByPrefix(InMemoryPreferenceStore):
    async def delete(self, user_id: str, key: str) -> None:
        for other in await super().all(user_id):
            if other.startswith(key) and key.strip():
                await super().delete(user_id, other)
        await super().delete(user_id, key)


@preferences("PRE-010")
class ForgetCountsKeysEverSet(InMemoryPreferenceStore):
    async def forget(self, user_id: str) -> int:
        return await super().forget(user_id) + 1


@episodes("EPI-005")
class UsersByPrefix(InMemoryEpisodicStore):
    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        found = await super().recall(user_id, embedding, k, min_score)
        for other in self._users:
            if other != user_id and other.startswith(user_id):
                found += await super().recall(other, embedding, k, min_score)
        return sorted(found, key=lambda item: -item.score)[:k]


@episodes("EPI-006")
class ScoreIsDistance(InMemoryEpisodicStore):
    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        found = await super().recall(user_id, embedding, k, min_score)
        return [replace(item, score=1 - item.score) for item in found]


@episodes("EPI-007")
class MinScoreIsExclusive(InMemoryEpisodicStore):
    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        found = await super().recall(user_id, embedding, k, min_score)
        return [item for item in found if min_score is None or item.score > min_score]


@episodes("EPI-003")
class FortyAtMost(InMemoryEpisodicStore):
    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        return (await super().recall(user_id, embedding, k, min_score))[:40]


@episodes("EPI-008")
class TiesById(InMemoryEpisodicStore):
    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        await super().recall(user_id, embedding, k, min_score)
        found = await super().recall(user_id, embedding, 10_000_000, min_score)
        return sorted(found, key=lambda item: (-item.score, item.episode_id))[:k]


@episodes("EPI-011")
class LastOfAnIdStays(InMemoryEpisodicStore):
    async def remember(self, episode: Episode) -> None:
        rows = self._users.get(getattr(episode, "user_id", ""))
        if rows is not None and episode.episode_id in rows.ids:
            await super().remember(replace(episode, episode_id=f"{episode.episode_id}-again"))
        else:
            await super().remember(episode)


def _left_running(_: Context) -> Stores:
    class LeavesATask(InMemoryPreferenceStore):
        async def set(self, user_id: str, key: str, value: str) -> None:
            await super().set(user_id, key, value)
            self.task = asyncio.create_task(asyncio.Event().wait())

    return Stores(preferences=LeavesATask())


_registered("preferences", "LEAVES_A_TASK", ["INF-001"], _left_running)
_registered("preferences", "ONE_NAMESPACE", ["INF-002"], lambda _: Stores(preferences=_OneNamespace()))


class _OneNamespace(InMemoryPreferenceStore):
    _everybody: dict[str, dict[str, Preference]] = {}  # noqa: RUF012 (that it is shared is what is wrong)

    def __init__(self) -> None:
        super().__init__()
        self._users = self._everybody

    async def aclose(self) -> None:
        self._closed = True


def _nothing(layer: Layer) -> Callable[[Context], Stores]:
    """A store whose every method does nothing and gives nothing."""

    class Nothing:
        def __getattr__(self, _: str) -> Callable[..., object]:
            async def method(*_: object, **__: object) -> list[object]:
                return []

            return method

    return lambda _: Stores(**{layer: Nothing()})  # type: ignore[arg-type]  # nothing is no store


_registered("sessions", "NO_SESSIONS", ["SES-001", "SES-004", "SES-018", "CMP-002"], _nothing("sessions"))
_registered("preferences", "NO_PREFERENCES", ["PRE-001", "PRE-002", "PRE-010"], _nothing("preferences"))
_registered("episodes", "NO_EPISODES", ["EPI-001", "EPI-003", "EPI-010"], _nothing("episodes"))
