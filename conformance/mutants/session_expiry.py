"""Session stores that are wrong in how long a session lives, and for how long a turn is known."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from conformance.mutants.compression_meanwhile import WithCompressible
from conformance.mutants.making import is_text, sessions, stored
from memcore import ChatTurn, InMemorySessionStore, SessionSummary
from memcore.compression import Rewrite
from memcore.policy import Size
from memcore.sessions.memory import _Compressible, _Session
from memcore.types import new_id


@sessions(
    "SES-022",
    fragment="remaining time after a later append",
    report="the time to live counts from the first append",
)
class TtlIsNotRenewed(InMemorySessionStore):
    """Later appends leave the time to live as it is."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        before = self._live(session_id) if is_text(session_id) else None
        expires_at = before.expires_at if before else None
        await super().append(session_id, *turns)
        if expires_at is not None:
            self._sessions[session_id].expires_at = expires_at


@sessions(
    "SES-023", fragment="remaining time after reading", report="reads that renew", may="SES-011 SES-025"
)
class ReadingRenewsTheTtl(InMemorySessionStore):
    """Reading a history lets the session live longer."""

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        history = await super().get_history(session_id)
        if history:
            self._renew(session_id, self._sessions[session_id])
        return history


@sessions("SES-026", fragment="what is left in storage", report="redis-developer/langgraph-redis#137")
class ExpiredStays(InMemorySessionStore):
    """Expired sessions are hidden, and stay in storage."""

    def _drop_expired(self) -> None:
        pass

    def _live(self, session_id: str):  # type: ignore[no-untyped-def]  # a private class
        session = stored(self, session_id)
        return session if session and session.expires_at > self._now() else None

    async def list_sessions(self) -> list[SessionSummary]:
        rows = await super().list_sessions()
        return [row for row in rows if self._live(row.session_id)]


@sessions(
    "SES-027",
    fragment="history after all was sent again",
    report="EverMind-AI/EverOS#274",
    may="CMP-006 SES-028",
)
class RetryIsNew(InMemorySessionStore):
    """A compression forgets which turns were stored."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        session = stored(self, session_id)
        if session is not None and session.turns and session.turns[0].kind == "summary":
            session.known.clear()
        await super().append(session_id, *turns)


@sessions("SES-028", fragment="an append of ChatTurn(role=", report="agno-agi/agno#7986", may="SES-022")
class ConflictIsIgnored(InMemorySessionStore):
    """Another turn under a known id is skipped as if it were the same."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        session = stored(self, session_id)
        known = session.known if session else {}
        new = [turn for turn in turns if getattr(turn, "turn_id", None) not in known]
        if new or not turns:
            await super().append(session_id, *new)


@sessions("SES-024", fragment="remaining time after an append that compresses", report="redis/ioredis#1094")
class CompressedLivesForever(InMemorySessionStore):
    """A compression rewrites a session without its time to live."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        await super().append(session_id, *turns)
        session = self._sessions[session_id]
        if session.turns[0].kind == "summary":
            session.expires_at = float("inf")


@sessions(
    "SES-025",
    fragment="got:      [('other', 2), ('s', 3)]",
    report="redis/agent-memory-server#121, spring-projects/spring-session#3183",
    may="SES-026",
)
class ExpiredIsListed(InMemorySessionStore):
    """The list has sessions that have expired."""

    def _drop_expired(self) -> None:
        pass


@sessions("SES-029", fragment="end after a known first turn", report="a retry that drops what is new")
class AKnownTurnDropsItsBatch(InMemorySessionStore):
    """A batch that begins with a known turn is taken for known."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        session = stored(self, session_id)
        known = session.known if session else {}
        first_known = bool(turns) and getattr(turns[0], "turn_id", None) in known
        await super().append(session_id, *(turns[:1] if first_known else turns))


@sessions("SES-022", fragment="remaining time after a later append", report="valkey-io/valkey-admin#488")
class AppendLosesTheTtl(InMemorySessionStore):
    """A session that is written again has no time to live any more."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        before = stored(self, session_id)
        await super().append(session_id, *turns)
        if before is not None:
            self._sessions[session_id].expires_at = 1e12


@sessions("SES-023", fragment="remaining time after reading", report="tomcounsell/ai#2698")
class ListingRenewsTheTtl(InMemorySessionStore):
    """Every look at the list writes all sessions again, and their time to live with them."""

    async def list_sessions(self) -> list[SessionSummary]:
        rows = await super().list_sessions()
        for row in reversed(rows):
            self._sessions[row.session_id].expires_at = self._now() + self._ttl
        return rows


class _Renews(_Compressible):
    async def commit(self, rewrite: Rewrite) -> bool:
        landed = await super().commit(rewrite)
        if landed:
            self._session.expires_at = self._store._now() + self._store._ttl
        return landed


@sessions("SES-024", fragment="remaining time", report="a time to live that compression renews")
class CompressionRenews(WithCompressible):
    """A session lives from its last compression on."""

    kind = _Renews


@sessions(
    "SES-025", fragment="history begun anew with the old turns", report="old ids that outlive their session"
)
class ExpiredTurnsAreKnown(InMemorySessionStore):
    """What an expired session had is not stored again."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.known: dict[str, OrderedDict[str, int]] = {}

    def _drop_expired(self) -> None:
        before = dict(self._sessions)
        super()._drop_expired()
        gone = before.keys() - self._sessions.keys()
        self.known.update((name, before[name].known) for name in gone)

    def _store(self, session_id: str, batch: Sequence[ChatTurn]) -> Size:
        self._drop_expired()
        if session_id in self.known:
            begun = _Session(known=self.known.pop(session_id), expires_at=float("inf"))
            self._sessions[session_id] = begun
        return super()._store(session_id, batch)


@sessions(
    "SES-027",
    fragment="got:      ['t0', 't0', 't1', 't0', 't1', 't1']",
    report="anthropics/anthropic-sdk-java#370",
    may="CMP-006 SES-028 SES-029",
)
class RetryIsStoredAgain(InMemorySessionStore):
    """A turn that is sent again is another turn."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        session = stored(self, session_id)
        known = session.known if session else {}
        await super().append(
            session_id,
            *(
                replace(turn, turn_id=new_id()) if getattr(turn, "turn_id", None) in known else turn
                for turn in turns
            ),
        )


@sessions("SES-027", fragment="contents of the other session", report="ids that are not scoped")
class TurnIdsAreGlobal(InMemorySessionStore):
    """A turn that one session has is known to all."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.homes: dict[str, str] = {}

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        homes = [self.homes.get(getattr(turn, "turn_id", ""), session_id) for turn in turns]
        new = [turn for turn, home in zip(turns, homes, strict=True) if home == session_id]
        if new or not turns:
            await super().append(session_id, *new)
            self.homes.update((turn.turn_id, session_id) for turn in new)

    async def clear(self, session_id: str) -> None:
        await super().clear(session_id)
        self.homes = {turn: home for turn, home in self.homes.items() if home != session_id}


@sessions("SES-027", fragment="contents, 1023 turns later", report="a window that is shorter than claimed")
class AHundredAreKnown(InMemorySessionStore):
    """A turn is known while a hundred others came after it; a thousand are claimed."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, retry_window=100, **options)
