"""Episodic stores that are wrong in what they recall."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from conformance.mutants.making import episodes
from memcore import InMemoryEpisodicStore, RecalledEpisode
from memcore.types import Embedding

EVERYTHING = 10_000_000


@episodes(
    "EPI-002",
    fragment="got:      ['5', '0']",
    report="mem0ai/mem0#6883",
    may="EPI-001 EPI-003 EPI-007 EPI-008 EPI-014",
)
class WorstFirst(InMemoryEpisodicStore):
    """The least alike come first."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        return list(reversed(await super().recall(user_id, embedding, k, min_score)))


@episodes(
    "EPI-004", fragment='got:      "no error, but [RecalledEpisode(user', report="a bad number read as one"
)
class AnyKWillDo(InMemoryEpisodicStore):
    """A k that is none is taken for 1."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        return await super().recall(user_id, embedding, k if self._counts(k) else 1, min_score)

    def _counts(self, k: Any) -> bool:
        return type(k) is int and k > 0


@episodes(
    "EPI-005",
    fragment="got:      [('index', 'of index'), ('index}', '",
    report="langchain-ai/langgraph#8478, langchain-ai/langgraphjs#2721",
    may="EPI-011",
)
class UsersByPrefix(InMemoryEpisodicStore):
    """A user sees those whose ids begin alike."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        found = await super().recall(user_id, embedding, k, min_score)
        for other in self._users:
            if other != user_id and other.startswith(user_id):
                found += await super().recall(other, embedding, k, min_score)
        return sorted(found, key=lambda item: -item.score)[:k]


@episodes("EPI-006", fragment="scores at 0°", report="mem0ai/mem0#4453", may="EPI-007 EPI-014")
class ScoreIsDistance(InMemoryEpisodicStore):
    """The score is the distance."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        found = await super().recall(user_id, embedding, k, min_score)
        return [replace(item, score=1 - item.score) for item in found]


@episodes("EPI-007", fragment="recall from 1.0", report="qdrant/qdrant#8688")
class MinScoreIsExclusive(InMemoryEpisodicStore):
    """What has exactly the least score is left out."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        found = await super().recall(user_id, embedding, k, min_score)
        return [item for item in found if min_score is None or item.score > min_score]


@episodes("EPI-003", fragment="recall of 41", report="pgvector/pgvector#282", may="EPI-001 EPI-006 EPI-008")
class FortyAtMost(InMemoryEpisodicStore):
    """Never are more than 40 found."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        return (await super().recall(user_id, embedding, k, min_score))[:40]


@episodes(
    "EPI-008",
    fragment="got:      ['0', '39', '38', '37', '36', '35']",
    report="qdrant/qdrant#1788, qdrant/qdrant#9523",
    may="EPI-001 EPI-014 EPI-016",
)
class TiesById(InMemoryEpisodicStore):
    """Equal episodes are ordered by their ids."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        await super().recall(user_id, embedding, k, min_score)
        found = await super().recall(user_id, embedding, 10_000_000, min_score)
        return sorted(found, key=lambda item: (-item.score, item.episode_id))[:k]


@episodes(
    "EPI-019",
    fragment="mean recall of 10 over 1000 queries",
    report="a recall that is claimed and not measured",
    approximate=0.9,
    may="EPI",
)
class TwoInThreeAreFound(InMemoryEpisodicStore):
    """A third of the best are missed by an approximate search."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        await super().recall(user_id, embedding, k, min_score)
        found = await super().recall(user_id, embedding, 10_000_000, min_score)
        near = [item for n, item in enumerate(found) if n % 3]
        # The others at the end, so that only the recall is wrong, not the number.
        return [*near, *found[::3]][:k]


@episodes(
    "EPI-003",
    fragment="recall of 1 of 20",
    report="pgvector/pgvector#751, plastic-labs/honcho#1048",
    may="EPI-006",
)
class FilteredLate(InMemoryEpisodicStore):
    """Of the 40 nearest of everyone those of this user are given."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        own = await super().recall(user_id, embedding, k, min_score)
        others = [await super(FilteredLate, self).recall(name, embedding, 40) for name in self._users]
        near = sorted((item.score for found in others for item in found), reverse=True)[:40]
        return [item for item in own if item.score >= near[-1]]


class _Everyone(InMemoryEpisodicStore):
    """Looks at the episodes of all users."""

    async def of_all(
        self, embedding: Embedding, k: int = EVERYTHING, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        recall = InMemoryEpisodicStore.recall
        found = [await recall(self, name, embedding, EVERYTHING, min_score) for name in self._users]
        return sorted((item for items in found for item in items), key=lambda item: -item.score)[:k]


@episodes(
    "EPI-005",
    fragment="got:      [('index', 'of index'), ('index}', '",
    report="mem0ai/mem0#1805, google/adk-python#1019, CaviraOSS/LongMemory#97",
    may="EPI-003 EPI-011 EPI-013",
)
class NoUserFilter(_Everyone):
    """Everybody recalls the episodes of everyone."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        await super().recall(user_id, embedding, k, min_score)
        return await self.of_all(embedding, k, min_score)


@episodes(
    "EPI-003", fragment="recall of 1 of 20", report="mem0ai/mem0#6998, mem0ai/mem0#7072, mem0ai/mem0#7416"
)
class TwiceKThenFiltered(_Everyone):
    """Twice as many as asked are fetched of everyone, and then filtered by user."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        await super().recall(user_id, embedding, k, min_score)
        near = await self.of_all(embedding, 2 * k, min_score)
        return [item for item in near if item.user_id == user_id][:k]


@episodes(
    "EPI-005",
    fragment="got:      [('%7B', 'of %7B'), ('%257B', 'of %2",
    report="langchain-ai/langgraphjs#2512, langchain-ai/langgraph#8214",
)
class UsersByLike(_Everyone):
    """User ids are patterns: `%` is anything, `_` any character."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        await super().recall(user_id, embedding, k, min_score)
        pattern = re.compile(re.escape(user_id).replace("%", ".*").replace("_", "."), re.DOTALL)
        near = await self.of_all(embedding, min_score=min_score)
        return [item for item in near if pattern.fullmatch(item.user_id)][:k]


@episodes(
    "EPI-005",
    fragment="got:      []",
    report="spring-projects/spring-ai#5637, RediSearch/RediSearch#356",
    may="EPI-011 EPI-013",
)
class HyphensAreOperators(InMemoryEpisodicStore):
    """The id of a user stands in a query unescaped, and one with a hyphen finds nothing."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        found = await super().recall(user_id, embedding, k, min_score)
        return [] if "-" in user_id else found


@episodes("EPI-003", fragment="got:      []", report="BasedHardware/omi#7550")
class ForgottenTakePlaces(InMemoryEpisodicStore):
    """Vectors of users who were forgotten stay in the index, and take places in its answers."""

    async def forget(self, user_id: str) -> int:
        count = await super().forget(user_id)
        self.__dict__["hidden"] = self.__dict__.get("hidden", 0) + count
        return count

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        found = await super().recall(user_id, embedding, k, min_score)
        return found[: max(0, k - self.__dict__.get("hidden", 0))]


@episodes("EPI-006", fragment="scores", report="qdrant/qdrant#8690", may="EPI-007")
class ScoresAboveOne(InMemoryEpisodicStore):
    """Scores in single precision are handed out as they are, a little above 1 for a vector itself."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        found = await super().recall(user_id, embedding, k, min_score)
        return [replace(item, score=item.score * 1.0000001) for item in found]


@episodes("EPI-006", fragment="scores at 0°", report="a product taken for a cosine", may="EPI-009")
class LengthsCount(InMemoryEpisodicStore):
    """The score is the product of the vectors, so long ones come first."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        found = await super().recall(user_id, embedding, k, min_score)
        length = float(np.linalg.norm(np.asarray(embedding, dtype=np.float64)))
        return [replace(item, score=item.score * length) for item in found]


@episodes("EPI-002", fragment="recall by default", report="a default that differs")
class FiveByDefault(InMemoryEpisodicStore):
    """Five episodes are recalled unless it is told otherwise."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 5, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        return await super().recall(user_id, embedding, k, min_score)
