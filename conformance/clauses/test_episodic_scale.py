"""Episodes: more of them than an index looks at, and nothing of them once they are forgotten."""

from __future__ import annotations

import math
import random
import string
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from conformance.clauses import clause
from conformance.clauses.test_episodic import DIMENSION, TOLERANCE, X, episode, recalled
from conformance.expect import expect, expect_that, not_evaluable
from conformance.world import World

pytestmark = pytest.mark.asyncio

OWN, CROWD = 300, 1500
WIDE = 1500
"""Characters of a summary: with rows this wide a planner takes an index of vectors for cheaper than a look
at a user's own rows, as it does for narrow ones in tables of hundreds of thousands."""
EPISODES, QUERIES, BEST = 1000, 1000, 10
CONFIDENCE = 0.99
Vectors = npt.NDArray[np.float64]


@clause("EPI-003")
async def test_a_crowd_hides_nobody(world: World) -> None:
    """Of 300 far episodes k come, though an index finds 1,500 of others nearer and filters them late."""
    rng, letters = np.random.default_rng(3), random.Random(3)
    async with world.open() as kit:
        for n in range(OWN + CROWD):
            own = n % ((OWN + CROWD) // OWN) == 0
            vector = (-1 if own else 1) * np.array(X) + rng.normal(0, 0.01, DIMENSION)
            summary = "".join(letters.choices(string.ascii_letters, k=WIDE))
            user_id = "own" if own else "crowd"
            await kit.episodes.remember(episode(summary, vector.tolist(), user_id=user_id))
        for k in (3, 10, 100, OWN):
            found = await kit.episodes.recall("own", X, k)
            expect("EPI-003", f"recall of {k} of {OWN}", len(found), k)


@clause("EPI-018")
async def test_forgetting_leaves_nothing_in_storage(world: World) -> None:
    """User, session, id and summary stand in raw storage before, and nowhere afterwards; others stay."""
    traces = ("forgotten-user", "forgotten-session", "forgotten-id", "forgotten-summary")
    user_id, session_id, episode_id, summary = traces
    async with world.open() as kit:
        for n in range(3):
            sent = episode(f"{summary}-{n}", X, user_id=user_id, episode_id=f"{episode_id}-{n}")
            await kit.episodes.remember(replace(sent, session_id=session_id))
        await kit.episodes.remember(episode("kept-summary", X, user_id="kept-user"))
        for trace in traces:
            if not await kit.residue(trace):
                not_evaluable(f"the hook does not show {trace!r}, which is stored")
        await kit.episodes.forget(user_id)
        left = {trace: found for trace in traces if (found := await kit.residue(trace))}
        expect("EPI-018", "what is left", left, {})
        expect_that("EPI-018", "another user", bool(await kit.residue("kept-user")), expected=True, got=False)


@clause("EPI-019")
async def test_an_approximate_search_finds_what_it_claims(world: World) -> None:
    """Over 1,000 random queries of a user with 1,000 episodes, ten each, the mean recall is not below."""
    claimed = world.claims.approximate
    assert claimed is not None
    rng = np.random.default_rng(world.seed)
    vectors = _unit(rng.normal(size=(EPISODES, DIMENSION)))
    queries = _unit(rng.normal(size=(QUERIES, DIMENSION)))
    async with world.open() as kit:
        for n, vector in enumerate(vectors):
            await kit.episodes.remember(episode(f"{n}", vector.tolist()))
        found = [await recalled(kit, query.tolist(), BEST) for query in queries]
    hits = [_recall(vectors @ query, names) for query, names in zip(queries, found, strict=True)]
    mean, margin = float(np.mean(hits)), math.sqrt(math.log(1 / (1 - CONFIDENCE)) / (2 * QUERIES))
    expect_that(
        "EPI-019",
        f"mean recall of {BEST} over {QUERIES} queries",
        mean >= claimed - margin,
        expected=f"at least {claimed} (less {margin:.3f}, at {CONFIDENCE:.0%} confidence)",
        got=round(mean, 4),
    )


def _unit(vectors: Vectors) -> Vectors:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1)[:, None])


def _recall(scores: Vectors, names: list[str]) -> float:
    """The share of the best that was found; one that is no worse than the last of them counts as one."""
    least = np.sort(scores)[-BEST] - TOLERANCE
    hits = sum(bool(scores[int(name)] >= least) for name in set(names))
    return hits / BEST
