"""Stores that do nothing, and stores that are wrong in what surrounds them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from conformance.backend import Context, Layer, Stores
from conformance.backends import memory
from conformance.mutants.making import whole
from memcore import InMemoryPreferenceStore, InMemorySessionStore, Preference


class _LeavesATask(InMemoryPreferenceStore):
    async def set(self, user_id: str, key: str, value: str) -> None:
        await super().set(user_id, key, value)
        self.task = asyncio.create_task(asyncio.Event().wait())


@whole(
    "preferences",
    "INF-001",
    fragment="tasks after closing",
    report="tasks that outlive their store",
    residue=False,
    may="PRE-011",
)
def leaves_a_task(_: Context) -> Stores:
    """Every write starts a task that nobody ends."""
    return Stores(preferences=_LeavesATask())


class _OneNamespace(InMemoryPreferenceStore):
    _everybody: dict[str, dict[str, Preference]] = {}  # noqa: RUF012 (that it is shared is what is wrong)

    def __init__(self) -> None:
        super().__init__()
        self._users = self._everybody

    async def aclose(self) -> None:
        self._closed = True


@whole(
    "preferences",
    "INF-002",
    fragment="a new namespace",
    report="microsoft/agent-framework#7471",
    residue=False,
    may="PRE",
)
def one_namespace(_: Context) -> Stores:
    """All stores of a process share what they keep."""
    return Stores(preferences=_OneNamespace())


@whole(
    "sessions",
    "INF-008",
    fragment="history of 100 turns",
    report="turns that leave though nobody asked",
    compresses=False,
    watermark=False,
    traces=False,
    may="SES-001 SES-004 SES-005 SES-027",
)
def compresses_unclaimed(ctx: Context) -> Stores:
    """Long histories are truncated, which is not claimed."""
    store = InMemorySessionStore(ttl_seconds=ctx.ttl_seconds, now=ctx.now)
    return Stores(sessions=store, ttl=memory._Ttl(store, ctx))


def _nothing(layer: Layer) -> Stores:
    """A store whose every method does nothing and gives nothing."""

    class Nothing:
        def __getattr__(self, _: str) -> Callable[..., object]:
            async def method(*_: object, **__: object) -> list[object]:
                return []

            return method

    return Stores(**{layer: Nothing()})  # type: ignore[arg-type]  # nothing is no store


@whole(
    "sessions",
    "SES-001",
    "SES-004",
    "SES-018",
    "CMP-002",
    fragment="history after",
    report="a store that does nothing",
    may="CMP INF-002 SES",
)
def no_sessions(_: Context) -> Stores:
    """Every method of a session store returns an empty list."""
    return _nothing("sessions")


@whole(
    "preferences",
    "PRE-001",
    "PRE-002",
    "PRE-010",
    fragment="got:      []",
    report="a store that does nothing",
    may="INF-002 PRE",
)
def no_preferences(_: Context) -> Stores:
    """Every method of a preference store returns an empty list."""
    return _nothing("preferences")


@whole(
    "episodes",
    "EPI-001",
    "EPI-003",
    "EPI-010",
    fragment="recall after",
    report="a store that does nothing",
    may="EPI INF-002",
)
def no_episodes(_: Context) -> Stores:
    """Every method of an episodic store returns an empty list."""
    return _nothing("episodes")
