"""What surrounds the stores: lifetimes and namespaces."""

from __future__ import annotations

import asyncio

import pytest

from conformance.clauses import clause
from conformance.clauses.turns import numbered, user
from conformance.expect import expect
from conformance.world import Kit, World
from memcore import CountPolicy, Episode

pytestmark = pytest.mark.asyncio

VECTOR = (1.0,) + (0.0,) * 7


async def _use(kit: Kit, mark: str) -> None:
    """One write to each store that there is."""
    if kit.stores.sessions is not None:
        await kit.append("s", user(mark))
    if kit.stores.preferences is not None:
        await kit.preferences.set("u", "k", mark)
    if kit.stores.episodes is not None:
        await kit.episodes.remember(Episode("u", "s", mark, VECTOR))


async def _seen(kit: Kit) -> list[object]:
    """What reads find of `_use`."""
    seen: list[object] = []
    if kit.stores.sessions is not None:
        seen += [await kit.contents("s"), [row.session_id for row in await kit.sessions.list_sessions()]]
    if kit.stores.preferences is not None:
        seen += [await kit.preferences.get("u", "k")]
    if kit.stores.episodes is not None:
        seen += [[item.summary for item in await kit.episodes.recall("u", VECTOR)]]
    return seen


@clause("INF-001")
async def test_nothing_is_left_running(world: World) -> None:
    """After use and closing, compressions and a summarizer given up included, the loop has no new task."""
    before = asyncio.all_tasks()
    async with world.open(policy=CountPolicy(4, 2), summarizer_timeout=0.05) as kit:
        await _use(kit, "x")
        if kit.stores.sessions is not None:
            kit.ledger.behave += ["works", "hangs"]
            await asyncio.gather(*(kit.append(f"s{n % 3}", turn) for n, turn in enumerate(numbered(30))))
    left = [task.get_name() for task in asyncio.all_tasks() - before]
    expect("INF-001", "tasks after closing", left, [])


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
        renamed = [str(item).replace("of b", "of a") for item in of_b]
        expect("INF-002", "the first namespace", [str(item) for item in of_a], renamed)
        expect("INF-002", "whether the two differ", of_a != of_b, True)
