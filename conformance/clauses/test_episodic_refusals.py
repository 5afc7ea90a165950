"""Episodes: what is refused, and that nothing of it is stored."""

from __future__ import annotations

import math
from datetime import datetime

import pytest

from conformance.clauses import clause
from conformance.clauses.test_episodic import DIMENSION, X, episode, recalled
from conformance.expect import expect
from conformance.hostile import LONE_SURROGATES, NOT_TEXT, NUL_TEXTS, bad_ids
from conformance.world import World
from memcore import Episode

pytestmark = pytest.mark.asyncio


@clause("EPI-004")
@pytest.mark.parametrize("k", [0, -1, True, False, 1.0, "3", None, float("nan")], ids=repr)
async def test_a_bad_k_is_refused(world: World, k: object) -> None:
    """Zero, negative numbers, bools and what is not an int are refused."""
    async with world.open() as kit:
        await kit.episodes.remember(episode("x", X))
        await kit.refused("EPI-004", f"k {k!r}", kit.episodes.recall, "u", X, k)


@clause("EPI-007")
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), True, "0.5", [0.5]], ids=repr)
async def test_a_bad_min_score_is_refused(world: World, bad: object) -> None:
    """What is not a finite number is refused."""
    async with world.open() as kit:
        await kit.episodes.remember(episode("x", X))
        await kit.refused("EPI-007", f"min_score {bad!r}", kit.episodes.recall, "u", X, 3, bad)


_BAD_VECTORS: list[object] = [
    (),
    (0.0,) * DIMENSION,
    (math.nan, *X[1:]),
    (math.inf, *X[1:]),
    (-math.inf, *X[1:]),
    X[:-1],
    (*X, 0.0),
    (1.0,),
    [list(X)],
    ["1.0"] * DIMENSION,
    [True] * DIMENSION,
    [1j] * DIMENSION,
    [None] * DIMENSION,
    "[1,0,0,0,0,0,0,0]",
    None,
    1.0,
]


@clause("EPI-009")
@pytest.mark.parametrize("bad", _BAD_VECTORS, ids=lambda bad: repr(bad)[:40])
async def test_a_bad_vector_is_refused(world: World, bad: object) -> None:
    """It is refused at write and at query, and nothing is stored."""
    async with world.open() as kit:
        sent = Episode("u", "s", "bad", bad, episode_id="e")  # type: ignore[arg-type]  # the point
        await kit.refused("EPI-009", f"remember of {bad!r:.60}", kit.episodes.remember, sent)
        await kit.refused("EPI-009", f"recall by {bad!r:.60}", kit.episodes.recall, "u", bad)
        expect("EPI-009", "recall after the refusal", await recalled(kit, X), [])
        await kit.episodes.remember(episode("good", X, episode_id="e"))
        expect("EPI-009", "recall of the id that was refused", await recalled(kit, X), ["good"])


@clause("EPI-012")
async def test_bad_ids_are_refused(world: World) -> None:
    """An id that is none is refused as user, session and episode, and by recall and forget."""
    async with world.open() as kit:
        store = kit.episodes
        for name in bad_ids(world.claims):
            what, bad = f"id {name!a:.80}", str(name) if isinstance(name, str) else name
            for fields in ((bad, "s", "e"), ("u", bad, "e"), ("u", "s", bad)):
                sent = Episode(fields[0], fields[1], "x", X, episode_id=fields[2])  # type: ignore[arg-type]
                await kit.refused("EPI-012", f"remember, {what}", store.remember, sent)
            await kit.refused("EPI-012", f"recall, {what}", store.recall, name, X)
            await kit.refused("EPI-012", f"forget, {what}", store.forget, name)
        expect("EPI-012", "recall after the refusals", await recalled(kit, X), [])


@clause("EPI-012")
async def test_bad_texts_and_times_are_refused(world: World) -> None:
    """No text, half a character, one byte above the limit and a time without a zone are refused."""
    async with world.open() as kit:
        for bad in (*LONE_SURROGATES, *NOT_TEXT, "x" * (world.claims.max_text_bytes + 1)):
            sent = Episode("u", "s", bad, X)  # type: ignore[arg-type]  # the point of this check
            await kit.refused("EPI-012", f"summary {bad!a:.60}", kit.episodes.remember, sent)
        for time in (datetime(2024, 1, 1), "2024-01-01", 1.7e9):
            sent = episode("x", X, created_at=time)
            await kit.refused("EPI-012", f"created_at {time!r}", kit.episodes.remember, sent)
        await kit.refused("EPI-012", "what is no episode", kit.episodes.remember, "episode")
        expect("EPI-012", "recall after the refusals", await recalled(kit, X), [])


@clause("EPI-012")
@pytest.mark.parametrize("text", NUL_TEXTS, ids=ascii)
async def test_nul_comes_back_or_is_refused(world: World, text: str) -> None:
    """A NUL in a summary comes back exactly, or is refused where the backend claims so."""
    async with world.open() as kit:
        if world.claims.nul or "\0" not in text:
            await kit.episodes.remember(episode(text, X))
            expect("EPI-012", "recall", await recalled(kit, X), [text])
        else:
            await kit.refused("EPI-012", "summary with NUL", kit.episodes.remember, episode(text, X))
            expect("EPI-012", "recall after the refusal", await recalled(kit, X), [])
