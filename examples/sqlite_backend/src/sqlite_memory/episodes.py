"""Episodes in SQLite: vectors as blobs in single precision, compared one by one."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Self

import numpy as np
import numpy.typing as npt
from memcore import Episode, ModelMismatch, RecalledEpisode, guards
from memcore.types import Embedding

from sqlite_memory.database import Database, SqliteStore

SCORE_DECIMALS = 6
"""Vectors in single precision are not known better; so a vector is exactly 1.0 alike to itself."""
_BLOCK = 1024
"""Vectors that are in memory at a time."""

_DECLARE = "INSERT INTO embedding (only, model, dimension) VALUES (1, ?, ?) ON CONFLICT DO NOTHING"
_DECLARED = "SELECT model, dimension FROM embedding"
_REMEMBER = """
INSERT INTO episodes (user_id, episode_id, session_id, summary, created_at, vector) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (user_id, episode_id) DO NOTHING
"""
_VECTORS = "SELECT episode, vector FROM episodes WHERE user_id = ?"
_EPISODE = "SELECT user_id, session_id, summary, episode_id, created_at FROM episodes WHERE episode = ?"
_FORGET = "DELETE FROM episodes WHERE user_id = ?"

_Doubles = npt.NDArray[np.float64]


class SqliteEpisodicStore(SqliteStore):
    """Episodes in a SQLite file, recalled exactly: the time grows with the episodes of the user.

    Args:
        database: Where they are kept; holds the vectors of one model.
        model: Name of the embedding model.
        dimension: Components of each vector, 1 to 4,000.
        now: The clock, in seconds since the epoch.
    """

    def __init__(
        self, database: Database, *, model: str, dimension: int, now: Callable[[], float] = time.time
    ) -> None:
        super().__init__(database)
        self.model = guards.identifier("SqliteEpisodicStore", "model", model)
        self.dimension = guards.dimension("SqliteEpisodicStore", dimension)
        self._now = now
        self._declared = False

    async def open(self) -> None:
        """Say which vectors are kept here, or find that it was said already; every first call does so.

        Raises:
            ModelMismatch: The file holds vectors of another model or dimension.
        """
        self._check_open("open")
        if not self._declared:
            await self._database.write("open", self._declare)
            self._declared = True

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def remember(self, episode: Episode) -> None:
        self._check_open("remember")
        episode = guards.episode("remember", episode)
        vector = guards.unit_vector("remember", episode.embedding, self.dimension)
        created_at = episode.created_at or datetime.fromtimestamp(self._now(), UTC)
        row = (
            episode.user_id,
            episode.episode_id,
            episode.session_id,
            episode.summary,
            created_at.isoformat(),
            vector.astype("<f4").tobytes(),
        )
        with self._calls.counted():
            await self.open()
            await self._database.write("remember", lambda db: db.execute(_REMEMBER, row))

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        self._check_open("recall")
        user_id = guards.identifier("recall", "user_id", user_id)
        query = guards.unit_vector("recall", embedding, self.dimension)
        k = guards.k("recall", k)
        min_score = guards.min_score("recall", min_score)

        def search(db: sqlite3.Connection) -> list[RecalledEpisode]:
            best = _best(db.execute(_VECTORS, [user_id]), query, k)
            return [
                _recalled(db.execute(_EPISODE, [number]).fetchone(), score)
                for number, score in best
                if min_score is None or score >= min_score
            ]

        with self._calls.counted():
            await self.open()
            return await self._database.read("recall", search)

    async def forget(self, user_id: str) -> int:
        self._check_open("forget")
        where = [guards.identifier("forget", "user_id", user_id)]
        with self._calls.counted():
            await self.open()
            return await self._database.write(
                "forget", lambda db: db.execute(_FORGET, where).rowcount, erase=True
            )

    def _declare(self, db: sqlite3.Connection) -> None:
        db.execute(_DECLARE, [self.model, self.dimension])
        model, dimension = db.execute(_DECLARED).fetchone()
        if (model, dimension) != (self.model, self.dimension):
            raise ModelMismatch(
                f"open: the file holds vectors of {model!r} with {dimension} dimensions, not of "
                f"{self.model!r} with {self.dimension}; give each model a file of its own"
            )


def _best(rows: sqlite3.Cursor, query: _Doubles, k: int) -> list[tuple[int, float]]:
    """Numbers and scores of the `k` best, best first, ties by number, which is by arrival."""
    numbers: list[int] = []
    scores = [np.empty(0)]
    while block := rows.fetchmany(_BLOCK):
        numbers += [number for number, _ in block]
        scores.append(_scores(b"".join(vector for _, vector in block), query))
    score = np.concatenate(scores)
    order = np.lexsort((np.array(numbers), -score))[:k]
    return [(numbers[at], float(score[at])) for at in order]


def _scores(vectors: bytes, query: _Doubles) -> _Doubles:
    """Scores of vectors that stand one after the other; shape `(vectors,)`."""
    matrix = np.frombuffer(vectors, dtype="<f4").reshape(-1, len(query)).astype(np.float64)
    # Row by row: a matrix product may give equal rows different scores.
    rounded: _Doubles = (matrix * query).sum(axis=1).clip(-1.0, 1.0).round(SCORE_DECIMALS)
    return rounded


def _recalled(row: tuple[str, str, str, str, str], score: float) -> RecalledEpisode:
    user_id, session_id, summary, episode_id, created_at = row
    return RecalledEpisode(
        user_id, session_id, summary, episode_id, datetime.fromisoformat(created_at), score
    )
