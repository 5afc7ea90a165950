"""Session stores that are wrong in what they keep, show and forget."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from memcore import (
    ChatTurn,
    InMemorySessionStore,
    SessionSummary,
)
from tests.wrong import sessions


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


@sessions("SES-040", persistent=True)
class SessionsOfOneObject(InMemorySessionStore):
    """Claims to be persistent, and is not."""
