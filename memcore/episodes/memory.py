"""Episodes in process memory: one matrix of unit vectors per user, searched exactly."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from memcore import guards
from memcore.lifetime import Closable
from memcore.types import Embedding, Episode, RecalledEpisode

_FIRST_ROWS = 8
SCORE_DECIMALS = 6
"""Scores are rounded to this: stored in single precision they are not known better, and so a vector is
exactly 1.0 alike to itself."""
_MARGIN = 4 * 10.0**-SCORE_DECIMALS
"""How far below the k-th score in single precision a row may be and still be among the best."""


class _Rows:
    """The episodes of one user, in order of arrival, and their vectors; shape `(capacity, dimension)`."""

    def __init__(self, dimension: int) -> None:
        self.episodes: list[Episode] = []
        self.ids: set[str] = set()
        self._matrix = np.empty((_FIRST_ROWS, dimension), dtype=np.float32)

    @property
    def vectors(self) -> npt.NDArray[np.float32]:
        """Shape `(episodes, dimension)`, unit vectors."""
        return self._matrix[: len(self.episodes)]

    def add(self, episode: Episode, vector: npt.NDArray[np.float64]) -> None:
        count = len(self.episodes)
        if count == len(self._matrix):
            # Doubled, so that n episodes cost O(n) copies altogether.
            self._matrix = np.concatenate([self._matrix, np.empty_like(self._matrix)])
        self._matrix[count] = vector
        self.episodes.append(episode)
        self.ids.add(episode.episode_id)

    def best(
        self, query: npt.NDArray[np.float64], k: int, min_score: float | None
    ) -> list[tuple[int, float]]:
        """Positions and scores of the `k` best rows that reach `min_score`, best first, ties by arrival.

        One matrix product in single precision finds the candidates. It gives equal rows different scores,
        so all that may be among the best are scored again in double precision, row by row.
        """
        rough = self.vectors @ query.astype(np.float32)
        least = -np.inf if len(rough) <= k else np.partition(rough, -k)[-k]
        candidates = np.flatnonzero(rough >= least - _MARGIN)
        exact = (self.vectors[candidates].astype(np.float64) * query).sum(axis=1)
        scores = exact.clip(-1.0, 1.0).round(SCORE_DECIMALS)
        scored = zip(candidates.tolist(), scores.tolist(), strict=True)
        kept = [(row, score) for row, score in scored if min_score is None or score >= min_score]
        return sorted(kept, key=lambda item: (-item[1], item[0]))[:k]


class InMemoryEpisodicStore(Closable):
    """Episodes that live as long as this object, recalled exactly.

    Args:
        model: Name of the embedding model whose vectors are stored here.
        dimension: Components of each vector, 1 to 4,000.
        now: The clock, in seconds since the epoch.
    """

    def __init__(self, *, model: str, dimension: int, now: Callable[[], float] = time.time) -> None:
        super().__init__()
        self.model = guards.identifier("InMemoryEpisodicStore", "model", model)
        self.dimension = guards.dimension("InMemoryEpisodicStore", dimension)
        self._now = now
        self._users: dict[str, _Rows] = {}

    async def remember(self, episode: Episode) -> None:
        self._check_open("remember")
        episode = guards.episode("remember", episode)
        vector = guards.unit_vector("remember", episode.embedding, self.dimension)
        rows = self._users.get(episode.user_id) or _Rows(self.dimension)
        if episode.episode_id not in rows.ids:
            rows.add(self._without_vector(episode), vector)
            self._users[episode.user_id] = rows

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        self._check_open("recall")
        user_id = guards.identifier("recall", "user_id", user_id)
        query = guards.unit_vector("recall", embedding, self.dimension)
        k = guards.k("recall", k)
        min_score = guards.min_score("recall", min_score)
        rows = self._users.get(user_id)
        if rows is None:
            return []
        return [_recalled(rows.episodes[row], score) for row, score in rows.best(query, k, min_score)]

    async def forget(self, user_id: str) -> int:
        self._check_open("forget")
        rows = self._users.pop(guards.identifier("forget", "user_id", user_id), None)
        return len(rows.episodes) if rows else 0

    async def aclose(self) -> None:
        await super().aclose()
        self._users.clear()

    def _without_vector(self, episode: Episode) -> Episode:
        """The episode with a time and without the caller's vector, which the matrix holds."""
        created_at = episode.created_at or datetime.fromtimestamp(self._now(), UTC)
        return Episode(
            episode.user_id,
            episode.session_id,
            episode.summary,
            (),
            episode_id=episode.episode_id,
            created_at=created_at,
        )


def _recalled(episode: Episode, score: float) -> RecalledEpisode:
    assert episode.created_at is not None
    return RecalledEpisode(
        episode.user_id,
        episode.session_id,
        episode.summary,
        episode.episode_id,
        episode.created_at,
        score,
    )
