"""Session stores that are wrong in the order of turns."""

from __future__ import annotations

from typing import Any

from conformance.mutants.making import is_text, sessions, stored
from memcore import ChatTurn, InMemorySessionStore, StoreUnavailable


@sessions(
    "SES-005",
    fragment="got:      ['t10', 't9', 't8', 't7', 't6', 't5'",
    report="the order of arguments",
    may="CMP SES",
)
class BatchesAreReversed(InMemorySessionStore):
    """A batch is stored from its end."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        await super().append(session_id, *reversed(turns))


@sessions(
    "SES-006",
    fragment="contents, clock step -1.0",
    report="openai/openai-agents-python#1900",
    may="SES-027 SES-028 SES-029",
)
class OrderedByTheClock(InMemorySessionStore):
    """A history is sorted by the times of its turns."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        times = self.__dict__.setdefault("times", {})
        times.update((getattr(turn, "turn_id", ""), self._now()) for turn in turns)
        await super().append(session_id, *turns)

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        history, times = await super().get_history(session_id), self.__dict__.get("times", {})
        return sorted(history, key=lambda turn: times.get(turn.turn_id, 0.0))


@sessions(
    "SES-005",
    fragment="got:      ['t10', 't9', 't8', 't7', 't6', 't5'",
    report="langchain-ai/langchain#2167",
    may="CMP SES",
)
class NewestFirst(InMemorySessionStore):
    """A history is read from the end of the list to which it was pushed."""

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        history = await super().get_history(session_id)
        first = 1 if history and history[0].kind == "summary" else 0
        return [*history[:first], *reversed(history[first:])]


class _Timed(InMemorySessionStore):
    """Notes when turns came."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.times: dict[str, float] = {}

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        self.times.update((getattr(turn, "turn_id", ""), self._now()) for turn in turns)
        await super().append(session_id, *turns)


@sessions(
    "SES-005",
    fragment="got:      ['t10', 't0', 't1', 't2', 't3', 't4'",
    report="run-llama/llama_index#19389",
    may="CMP SES",
)
class OrderedByWholeSeconds(_Timed):
    """Turns of one second are ordered by something else."""

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        history = await super().get_history(session_id)
        first = 1 if history and history[0].kind == "summary" else 0
        return [*history[:first], *sorted(history[first:], key=self._second)]

    def _second(self, turn: ChatTurn) -> tuple[int, str]:
        # Not by their ids, which are random: what fails has to be the same in every run.
        return int(self.times.get(turn.turn_id, 0)), turn.content[::-1]


@sessions("SES-006", fragment="contents, clock step 0.0", report="redis/redis-vl-python#449")
class OneTurnATick(_Timed):
    """A turn that came at the same time as the one before takes its place."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        session = self._live(session_id) if is_text(session_id) else None
        last = session.turns[-1].turn_id if session and session.turns else ""
        await super().append(session_id, *turns)
        if self.times.get(last) == self._now() and last not in [turn.turn_id for turn in turns]:
            kept = self._sessions[session_id]
            kept.turns = [turn for turn in kept.turns if turn.turn_id != last]


@sessions(
    "SES-006",
    fragment="append: the session was changed meanwhile",
    report="google/adk-python#3717",
    may="SES-019 SES-020",
)
class VersionIsAClock(InMemorySessionStore):
    """An append at the time of the last one is taken for that of a stale writer."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        session = stored(self, session_id)
        if session is not None and session.updated_at >= self._now():
            raise StoreUnavailable("append: the session was changed meanwhile")
        await super().append(session_id, *turns)
