"""All three layers in process memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

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
    residue=True,
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


def _texts(value: object) -> Iterator[str]:
    """Every text that is kept in a store, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts([*value.keys(), *value.values()])
    elif isinstance(value, Iterable) and not isinstance(value, np.ndarray | bytes):
        for item in value:
            yield from _texts(item)
    elif type(value).__module__.startswith("memcore"):
        fields = getattr(value, "__slots__", None) or vars(value)
        yield from _texts([getattr(value, name) for name in fields])


def residue(*stores: object) -> Callable[[str], Awaitable[Sequence[str]]]:
    """The hook for stores in memory: their attributes in which a text stands."""

    async def look(text: str) -> Sequence[str]:
        return [
            f"{type(store).__name__}.{name}"
            for store in stores
            for name, value in vars(store).items()
            if any(text in found for found in _texts(value))
        ]

    return look


@backend("memory", CLAIMS)
async def BACKEND(ctx: Context) -> AsyncIterator[Stores]:  # noqa: N802 (a constant to whoever imports it)
    sessions = InMemorySessionStore(ctx.compressor(), ttl_seconds=ctx.ttl_seconds, now=ctx.now)
    preferences = InMemoryPreferenceStore(now=ctx.now)
    async with (
        sessions,
        preferences,
        InMemoryEpisodicStore(model=ctx.model, dimension=ctx.dimension, now=ctx.now) as episodes,
    ):
        yield Stores(
            sessions=sessions,
            preferences=preferences,
            episodes=episodes,
            ttl=_Ttl(sessions, ctx),
            residue=residue(preferences, episodes),
        )
