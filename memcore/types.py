"""The values that stores take and give: frozen, slotted, compared by content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias
from uuid import uuid4

import numpy as np
import numpy.typing as npt

Role: TypeAlias = Literal["user", "assistant", "system"]
Kind: TypeAlias = Literal["message", "summary"]
Embedding: TypeAlias = Sequence[float] | npt.NDArray[np.floating] | npt.NDArray[np.integer]


def new_id() -> str:
    """A fresh identifier: 32 hexadecimal digits, random."""
    return uuid4().hex


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """One turn of a conversation.

    Args:
        role: Who speaks.
        content: What was said, any text up to 1 MiB of UTF-8.
        tool_name: Set on an answer that was given after this tool ran.
        turn_id: Identifies the turn, not its text: a turn sent twice under one id is stored once. Made
            with the object unless given; two turns that say the same compare equal.
        kind: `summary` marks the summary that compression wrote. Only a store makes such turns.
    """

    role: Role
    content: str
    tool_name: str | None = None
    turn_id: str = field(default_factory=new_id, compare=False, kw_only=True)
    kind: Kind = field(default="message", kw_only=True)


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """One row of `list_sessions`.

    Args:
        session_id: The session.
        turns: Length of its history, a summary included.
        updated_at: When something was last appended, aware UTC, by the clock of the store.
    """

    session_id: str
    turns: int
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Preference:
    """The value of one key of one user, and when it was last set (aware UTC, the store's clock)."""

    value: str
    updated_at: datetime


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """A summary of something that happened, with the vector by which it is recalled.

    Args:
        user_id: Whose episode this is.
        session_id: Where it happened.
        summary: What happened, in words.
        embedding: Shape `(dimension,)`, finite, not zero; any length, the store normalizes it.
        episode_id: Remembering the same id again stores it once. Made with the object unless given.
        created_at: Aware; `None` lets the store's clock decide.
    """

    user_id: str
    session_id: str
    summary: str
    embedding: Embedding
    episode_id: str = field(default_factory=new_id, kw_only=True)
    created_at: datetime | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class RecalledEpisode:
    """An episode as `recall` gives it: without its vector, with its score.

    Args:
        score: Cosine similarity to the query, in [-1, 1]; higher is more alike.
        created_at: Aware UTC.
    """

    user_id: str
    session_id: str
    summary: str
    episode_id: str
    created_at: datetime
    score: float
