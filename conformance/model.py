"""Plain models: what each store would answer if it were a list, a dictionary, a linear search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from conformance.provenance import Ledger
from memcore import ChatTurn, Episode

View: TypeAlias = list[tuple[object, ...]]
"""A history in a form that can be compared: messages by content, a summary by what it covers."""


def view(history: Sequence[ChatTurn], ledger: Ledger) -> View:
    """What a store answered, in the form of a model."""
    return [
        ("summary", *ledger.covers(turn))
        if turn.kind == "summary"
        else ("message", turn.role, turn.content, turn.tool_name)
        for turn in history
    ]


@dataclass(slots=True)
class SessionModel:
    """One session under the count policy, sequentially.

    Args:
        compress_after, keep_recent: The policy.
    """

    compress_after: int
    keep_recent: int
    messages: list[ChatTurn] = field(default_factory=list)
    covered: tuple[str, ...] | None = None
    dropped: list[str] = field(default_factory=list)
    known: dict[str, ChatTurn] = field(default_factory=dict)

    def append(self, turns: Sequence[ChatTurn], *, summarizer_works: bool) -> None:
        """Store what is new; compress if that made the history too long."""
        for turn in turns:
            if turn.turn_id not in self.known:
                self.known[turn.turn_id] = turn
                self.messages.append(turn)
        if self.will_compress(0):
            self._compress(summarizer_works)

    def will_compress(self, new: int) -> bool:
        """Whether `new` more messages make it too long."""
        return len(self) + new > self.compress_after

    def view(self, limit: int | None = None) -> View:
        """The summary and the last `limit` messages."""
        first = len(self.messages) - limit if limit is not None else 0
        shown = [
            ("message", turn.role, turn.content, turn.tool_name) for turn in self.messages[max(first, 0) :]
        ]
        return [*([("summary", *self.covered)] if self.covered is not None else []), *shown]

    def __len__(self) -> int:
        return len(self.messages) + (self.covered is not None)

    def _compress(self, summarizer_works: bool) -> None:
        leaving, self.messages = self.messages[: -self.keep_recent], self.messages[-self.keep_recent :]
        if summarizer_works:
            self.covered = (*(self.covered or ()), *(turn.content for turn in leaving))
        else:
            self.dropped += [turn.turn_id for turn in leaving]


def trimmed(text: str, longest: int) -> str:
    """A preference key or value as the contract wants it."""
    return text.strip()[:longest].strip()


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """Cosine similarity in double precision, by the definition."""
    dot = math.fsum(x * y for x, y in zip(a, b, strict=True))
    return max(-1.0, min(1.0, dot / (math.hypot(*a) * math.hypot(*b))))


@dataclass(slots=True)
class EpisodeModel:
    """The episodes of all users, searched one by one."""

    users: dict[str, dict[str, Episode]] = field(default_factory=dict)

    def remember(self, episode: Episode) -> None:
        """Keep the first episode of this user and id."""
        self.users.setdefault(episode.user_id, {}).setdefault(episode.episode_id, episode)

    def scores(self, user_id: str, query: Sequence[float]) -> dict[str, float]:
        """Exact score of each episode of a user, in order of arrival."""
        episodes = self.users.get(user_id, {})
        return {name: cosine(list(episode.embedding), query) for name, episode in episodes.items()}

    def forget(self, user_id: str) -> int:
        """How many there were."""
        return len(self.users.pop(user_id, {}))
