"""Episodic stores that are wrong in what they keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, timedelta, timezone
from typing import Any

import numpy as np

from conformance.mutants.making import episodes, text_of
from memcore import Episode, InMemoryEpisodicStore, InvalidArgument, RecalledEpisode
from memcore.types import Embedding


@episodes("EPI-009", fragment="remember of ()", report="omega-memory/omega-memory#75")
class BadVectorsAreSkipped(InMemoryEpisodicStore):
    """An episode with a bad vector is dropped without an error."""

    async def remember(self, episode: Episode) -> None:
        try:
            await super().remember(episode)
        except InvalidArgument as error:
            if error.argument != "embedding":
                raise


@episodes(
    "EPI-012",
    fragment="created_at datetime.datetime(2024, 1, 1, 0, 0)",
    report="semantica-agi/semantica#1073",
)
class TimesAreTakenAsUtc(InMemoryEpisodicStore):
    """A time without a zone is taken for UTC."""

    async def remember(self, episode: Episode) -> None:
        time: Any = getattr(episode, "created_at", None)
        naive = hasattr(time, "tzinfo") and time.tzinfo is None
        await super().remember(replace(episode, created_at=time.replace(tzinfo=UTC)) if naive else episode)


@episodes("EPI-013", fragment="got:      6", report="counts that disagree")
class ForgetsOneMore(InMemoryEpisodicStore):
    """Forget counts one too many."""

    async def forget(self, user_id: str) -> int:
        return await super().forget(user_id) + 1


@episodes("EPI-014", fragment="scores after changing the vectors", report="google/adk-python#7105")
class KeepsTheCallersVector(InMemoryEpisodicStore):
    """The vector that is stored is the caller's own."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.kept: list[Episode] = []

    async def remember(self, episode: Episode) -> None:
        await super().remember(episode)
        self.kept.append(episode)

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        now = InMemoryEpisodicStore(model=self.model, dimension=self.dimension)
        for episode in self.kept:
            await now.remember(episode)
        return await now.recall(user_id, embedding, k, min_score)

    async def forget(self, user_id: str) -> int:
        self.kept = [episode for episode in self.kept if episode.user_id != user_id]
        return await super().forget(user_id)


@episodes("EPI-016", fragment="open: dimension 2040 is above 2000", report="pixeltable/pixeltable#950")
class TwoThousandAtMost(InMemoryEpisodicStore):
    """More than 2,000 dimensions are refused."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.dimension > 2000:
            raise InvalidArgument("open", "dimension", self.dimension, "is above 2000")


@episodes("EPI-011", fragment="got:      ['first', 'first']", report="the same memory stored twice")
class LastOfAnIdStays(InMemoryEpisodicStore):
    """An id that is there already is stored again."""

    async def remember(self, episode: Episode) -> None:
        rows = self._users.get(text_of(episode, "user_id"))
        if rows is not None and episode.episode_id in rows.ids:
            await super().remember(replace(episode, episode_id=f"{episode.episode_id}-again"))
        else:
            await super().remember(episode)


@episodes(
    "EPI-017",
    fragment="opening as model-b",
    report="mem0ai/mem0#4985, topoteretes/cognee#3547",
    persistent=True,
)
class AnyModelIsOpened(InMemoryEpisodicStore):
    """Vectors of one model are opened as those of another."""


@episodes("EPI-018", fragment="what is left", report="mastra-ai/mastra#6604")
class ForgottenIdsStay(InMemoryEpisodicStore):
    """An index keeps ids that were forgotten."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._index: dict[str, str] = {}

    async def remember(self, episode: Episode) -> None:
        await super().remember(episode)
        self._index[episode.episode_id] = episode.user_id


@episodes(
    "EPI-009",
    fragment="remember of (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.",
    report="spiceai/spiceai#11621, qdrant/qdrant#1087",
)
class ZeroVectorsAreStored(InMemoryEpisodicStore):
    """An embedding that failed, all zeros, is stored, and its score is no number."""

    async def remember(self, episode: Episode) -> None:
        vector: Any = getattr(episode, "embedding", None)
        if isinstance(vector, tuple) and len(vector) == self.dimension and not any(vector):
            episode = replace(episode, embedding=(1e-9,) * self.dimension)
        await super().remember(episode)


@episodes(
    "EPI-009",
    fragment="remember: embedding array([0., 0., 0., 0., 0., 0.,",
    report="pgvector/pgvector#461",
)
class HalfPrecision(InMemoryEpisodicStore):
    """Vectors are stored in half precision as they come, so large ones are infinite and small ones zero."""

    async def remember(self, episode: Episode) -> None:
        vector = getattr(episode, "embedding", None)
        if isinstance(vector, Sequence) and all(type(value) is float for value in vector):
            with np.errstate(over="ignore"):
                half = np.array(vector, dtype=np.float16)
            episode = replace(episode, embedding=half.astype(np.float64))
        await super().remember(episode)


class _Merged(InMemoryEpisodicStore):
    """Notes the first episode of every id."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.owners: dict[str, str] = {}

    async def forget(self, user_id: str) -> int:
        count = await super().forget(user_id)
        self.owners = {name: owner for name, owner in self.owners.items() if owner != user_id}
        return count


@episodes("EPI-011", fragment="got:      []", report="agno-agi/agno#9884", may="EPI-013")
class IdsAreGlobal(_Merged):
    """An id that another user has is taken from them."""

    async def remember(self, episode: Episode) -> None:
        await super().remember(episode)
        owner = self.owners.setdefault(episode.episode_id, episode.user_id)
        if owner != episode.user_id:
            await InMemoryEpisodicStore.forget(self, owner)
            self.owners[episode.episode_id] = episode.user_id


@episodes("EPI-011", fragment="got:      []", report="agno-agi/agno#7986", may="EPI-013")
class ForeignIdsAreSkipped(_Merged):
    """An id that another user has is not stored, and nobody hears of it."""

    async def remember(self, episode: Episode) -> None:
        owner = self.owners.get(text_of(episode, "episode_id"))
        if owner in (None, getattr(episode, "user_id", None)):
            await super().remember(episode)
            self.owners[episode.episode_id] = episode.user_id


@episodes("EPI-011", fragment="got:      []", report="NousResearch/hermes-agent#84686, dotCMS/core#35874")
class IdsJoinedByColons(_Merged):
    """User and episode are joined by a colon, so `a:b` and `c` are `a` and `b:c`."""

    async def remember(self, episode: Episode) -> None:
        joined = f"{getattr(episode, 'user_id', '')}:{getattr(episode, 'episode_id', '')}"
        if self.owners.get(joined) in (None, getattr(episode, "user_id", None)):
            await super().remember(episode)
            self.owners[joined] = episode.user_id


class _Again(InMemoryEpisodicStore):
    """Sees an id that it has already."""

    def known(self, episode: Any) -> int | None:
        rows = self._users.get(text_of(episode, "user_id"))
        ids = [stored.episode_id for stored in rows.episodes] if rows else []
        return ids.index(episode.episode_id) if text_of(episode, "episode_id") in ids else None


@episodes("EPI-011", fragment="got:      ['changed']", report="an upsert where the first shall stay")
class LastTextOfAnId(_Again):
    """An id that is remembered again has its new text."""

    async def remember(self, episode: Episode) -> None:
        at = self.known(episode)
        await super().remember(episode)
        if at is not None:
            stored = self._users[episode.user_id].episodes
            stored[at] = replace(stored[at], summary=episode.summary)


@episodes("EPI-015", fragment="got:      1.0", report="langchain-ai/langgraph#8300")
class LastVectorOfAnId(_Again):
    """An id that is remembered again keeps its text, and has the new vector."""

    async def remember(self, episode: Episode) -> None:
        at = self.known(episode)
        await super().remember(episode)
        if at is not None:
            vector = np.asarray(episode.embedding, dtype=np.float64)
            self._users[episode.user_id]._matrix[at] = vector / np.linalg.norm(vector)


@episodes("EPI-001", fragment="zones of creation times", report="mem0ai/mem0#6931")
class TimesInTheirZone(InMemoryEpisodicStore):
    """Times come back in a zone of the store."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        found = await super().recall(user_id, embedding, k, min_score)
        zone = timezone(timedelta(hours=7))
        return [replace(item, created_at=item.created_at.astimezone(zone)) for item in found]


@episodes("EPI-001", fragment="creation times", report="times in whole seconds")
class TimesWithoutMicroseconds(InMemoryEpisodicStore):
    """Times come back in whole seconds."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        found = await super().recall(user_id, embedding, k, min_score)
        return [replace(item, created_at=item.created_at.replace(microsecond=0)) for item in found]


@episodes("EPI-009", fragment="recall by ()", report="xorbitsai/xagent#2047", may="EPI-004 EPI-007 EPI-012")
class ErrorsAreEmpty(InMemoryEpisodicStore):
    """A search that fails is a search that finds nothing."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        try:
            return await super().recall(user_id, embedding, k, min_score)
        except InvalidArgument:
            return []


@episodes(
    "EPI-016", fragment="got:      'no error, but None'", report="a smallest dimension that nobody thought of"
)
class OneDimensionIsNone(InMemoryEpisodicStore):
    """A dimension of 0 is taken for 1."""

    def __init__(self, *, dimension: int, **options: Any) -> None:
        super().__init__(dimension=dimension or 1, **options)
