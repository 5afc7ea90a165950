"""All three layers in process memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from conformance.backend import Claims, Context, Stores, backend
from memcore import (
    RETRY_WINDOW,
    InMemoryEpisodicStore,
    InMemoryPreferenceStore,
    InMemorySessionStore,
)

CLAIMS = Claims(
    layers=frozenset({"sessions", "preferences", "episodes"}),
    ttl=0.001,
    idempotent=RETRY_WINDOW,
    atomic_batches=True,
    compresses=True,
    watermark=True,
    traces=True,
    injected_clock=True,
    snapshot=True,
)


class _Ttl:
    """Looks into the store: expiry by itself needs its clock, which moves for all sessions at once."""

    def __init__(self, store: InMemorySessionStore, ctx: Context) -> None:
        self._sessions = store._sessions
        self._now = ctx.now

    async def remaining_ttl(self, session_id: str) -> float | None:
        session = self._sessions.get(session_id)
        return session.expires_at - self._now() if session else None

    async def expire_now(self, session_id: str) -> None:
        if session_id in self._sessions:
            self._sessions[session_id].expires_at = 0.0
            self._sessions.move_to_end(session_id, last=False)

    async def residue(self) -> Sequence[str]:
        return list(self._sessions)


@backend("memory", CLAIMS)
async def BACKEND(ctx: Context) -> AsyncIterator[Stores]:  # noqa: N802 (a constant to whoever imports it)
    sessions = InMemorySessionStore(ctx.compressor(), ttl_seconds=ctx.ttl_seconds, now=ctx.now)
    preferences = InMemoryPreferenceStore(now=ctx.now)
    async with (
        sessions,
        preferences,
        InMemoryEpisodicStore(model=ctx.model, dimension=ctx.dimension, now=ctx.now) as episodes,
    ):
        yield Stores(sessions=sessions, preferences=preferences, episodes=episodes, ttl=_Ttl(sessions, ctx))
