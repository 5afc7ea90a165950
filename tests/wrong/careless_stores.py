"""Stores of every layer that are careless: with what they accept, copy, count and keep in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any

from conformance.backend import Context
from memcore import (
    ChatTurn,
    Compressor,
    CountPolicy,
    Episode,
    InMemoryEpisodicStore,
    InMemoryPreferenceStore,
    InMemorySessionStore,
    InvalidArgument,
    Preference,
    RecalledEpisode,
    TokenWatermarkPolicy,
)
from memcore.sessions.memory import _Session
from memcore.types import Embedding
from tests.wrong import compression, episodes, preferences, sessions


@sessions("SES-002")
class SurrogatesAreReplaced(InMemorySessionStore):
    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        await super().append(session_id, *map(self._mended, turns))

    def _mended(self, turn: Any) -> Any:
        text = getattr(turn, "content", None)
        return (
            replace(turn, content=text.encode("utf-8", "replace").decode()) if isinstance(text, str) else turn
        )


@sessions("SES-005")
class BatchesAreReversed(InMemorySessionStore):
    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        await super().append(session_id, *reversed(turns))


@sessions("SES-006")
class OrderedByTheClock(InMemorySessionStore):
    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        times = self.__dict__.setdefault("times", {})
        times.update((getattr(turn, "turn_id", ""), self._now()) for turn in turns)
        await super().append(session_id, *turns)

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        history, times = await super().get_history(session_id), self.__dict__.get("times", {})
        return sorted(history, key=lambda turn: times.get(turn.turn_id, 0.0))


@sessions("SES-007")
class NothingCanBeAppended(InMemorySessionStore):
    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        if turns:
            await super().append(session_id, *turns)


@sessions("SES-011")
class ReadingIsUse(InMemorySessionStore):
    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        shown = await super().get_window(session_id, limit)
        if session_id in self._sessions:
            self._renew(session_id, self._sessions[session_id])
        return shown


@sessions("SES-012")
class ReadingBegins(InMemorySessionStore):
    async def get_history(self, session_id: str) -> list[ChatTurn]:
        history = await super().get_history(session_id)
        if session_id not in self._sessions:
            self._renew(session_id, _Session())
        return history


@sessions("SES-014")
class LongIdsAreCut(InMemorySessionStore):
    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        await super().append(self._cut(session_id), *turns)

    def _cut(self, name: Any) -> Any:
        return name[:512] if isinstance(name, str) else name


@sessions("SES-024")
class CompressedLivesForever(InMemorySessionStore):
    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        await super().append(session_id, *turns)
        session = self._sessions[session_id]
        if session.turns[0].kind == "summary":
            session.expires_at = float("inf")


@sessions("SES-025")
class ExpiredIsListed(InMemorySessionStore):
    def _drop_expired(self) -> None:
        pass


@sessions("SES-029")
class AKnownTurnDropsItsBatch(InMemorySessionStore):
    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        session = self._sessions.get(session_id)
        known = session.known if session else {}
        first_known = bool(turns) and getattr(turns[0], "turn_id", None) in known
        await super().append(session_id, *(turns[:1] if first_known else turns))


@compression("FIRES_A_TOKEN_EARLY", "CMP-004")
def _(ctx: Context) -> Compressor:
    policy = ctx.policy
    if isinstance(policy, TokenWatermarkPolicy):
        policy = replace(policy, context_tokens=policy.context_tokens - 1)
    return Compressor(policy, ctx.summarizer, timeout=ctx.summarizer_timeout, trace=ctx.trace)


@compression("NEVER_IRREDUCIBLE", "CMP-006")
def _(ctx: Context) -> Compressor:
    return Compressor(
        ctx.policy,
        ctx.summarizer,
        timeout=ctx.summarizer_timeout,
        trace=lambda event: ctx.trace(replace(event, irreducible=False)),
    )


@compression("SUMMARIZES_ONE_LESS", "CMP-011")
def _(ctx: Context) -> Compressor:
    async def fewer(turns: Sequence[ChatTurn], /, *, max_chars: int) -> str:
        assert ctx.summarizer is not None
        return await ctx.summarizer(turns[:-1], max_chars=max_chars)

    return Compressor(ctx.policy, ctx.summarizer and fewer, timeout=ctx.summarizer_timeout, trace=ctx.trace)


@compression("NO_SUMMARIZER_KEEPS_ALL", "CMP-015")
def _(ctx: Context) -> Compressor:
    policy = ctx.policy if ctx.summarizer else CountPolicy(1_000_000, 10)
    return Compressor(policy, ctx.summarizer, timeout=ctx.summarizer_timeout, trace=ctx.trace)


@preferences("PRE-003")
class UsersAreLowerCase(InMemoryPreferenceStore):
    def _checked(self, operation: str, user_id: str, key: str) -> tuple[str, str]:
        user_id, key = super()._checked(operation, user_id, key)
        return user_id.lower(), key


@preferences("PRE-005")
class KeysAreCutShort(InMemoryPreferenceStore):
    def _checked(self, operation: str, user_id: str, key: str) -> tuple[str, str]:
        user_id, key = super()._checked(operation, user_id, key)
        return user_id, key[:49]


@preferences("PRE-007")
class ValuesOfAnyKind(InMemoryPreferenceStore):
    async def set(self, user_id: str, key: str, value: str) -> None:
        await super().set(user_id, key, str(value).replace("\0", ""))


@preferences("PRE-011")
class TimesWithoutAZone(InMemoryPreferenceStore):
    async def all(self, user_id: str) -> dict[str, Preference]:
        found = await super().all(user_id)
        return {key: replace(p, updated_at=p.updated_at.replace(tzinfo=None)) for key, p in found.items()}


@preferences("PRE-012")
class UsersOfAnyKind(InMemoryPreferenceStore):
    async def all(self, user_id: str) -> dict[str, Preference]:
        try:
            return await super().all(user_id)
        except InvalidArgument:
            return {}


@preferences("PRE-013")
class HandsOutItsDictionary(InMemoryPreferenceStore):
    async def all(self, user_id: str) -> dict[str, Preference]:
        found = await super().all(user_id)
        self._users[user_id] = found
        return found


@episodes("EPI-002")
class WorstFirst(InMemoryEpisodicStore):
    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        return list(reversed(await super().recall(user_id, embedding, k, min_score)))


@episodes("EPI-004")
class AnyKWillDo(InMemoryEpisodicStore):
    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        return await super().recall(user_id, embedding, k if self._counts(k) else 1, min_score)

    def _counts(self, k: Any) -> bool:
        return type(k) is int and k > 0


@episodes("EPI-009")
class BadVectorsAreSkipped(InMemoryEpisodicStore):
    async def remember(self, episode: Episode) -> None:
        try:
            await super().remember(episode)
        except InvalidArgument as error:
            if error.argument != "embedding":
                raise


@episodes("EPI-012")
class TimesAreTakenAsUtc(InMemoryEpisodicStore):
    async def remember(self, episode: Episode) -> None:
        time: Any = getattr(episode, "created_at", None)
        naive = hasattr(time, "tzinfo") and time.tzinfo is None
        await super().remember(replace(episode, created_at=time.replace(tzinfo=UTC)) if naive else episode)


@episodes("EPI-013")
class ForgetsOneMore(InMemoryEpisodicStore):
    async def forget(self, user_id: str) -> int:
        return await super().forget(user_id) + 1


@episodes("EPI-014")
class KeepsTheCallersVector(InMemoryEpisodicStore):
    async def remember(self, episode: Episode) -> None:
        await super().remember(episode)
        self.__dict__.setdefault("kept", []).append(episode)

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        now = InMemoryEpisodicStore(model=self.model, dimension=self.dimension)
        for episode in self.__dict__.get("kept", []):
            await now.remember(episode)
        return await now.recall(user_id, embedding, k, min_score)


@episodes("EPI-016")
class TwoThousandAtMost(InMemoryEpisodicStore):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.dimension > 2000:
            raise InvalidArgument("open", "dimension", self.dimension, "is above 2000")
