"""Preference and episodic stores that are wrong, and stores that do nothing."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from conformance.backend import Context, Layer, Stores
from memcore import (
    Episode,
    InMemoryEpisodicStore,
    InMemoryPreferenceStore,
    Preference,
    RecalledEpisode,
)
from memcore.types import Embedding
from tests.wrong import episodes, preferences, registered


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


@preferences("PRE-020", persistent=True)
class PreferencesOfOneObject(InMemoryPreferenceStore):
    """Claims to be persistent, and is not."""


@preferences("PRE-010")
class ForgottenPreferencesAreArchived(InMemoryPreferenceStore):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._archive: list[object] = []

    async def forget(self, user_id: str) -> int:
        self._archive.append(self._users.get(user_id))
        return await super().forget(user_id)


@episodes("EPI-017", persistent=True)
class AnyModelIsOpened(InMemoryEpisodicStore):
    """Claims to be persistent, and opens what it has as whatever it is asked to."""


@episodes("EPI-018")
class ForgottenIdsStay(InMemoryEpisodicStore):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._index: dict[str, str] = {}

    async def remember(self, episode: Episode) -> None:
        await super().remember(episode)
        self._index[episode.episode_id] = episode.user_id


@episodes("EPI-019", approximate=0.9)
class TwoInThreeAreFound(InMemoryEpisodicStore):
    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        await super().recall(user_id, embedding, k, min_score)
        found = await super().recall(user_id, embedding, 10_000_000, min_score)
        near = [item for n, item in enumerate(found) if n % 3]
        # The others at the end, so that only the recall is wrong, not the number.
        return [*near, *found[::3]][:k]


@episodes("EPI-003")
class FilteredLate(InMemoryEpisodicStore):
    """As an index of vectors does: looks at the 40 nearest of everyone, then filters by user."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        own = await super().recall(user_id, embedding, k, min_score)
        others = [await super(FilteredLate, self).recall(name, embedding, 40) for name in self._users]
        near = sorted((item.score for found in others for item in found), reverse=True)[:40]
        return [item for item in own if item.score >= near[-1]]


def _left_running(_: Context) -> Stores:
    class LeavesATask(InMemoryPreferenceStore):
        async def set(self, user_id: str, key: str, value: str) -> None:
            await super().set(user_id, key, value)
            self.task = asyncio.create_task(asyncio.Event().wait())

    return Stores(preferences=LeavesATask())


registered(__name__, "preferences", "LEAVES_A_TASK", ["INF-001"], _left_running)
registered(
    __name__, "preferences", "ONE_NAMESPACE", ["INF-002"], lambda _: Stores(preferences=_OneNamespace())
)


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


registered(
    __name__, "sessions", "NO_SESSIONS", ["SES-001", "SES-004", "SES-018", "CMP-002"], _nothing("sessions")
)
registered(
    __name__, "preferences", "NO_PREFERENCES", ["PRE-001", "PRE-002", "PRE-010"], _nothing("preferences")
)
registered(__name__, "episodes", "NO_EPISODES", ["EPI-001", "EPI-003", "EPI-010"], _nothing("episodes"))
