"""Episodes: what happened before that resembles this."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from conformance.clauses import clause, needs
from conformance.expect import expect, expect_that
from conformance.hostile import IDS, TEXTS, longest_id
from conformance.model import cosine
from conformance.world import Kit, World
from memcore import Episode, RecalledEpisode
from memcore.types import Embedding

pytestmark = pytest.mark.asyncio

DIMENSION = 8
"""Of the stores that `World.open` opens unless it is told otherwise."""
TOLERANCE = 1e-3
CLOCKS_APART = timedelta(minutes=10)
X, Y = (1.0,) + (0.0,) * 7, (0.0, 1.0) + (0.0,) * 6


def at_angle(degrees: float) -> tuple[float, ...]:
    """A unit vector at this angle to `X`."""
    return (math.cos(math.radians(degrees)), math.sin(math.radians(degrees)), *(0.0,) * 6)


def episode(summary: str, embedding: Embedding, *, user_id: str = "u", **fields: object) -> Episode:
    """An episode of some session."""
    return Episode(user_id, "s", summary, embedding, **fields)  # type: ignore[arg-type]


async def recalled(kit: Kit, query: Sequence[float], k: int = 100, *, user_id: str = "u") -> list[str]:
    """Summaries that a recall gives, in order."""
    return [found.summary for found in await kit.episodes.recall(user_id, query, k)]


@clause("EPI-001")
async def test_what_was_remembered_comes_back(world: World) -> None:
    """Hostile summaries, session, id and a time in another zone come back exactly, as a `RecalledEpisode`."""
    then = datetime(2024, 2, 29, 23, 59, 59, 123456, tzinfo=timezone(timedelta(hours=-8, minutes=-30)))
    async with world.open() as kit:
        for n, text in enumerate(TEXTS):
            sent = Episode("u", f"s{n}", text, at_angle(n), episode_id=f"e{n}", created_at=then)
            await kit.episodes.remember(sent)
        found = await kit.episodes.recall("u", X, len(TEXTS))
        kinds = {type(item) for item in found}
        expect("EPI-001", "what recall yields", kinds, {RecalledEpisode})
        got = {(item.user_id, item.session_id, item.summary, item.episode_id) for item in found}
        sent_rows = {("u", f"s{n}", text, f"e{n}") for n, text in enumerate(TEXTS)}
        expect("EPI-001", "episodes", got, sent_rows)
        expect("EPI-001", "creation times", {item.created_at for item in found}, {then})
        zones = {item.created_at.utcoffset() for item in found}
        expect("EPI-001", "zones of creation times", zones, {timedelta(0)})


@clause("EPI-001", "EPI-011")
async def test_hostile_session_and_episode_ids_come_back(world: World) -> None:
    """Ids that careless stores strip, cut or unify are ids of their own, the longest among them."""
    names = [*(name for name in IDS if len(name) <= world.claims.max_id_length), longest_id(world.claims)]
    names.append(names[-1][:-1])
    async with world.open() as kit:
        for name in names:
            await kit.episodes.remember(Episode("u", name, "x", X, episode_id=name))
        found = await kit.episodes.recall("u", X, len(names) + 1)
        got = [(item.session_id, item.episode_id) for item in found]
        expect("EPI-001", "sessions and ids", got, [(name, name) for name in names])


@clause("EPI-001")
async def test_the_largest_summary_comes_back(world: World) -> None:
    """A summary of exactly the text limit comes back whole."""
    text = "会" * (world.claims.max_text_bytes // 3)
    async with world.open() as kit:
        await kit.episodes.remember(episode(text, X))
        got = [(len(item.summary), item.summary == text) for item in await kit.episodes.recall("u", X)]
        expect("EPI-001", "length and equality", got, [(len(text), True)])


@clause("EPI-001")
async def test_the_store_dates_what_has_no_date(world: World) -> None:
    """Without a creation time the store's clock gives one, aware and in UTC."""
    async with world.open() as kit:
        await kit.episodes.remember(episode("x", X))
        stamp = (await kit.episodes.recall("u", X))[0].created_at
        fine = stamp.utcoffset() == timedelta(0) and abs(stamp - datetime.now(UTC)) < CLOCKS_APART
        expect_that("EPI-001", "created_at", fine, expected="about now, aware UTC", got=stamp)


@clause("EPI-002")
async def test_the_best_come_first(world: World) -> None:
    """At known angles, remembered in another order, every k gives the nearest in their order."""
    angles = [40, 5, 175, 90, 10, 130, 0, 60]
    async with world.open() as kit:
        for angle in angles:
            await kit.episodes.remember(episode(f"{angle}", at_angle(angle)))
        for k in range(1, len(angles) + 1):
            expected = [f"{angle}" for angle in sorted(angles)[:k]]
            got = await recalled(kit, X, k)
            if world.claims.exact_for(len(angles)):
                expect("EPI-002", f"recall of {k}", got, expected)
            expect("EPI-002", f"order of {k}", got, sorted(got, key=int))
        expect("EPI-002", "recall by default", len(await kit.episodes.recall("u", X)), 3)


@clause("EPI-003")
@pytest.mark.parametrize("k", [1, 3, 19, 20, 21, 100, 10**6])
async def test_never_fewer_than_there_are(world: World, k: int) -> None:
    """A crowd of another user's nearer episodes takes no place of one's own."""
    rng = np.random.default_rng(0)
    async with world.open() as kit:
        for n in range(300):
            near = (np.array(X) + rng.normal(0, 0.01, DIMENSION)).tolist()
            await kit.episodes.remember(episode(f"crowd {n}", near, user_id="crowd"))
        for n in range(20):
            await kit.episodes.remember(episode(f"own {n}", at_angle(90 + n)))
        got = await recalled(kit, X, k)
        expect("EPI-003", f"recall of {k} of 20", got, [f"own {n}" for n in range(min(k, 20))])


@clause("EPI-003")
@pytest.mark.parametrize("k", [39, 40, 41, 100, 299, 300])
async def test_large_k_is_served(world: World, k: int) -> None:
    """Where a user has 300 episodes, k of them come, beyond what an index looks at by default."""
    async with world.open() as kit:
        for n in range(300):
            await kit.episodes.remember(episode(f"e{n}", at_angle(n / 2)))
        expect("EPI-003", f"recall of {k}", len(await kit.episodes.recall("u", X, k)), k)


@clause("EPI-003")
async def test_forgotten_episodes_take_no_place(world: World) -> None:
    """Nearer episodes of a user who was forgotten do not count."""
    async with world.open() as kit:
        for n in range(50):
            await kit.episodes.remember(episode(f"gone {n}", X, user_id="gone"))
        await kit.episodes.remember(episode("own", Y))
        await kit.episodes.forget("gone")
        expect("EPI-003", "recall", await recalled(kit, X, 3), ["own"])


@clause("EPI-003")
async def test_an_unknown_user_has_no_episodes(world: World) -> None:
    """Recall of a user who never remembered anything is empty."""
    async with world.open() as kit:
        await kit.episodes.remember(episode("x", X))
        expect("EPI-003", "recall", await recalled(kit, X, user_id="unknown"), [])


@clause("EPI-005")
async def test_users_are_apart(world: World) -> None:
    """Users of hostile ids remember the same text at the same place; each recalls only their own."""
    users = [*(name for name in IDS if len(name) <= world.claims.max_id_length), longest_id(world.claims)]
    async with world.open() as kit:
        for name in users:
            await kit.episodes.remember(episode(f"of {name}", X, user_id=name))
        for name in users:
            found = await kit.episodes.recall(name, X, 100)
            got = [(item.user_id, item.summary) for item in found]
            expect("EPI-005", f"recall of {name!r}", got, [(name, f"of {name}")])


@clause("EPI-006")
@pytest.mark.parametrize("angle", [0, 1, 30, 45, 60, 90, 120, 179, 180])
async def test_the_score_is_the_cosine(world: World, angle: float) -> None:
    """At a known angle the score is its cosine, whatever the lengths of the vectors, within [-1, 1]."""
    async with world.open() as kit:
        for n, length in enumerate((1.0, 1e-3, 1e4)):
            vector = [length * value for value in at_angle(angle)]
            await kit.episodes.remember(episode(f"{n}", vector))
        for length in (1.0, 1e-3, 1e4):
            query = [length * value for value in X]
            scores = [item.score for item in await kit.episodes.recall("u", query)]
            expect("EPI-006", "number of scores", len(scores), 3)
            fine = all(abs(score - math.cos(math.radians(angle))) <= TOLERANCE for score in scores)
            expect_that(
                "EPI-006", f"scores at {angle}°", fine, expected=math.cos(math.radians(angle)), got=scores
            )
            clamped = all(-1.0 <= score <= 1.0 for score in scores)
            expect_that("EPI-006", "scores", clamped, expected="within [-1, 1]", got=scores)


@clause("EPI-006")
async def test_scores_of_random_vectors(world: World) -> None:
    """Over 200 random pairs the score is the cosine of the definition, never above 1 for a vector itself."""
    rng = np.random.default_rng(1)
    async with world.open() as kit:
        vectors = rng.normal(size=(200, DIMENSION)).astype(np.float32)
        for n, vector in enumerate(vectors):
            await kit.episodes.remember(episode(f"{n}", vector))
        for query in vectors[:20]:
            found = await kit.episodes.recall("u", query, 200)
            expect("EPI-006", "number of scores", len(found), 200)
            for item in found:
                exact = cosine(vectors[int(item.summary)].tolist(), query.tolist())
                fine = abs(item.score - exact) <= TOLERANCE and -1.0 <= item.score <= 1.0
                expect_that("EPI-006", "score", fine, expected=exact, got=item.score)


@clause("EPI-007")
async def test_min_score_is_inclusive(world: World) -> None:
    """Asking for exactly the score that an episode was given finds it and all better ones."""
    async with world.open() as kit:
        for angle in (0, 20, 45, 90, 135, 180):
            await kit.episodes.remember(episode(f"{angle}", at_angle(angle)))
        found = await kit.episodes.recall("u", X, 10)
        for n, item in enumerate(found, start=1):
            got = [other.summary for other in await kit.episodes.recall("u", X, 10, item.score)]
            best = [other.summary for other in found[:n]]
            if not world.claims.exact_for(6):
                # It may miss some that are better, but not go below the bound.
                best = [other for other in best if other in got or other == item.summary]
            expect("EPI-007", f"recall from {item.score}", got, best)
        expect("EPI-007", "recall above all scores", await kit.episodes.recall("u", X, 10, 1.5), [])
        expect("EPI-007", "recall from -1", len(await kit.episodes.recall("u", X, 10, -1.0)), 6)


@clause("EPI-008")
@pytest.mark.parametrize(("number", "k"), [(40, 1), (40, 6), (40, 40), (300, 1), (300, 50), (300, 300)])
async def test_ties_come_by_arrival(world: World, number: int, k: int) -> None:
    """Of so many equal vectors the first k come, in order, three times over; ids say nothing about it."""
    direction = [0.3, -0.1, 0.7, 0.2, 0.05, -0.4, 0.11, 0.9]
    async with world.open() as kit:
        for n in range(number):
            await kit.episodes.remember(episode(f"{n}", direction, episode_id=f"{(n * 7919) % number:03}"))
        for _ in range(3):
            got = await recalled(kit, at_angle(20), k)
            expect("EPI-008", f"order of {k}", got, sorted(got, key=int))
            if world.claims.exact_for(number):
                expect("EPI-008", f"recall of {k}", got, [f"{n}" for n in range(k)])


@clause("EPI-009")
@pytest.mark.parametrize("scale", [1e-300, 1e-40, 1e-8, 70000.0, 1e38, 1e300])
async def test_very_large_and_small_vectors_are_not_refused(world: World, scale: float) -> None:
    """Only the direction counts, so vectors beyond half and single precision are as good as others."""
    async with world.open() as kit:
        await kit.episodes.remember(episode("far", [scale * value for value in at_angle(60)]))
        found = await kit.episodes.recall("u", [scale * value for value in X])
        scores = [item.score for item in found]
        fine = len(scores) == 1 and abs(scores[0] - 0.5) <= TOLERANCE
        expect_that("EPI-009", f"scores at scale {scale}", fine, expected=[0.5], got=scores)


@clause("EPI-010")
async def test_what_was_remembered_is_recalled_next(world: World) -> None:
    """After every remember the next recall has it, as the only, the nearest and the farthest."""
    async with world.open() as kit:
        for n in range(60):
            await kit.episodes.remember(episode(f"{n}", at_angle(n * 3)))
            # An approximate search may miss the nearest, unless it is asked for all.
            found = await recalled(kit, at_angle(n * 3), 1 if world.claims.exact_for(n + 1) else n + 1)
            expect("EPI-010", f"recall after remember {n}", found[:1], [f"{n}"])


@clause("EPI-011")
async def test_an_id_is_stored_once(world: World) -> None:
    """Sent again, equal or changed, an id has one episode: the first. Equal episodes of two ids are two."""
    first = episode("first", X, episode_id="e")
    async with world.open() as kit:
        await kit.episodes.remember(first)
        await kit.episodes.remember(first)
        await kit.episodes.remember(episode("changed", Y, episode_id="e"))
        expect("EPI-011", "recall", await recalled(kit, X), ["first"])
        await kit.episodes.remember(episode("first", X, episode_id="f"))
        expect("EPI-011", "recall of equal episodes", await recalled(kit, X), ["first", "first"])


@clause("EPI-011")
@pytest.mark.parametrize("joint", [":", "::", "/", "|", "-", "_", ".", ",", " "])
async def test_user_and_id_are_two_things(world: World, joint: str) -> None:
    """A user and an id are not joined into one name: `a:b` and `c` are not `a` and `b:c`."""
    pairs = [(f"a{joint}b", "c"), ("a", f"b{joint}c")]
    async with world.open() as kit:
        for user_id, id_ in pairs:
            await kit.episodes.remember(episode(f"of {user_id}", X, user_id=user_id, episode_id=id_))
        for user_id, _ in pairs:
            got = await recalled(kit, X, user_id=user_id)
            expect("EPI-011", f"recall of {user_id!r}", got, [f"of {user_id}"])


@clause("EPI-011")
async def test_ids_of_two_users_are_apart(world: World) -> None:
    """The same id under another user is another episode, and leaves the first as it was."""
    async with world.open() as kit:
        for user_id in ("u", "v"):
            await kit.episodes.remember(episode(f"of {user_id}", X, user_id=user_id, episode_id="e"))
        for user_id in ("u", "v"):
            got = await recalled(kit, X, user_id=user_id)
            expect("EPI-011", f"recall of {user_id}", got, [f"of {user_id}"])


@clause("EPI-013")
async def test_forget_removes_a_user(world: World) -> None:
    """It says how many there were, leaves others alone, and the same ids can be remembered anew."""
    async with world.open() as kit:
        for n in range(5):
            for user_id in ("u", "v"):
                await kit.episodes.remember(episode(f"{n}", at_angle(n), user_id=user_id, episode_id=f"e{n}"))
        expect("EPI-013", "forgotten", await kit.episodes.forget("u"), 5)
        expect("EPI-013", "forgotten again", await kit.episodes.forget("u"), 0)
        expect("EPI-013", "recall", await recalled(kit, X), [])
        expect("EPI-013", "recall of another", len(await recalled(kit, X, user_id="v")), 5)
        await kit.episodes.remember(episode("anew", X, episode_id="e0"))
        expect("EPI-013", "recall of an old id", await recalled(kit, X), ["anew"])


@clause("EPI-013")
async def test_forget_touches_its_user_alone(world: World) -> None:
    """Users of hostile ids are forgotten one by one; the others are whole at every step."""
    users = [name for name in IDS if len(name) <= world.claims.max_id_length]
    async with world.open() as kit:
        for name in users:
            await kit.episodes.remember(episode("x", X, user_id=name))
        for n, name in enumerate(users):
            expect("EPI-013", f"forgotten of {name!r}", await kit.episodes.forget(name), 1)
            left = [other for other in users[n + 1 :] if not await recalled(kit, X, user_id=other)]
            expect("EPI-013", f"others that lost theirs with {name!r}", left, [])


@clause("EPI-014")
async def test_vectors_and_lists_are_copied(world: World) -> None:
    """Changing a vector after the call, and a list that was handed out, changes nothing."""
    array, values = np.array(X), list(X)
    async with world.open() as kit:
        await kit.episodes.remember(episode("array", array))
        await kit.episodes.remember(episode("list", values))
        array[:] = Y
        values[:] = Y
        found = await kit.episodes.recall("u", X)
        scores = [round(item.score, 2) for item in found]
        found.clear()
        expect("EPI-014", "scores after changing the vectors", scores, [1.0, 1.0])
        expect("EPI-014", "recall after emptying a list", await recalled(kit, X), ["array", "list"])


@clause("EPI-016")
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.51, 1.0])
async def test_dimensions_up_to_the_largest(world: World, share: float) -> None:
    """From 1 to the largest dimension, a store finds what is nearest."""
    dimension = max(1, round(share * world.claims.max_dimension))
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(10, dimension))
    async with world.open(dimension=dimension) as kit:
        for n, vector in enumerate(vectors):
            await kit.episodes.remember(episode(f"{n}", vector.tolist()))
        scores = [cosine(vector.tolist(), vectors[3].tolist()) for vector in vectors]
        best = min(range(10), key=lambda n: (-scores[n], n))
        got = await recalled(kit, vectors[3].tolist(), 1 if world.claims.exact_for(10) else 10)
        expect("EPI-016", f"nearest in {dimension} dimensions", got[:1], [f"{best}"])


@clause("EPI-016")
@pytest.mark.parametrize("beyond", [0, -1, 1, 10_000])
async def test_dimensions_outside_are_refused(world: World, beyond: int) -> None:
    """A dimension of 0 or less, and one above the largest, is refused at opening."""
    dimension = beyond if beyond <= 0 else world.claims.max_dimension + beyond

    async def open_it() -> None:
        async with world.open(dimension=dimension):
            pass

    async with world.open() as kit:
        await kit.refused("EPI-016", f"dimension {dimension}", open_it)


@clause("EPI-017")
@needs("persistent")
async def test_another_model_is_refused(world: World) -> None:
    """Opening what holds vectors of one model as another, or of another dimension, names both; all stays."""
    async with world.open(model="model-a") as kit:
        await kit.episodes.remember(episode("x", X))
        for model, dimension in (("model-b", DIMENSION), ("model-a", DIMENSION + 1)):
            found = None
            try:
                async with world.open(namespace=kit.ctx.namespace, model=model, dimension=dimension):
                    pass
            except Exception as error:
                found = str(error)
            named = found is not None and "model-a" in found and str(dimension) in found and model in found
            expect_that("EPI-017", f"opening as {model}", named, expected="an error naming both", got=found)
        expect("EPI-017", "recall after the refusals", await recalled(kit, X), ["x"])
