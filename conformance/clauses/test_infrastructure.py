"""What surrounds the stores: lifetimes and namespaces."""

from __future__ import annotations

import asyncio

import pytest

from conformance.clauses import basic, clause
from conformance.clauses.turns import numbered, user
from conformance.expect import expect, expect_that
from conformance.world import Kit, World
from memcore import CountPolicy, Episode

pytestmark = pytest.mark.asyncio

VECTOR = (1.0,) + (0.0,) * 7


async def _use(kit: Kit, mark: str) -> None:
    """One write to each store that there is."""
    if "sessions" in kit.claims.layers:
        await kit.append("s", user(mark))
    if "preferences" in kit.claims.layers:
        await kit.preferences.set("u", "k", mark)
    if "episodes" in kit.claims.layers:
        await kit.episodes.remember(Episode("u", "s", mark, VECTOR))


async def _seen(kit: Kit) -> list[object]:
    """What reads find of `_use`."""
    seen: list[object] = []
    if "sessions" in kit.claims.layers:
        seen += [await kit.contents("s"), [row.session_id for row in await kit.sessions.list_sessions()]]
    if "preferences" in kit.claims.layers:
        seen += [await kit.preferences.get("u", "k")]
    if "episodes" in kit.claims.layers:
        seen += [[item.summary for item in await kit.episodes.recall("u", VECTOR)]]
    return seen


async def _remove(kit: Kit) -> None:
    """All that `_use` wrote."""
    if "sessions" in kit.claims.layers:
        await kit.sessions.clear("s")
    if "preferences" in kit.claims.layers:
        await kit.preferences.forget("u")
    if "episodes" in kit.claims.layers:
        await kit.episodes.forget("u")


@clause("INF-001")
async def test_nothing_is_left_running(world: World) -> None:
    """After use and closing, compressions and a summarizer given up included, the loop has no new task."""
    before = asyncio.all_tasks()
    async with world.open(policy=CountPolicy(4, 2), summarizer_timeout=0.05) as kit:
        await _use(kit, "x")
        if "sessions" in kit.claims.layers:
            kit.ledger.behave += ["works", "hangs"]
            for n, turn in enumerate(numbered(30)):
                await kit.append(f"s{n % 3}", turn)
    # A task that was told to stop needs some turns of the loop to do so.
    for _ in range(20):
        await asyncio.sleep(0)
    left = [task.get_name() for task in asyncio.all_tasks() - before]
    expect("INF-001", "tasks after closing", left, [])


@basic
@clause("INF-002")
async def test_namespaces_are_apart(world: World) -> None:
    """A store that was just opened is empty, beside one in use, and neither sees the other."""
    async with world.open() as a:
        empty = await _seen(a)
        await _use(a, "of a")
        async with world.open() as b:
            expect("INF-002", "a new namespace", await _seen(b), empty)
            await _use(b, "of b")
            of_a, of_b = await _seen(a), await _seen(b)
            await _remove(b)
            expect("INF-002", "a namespace that was emptied", await _seen(b), empty)
        renamed = [str(item).replace("of b", "of a") for item in of_b]
        expect("INF-002", "the first namespace", [str(item) for item in of_a], renamed)
        expect("INF-002", "whether the two differ", of_a != of_b, True)
        expect("INF-002", "the first after the second was emptied", await _seen(a), of_a)


@clause("INF-008")
async def test_what_is_not_claimed_is_not_there(world: World) -> None:
    """Unclaimed compression leaves 100 turns verbatim; unclaimed expiry and storage have no hooks."""
    async with world.open() as kit:
        for hook, claimed in (("ttl", kit.claims.makes("ttl")), ("residue", kit.claims.residue)):
            given = getattr(kit.stores, hook) is not None
            fine = claimed or not given
            expect_that("INF-008", f"hook {hook}", fine, expected="none, as nothing is claimed", got="one")
        if "sessions" in kit.claims.layers and not kit.claims.compresses:
            turns = numbered(100)
            for turn in turns:
                await kit.append("s", turn)
            expect("INF-008", "history of 100 turns", await kit.sessions.get_history("s"), turns)
