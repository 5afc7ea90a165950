"""Turns that are easy to tell apart, and a clock that stands still until it is told to move."""

from __future__ import annotations

from dataclasses import dataclass

from memcore import ChatTurn


def user(text: str) -> ChatTurn:
    """A message of the user."""
    return ChatTurn("user", text)


def numbered(count: int, *, start: int = 0) -> list[ChatTurn]:
    """`count` turns of user and assistant in turn, each with a mark of its own: t0, t1, …"""
    return [ChatTurn("user" if n % 2 == 0 else "assistant", f"t{n}") for n in range(start, start + count)]


def marks(start: int, stop: int) -> list[str]:
    """The contents of `numbered` turns."""
    return [f"t{n}" for n in range(start, stop)]


@dataclass(slots=True)
class Clock:
    """A clock for stores that have none of their own.

    Args:
        now: Seconds since the epoch.
    """

    now: float = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now
