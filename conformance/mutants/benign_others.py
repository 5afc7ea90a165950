"""Stores of preferences and episodes that are odd and right: none of them may fail anything."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from conformance.mutants import making
from conformance.mutants.benign_sessions import within
from memcore import (
    Episode,
    InMemoryEpisodicStore,
    InMemoryPreferenceStore,
    InvalidArgument,
    Preference,
    RecalledEpisode,
    guards,
)
from memcore.types import Embedding

preferences = partial(making.preferences, role="benign")
episodes = partial(making.episodes, role="benign")


def _hashed(operation: str, argument: str, name: str) -> str:
    return hashlib.sha256(guards.identifier(operation, argument, name).encode()).hexdigest()


@preferences(residue=False)
class HashedPreferences(InMemoryPreferenceStore):
    """Users and keys are stored as their hashes, with the key beside its value."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.keys: dict[str, str] = {}

    def _checked(self, operation: str, user_id: str, key: str) -> tuple[str, str]:
        user_id, key = super()._checked(operation, user_id, key)
        if not key:
            return _hashed(operation, "user_id", user_id), ""
        hashed = hashlib.sha256(key.encode()).hexdigest()
        self.keys[hashed] = key
        return _hashed(operation, "user_id", user_id), hashed

    async def all(self, user_id: str) -> dict[str, Preference]:
        found = await super().all(_hashed("all", "user_id", user_id))
        return dict(sorted((self.keys[key], one) for key, one in found.items()))

    async def forget(self, user_id: str) -> int:
        return await super().forget(_hashed("forget", "user_id", user_id))


@episodes(residue=False)
class HashedEpisodes(InMemoryEpisodicStore):
    """Users are stored as their hashes."""

    async def remember(self, episode: Episode) -> None:
        if isinstance(episode, Episode):
            guards.episode("remember", episode)
            episode = replace(episode, user_id=_hashed("remember", "user_id", episode.user_id))
        await super().remember(episode)

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        found = await super().recall(_hashed("recall", "user_id", user_id), embedding, k, min_score)
        return [replace(item, user_id=user_id) for item in found]

    async def forget(self, user_id: str) -> int:
        return await super().forget(_hashed("forget", "user_id", user_id))


@episodes(nul=False)
class EpisodesWithoutNul(InMemoryEpisodicStore):
    """A summary with a NUL is refused, as is claimed."""

    async def remember(self, episode: Episode) -> None:
        text = getattr(episode, "summary", None)
        if isinstance(text, str) and "\0" in text:
            raise InvalidArgument("remember", "summary", "…", "has a NUL")
        await super().remember(episode)


@preferences(max_key_length=20, max_value_length=100)
class SmallPreferences(InMemoryPreferenceStore):
    """Keys and values are cut earlier, as is claimed."""

    def _checked(self, operation: str, user_id: str, key: str) -> tuple[str, str]:
        user_id, key = super()._checked(operation, user_id, key)
        return user_id, key[:20].strip()

    async def set(self, user_id: str, key: str, value: str) -> None:
        await super().set(user_id, key, guards.preference_value("set", value)[:100])


@episodes(max_id_length=64, max_text_bytes=8192, max_dimension=100)
class SmallEpisodes(InMemoryEpisodicStore):
    """Ids, summaries and dimensions have small limits, as is claimed."""

    def __init__(self, *, dimension: int, **options: Any) -> None:
        if dimension > 100:
            raise InvalidArgument("open", "dimension", dimension, "is above 100")
        super().__init__(dimension=dimension, **options)

    async def remember(self, episode: Episode) -> None:
        for name in ("user_id", "session_id", "episode_id"):
            within("remember", getattr(episode, name, None), 64)
        within("remember", getattr(episode, "summary", None), size=8192)
        await super().remember(episode)

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        within("recall", user_id, 64)
        return await super().recall(user_id, embedding, k, min_score)

    async def forget(self, user_id: str) -> int:
        within("forget", user_id, 64)
        return await super().forget(user_id)


def _all_of(store: InMemoryEpisodicStore) -> Callable[..., Any]:
    return partial(InMemoryEpisodicStore.recall, store)


@episodes()
class CoarseScores(InMemoryEpisodicStore):
    """Scores are rounded to three decimals, so those that are nearly equal change places."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        await super().recall(user_id, embedding, k, min_score)
        rows = self._users.get(user_id)
        arrived = {stored.episode_id: n for n, stored in enumerate(rows.episodes)} if rows else {}
        found = [
            replace(item, score=round(item.score, 3))
            for item in await _all_of(self)(user_id, embedding, 10_000_000)
        ]
        near = [item for item in found if min_score is None or item.score >= min_score]
        return sorted(near, key=lambda item: (-item.score, arrived[item.episode_id]))[:k]


@episodes(approximate=0.9, exact_up_to=50)
class OneInTwentyIsMissed(InMemoryEpisodicStore):
    """An approximate search that misses a little, and claims less than it reaches."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        exact = await super().recall(user_id, embedding, k, min_score)
        everything = await super().recall(user_id, embedding, 10_000_000, min_score)
        if len(everything) <= 50:
            return exact
        missed = {item.episode_id for n, item in enumerate(everything) if n % 20 == 7}
        near = [item for item in everything if item.episode_id not in missed]
        return near[:k] if len(near) >= k else everything[:k]
