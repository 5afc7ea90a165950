"""Sessions in process memory.

No lock anywhere: what has to be atomic has no `await` inside, so the event loop cannot interleave it. An
idle session is one entry in a dictionary and nothing else.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice

from memcore import guards
from memcore.compression import Compressions, Compressor, Rewrite
from memcore.errors import TurnConflict
from memcore.lifetime import Closable
from memcore.policy import CountPolicy, Size
from memcore.sessions.defaults import RETRY_WINDOW, SESSION_TTL_SECONDS, shape_window
from memcore.types import ChatTurn, SessionSummary


@dataclass(slots=True)
class _Session:
    turns: list[ChatTurn] = field(default_factory=list)
    tokens: int = 0
    known: OrderedDict[str, int] = field(default_factory=OrderedDict)
    updated_at: float = 0.0
    expires_at: float = 0.0
    compressor: str | None = None

    @property
    def size(self) -> Size:
        return Size(len(self.turns), self.tokens)


class InMemorySessionStore(Closable):
    """Sessions that live as long as this object, or until they expire.

    Args:
        compressor: When and how histories are compressed; by default 40 → 20 turns with no summarizer.
        ttl_seconds: A session to which nothing was appended for so long is gone.
        retry_window: A turn sent again is recognized while fewer than so many came after it.
        now: The clock, in seconds since the epoch.
    """

    def __init__(
        self,
        compressor: Compressor | None = None,
        *,
        ttl_seconds: float = SESSION_TTL_SECONDS,
        retry_window: int = RETRY_WINDOW,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        compressor = compressor or Compressor(CountPolicy())
        self._policy = compressor.policy
        self._compressions = Compressions(compressor)
        self._ttl = guards.ttl("InMemorySessionStore", ttl_seconds)
        self._retry_window = guards.whole_number(
            "InMemorySessionStore", "retry_window", retry_window, at_least=1
        )
        self._now = now
        # The least recently appended first, so expired ones are at the front.
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        self._check_open("append")
        session_id = guards.identifier("append", "session_id", session_id)
        batch = guards.turns("append", turns)
        if self._policy.due(self._store(session_id, batch)):
            await self._compressions.run(_Compressible(self, session_id))

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        self._check_open("get_window")
        session_id = guards.identifier("get_window", "session_id", session_id)
        limit = guards.limit("get_window", limit)
        session = self._live(session_id)
        return shape_window(session.turns, limit) if session else []

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        self._check_open("get_history")
        session = self._live(guards.identifier("get_history", "session_id", session_id))
        return list(session.turns) if session else []

    async def clear(self, session_id: str) -> None:
        self._check_open("clear")
        self._sessions.pop(guards.identifier("clear", "session_id", session_id), None)

    async def list_sessions(self) -> list[SessionSummary]:
        self._check_open("list_sessions")
        self._drop_expired()
        rows = [
            SessionSummary(session_id, len(session.turns), datetime.fromtimestamp(session.updated_at, UTC))
            for session_id, session in self._sessions.items()
        ]
        return sorted(rows, key=lambda row: (-row.updated_at.timestamp(), row.session_id))

    async def aclose(self) -> None:
        await super().aclose()
        self._sessions.clear()
        await self._compressions.aclose()

    def _store(self, session_id: str, batch: Sequence[ChatTurn]) -> Size:
        """Add what is new and renew the session; raises before anything changes."""
        session = self._live(session_id) or _Session()
        marks = [(turn, hash((turn.role, turn.content, turn.tool_name))) for turn in batch]
        for turn, mark in marks:
            if session.known.get(turn.turn_id, mark) != mark:
                raise TurnConflict(session_id, turn.turn_id)
        new = [(turn, mark) for turn, mark in marks if turn.turn_id not in session.known]
        tokens = sum(self._policy.weigh(turn) for turn, _ in new)
        session.turns.extend(turn for turn, _ in new)
        session.tokens += tokens
        session.known.update((turn.turn_id, mark) for turn, mark in new)
        while len(session.known) > self._retry_window:
            session.known.popitem(last=False)
        self._renew(session_id, session)
        return session.size

    def _renew(self, session_id: str, session: _Session) -> None:
        now = self._now()
        # Never back, though the clock may go there.
        session.updated_at = max(session.updated_at, now)
        session.expires_at = now + self._ttl
        self._sessions[session_id] = session
        self._sessions.move_to_end(session_id)

    def _live(self, session_id: str) -> _Session | None:
        self._drop_expired()
        return self._sessions.get(session_id)

    def _drop_expired(self) -> None:
        now = self._now()
        while self._sessions:
            session_id, oldest = next(iter(self._sessions.items()))
            if oldest.expires_at > now:
                return
            del self._sessions[session_id]


class _Compressible:
    """One session of an `InMemorySessionStore`, for the time of one trigger."""

    def __init__(self, store: InMemorySessionStore, session_id: str) -> None:
        self.session_id = session_id
        self._store = store
        self._session = store._sessions[session_id]

    async def claim(self, owner: str) -> bool:
        if self._session.compressor is not None:
            return False
        self._session.compressor = owner
        return True

    async def release(self, owner: str) -> Size:
        if self._session.compressor == owner:
            self._session.compressor = None
        return self._session.size

    async def read(self) -> Sequence[ChatTurn]:
        return tuple(self._session.turns)

    async def commit(self, rewrite: Rewrite) -> bool:
        # Cleared or expired, perhaps begun again: then the store has another object under this id. While it
        # is the same one, appends only add at its end, and who holds the claim alone rewrites it.
        if self._store._live(self.session_id) is not self._session:
            return False
        weigh = self._store._policy.weigh
        session = self._session
        session.tokens -= sum(weigh(turn) for turn in islice(session.turns, rewrite.cut))
        session.tokens += weigh(rewrite.head) if rewrite.head else 0
        session.turns = rewrite.apply(session.turns)
        return True
