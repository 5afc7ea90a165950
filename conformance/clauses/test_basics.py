"""The least that can be asked of each layer; everything else rests on it."""

from __future__ import annotations

import pytest

from conformance.clauses import basic, clause
from conformance.expect import expect
from conformance.world import World
from memcore import ChatTurn, Episode

pytestmark = [pytest.mark.asyncio, basic]


@clause("SES-001")
async def test_one_turn_comes_back(world: World) -> None:
    """A new session is empty; a turn that was appended is its history."""
    async with world.open() as kit:
        expect("SES-001", "history before", await kit.sessions.get_history("s"), [])
        turn = ChatTurn("user", "hello")
        await kit.append("s", turn)
        expect("SES-001", "history after", await kit.sessions.get_history("s"), [turn])


@clause("PRE-001")
async def test_one_preference_comes_back(world: World) -> None:
    """A new user has none; what was set is there."""
    async with world.open() as kit:
        expect("PRE-001", "all before", await kit.preferences.all("u"), {})
        await kit.preferences.set("u", "language", "English")
        expect("PRE-001", "get after", await kit.preferences.get("u", "language"), "English")


@clause("EPI-001")
async def test_one_episode_comes_back(world: World) -> None:
    """A new user recalls nothing; what was remembered is recalled."""
    vector = (1.0,) + (0.0,) * 7
    async with world.open() as kit:
        expect("EPI-001", "recall before", await kit.episodes.recall("u", vector), [])
        await kit.episodes.remember(Episode("u", "s", "it rained", vector))
        found = [item.summary for item in await kit.episodes.recall("u", vector)]
        expect("EPI-001", "recall after", found, ["it rained"])
