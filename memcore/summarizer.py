"""Asking a summarizer for a summary, whatever it does: it may raise, hang, or return what is none."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from memcore import guards
from memcore.errors import InvalidArgument
from memcore.types import ChatTurn

# Letters by category that show as nothing: Hangul fillers and the empty Braille pattern.
_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")


class Summarizer(Protocol):
    """Writes a summary, usually with a language model.

    It gets an earlier summary (`kind == "summary"`) first, if there is one, then the messages that leave,
    oldest first. What it returns should have at most `max_chars` characters; it is stored as it comes. Input
    longer than the model takes is the summarizer's to split.
    """

    async def __call__(self, turns: Sequence[ChatTurn], /, *, max_chars: int) -> str: ...


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no summary."""

    reason: str


class PatientCaller:
    """Calls a summarizer for at most so long.

    Each call is a task of its own: a summarizer that ignores its cancellation holds nobody up, and one that
    raises a cancellation of its own is not mistaken for a caller that was cancelled.

    Args:
        summarizer: Writes the summaries.
        timeout: Seconds that a call may take.
    """

    def __init__(self, summarizer: Summarizer, *, timeout: float) -> None:
        self._summarizer = summarizer
        self._timeout = timeout
        self._given_up: set[asyncio.Task[object]] = set()

    async def ask(self, turns: Sequence[ChatTurn], *, max_chars: int) -> str | Failure:
        """A summary that can be stored and seen, or why there is none."""

        async def call() -> object:
            return await self._summarizer(tuple(turns), max_chars=max_chars)

        task = asyncio.create_task(call())
        # Looked at in any case, so that asyncio does not report an error as lost.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            await asyncio.wait([task], timeout=self._timeout)
        finally:
            if not task.done():
                self._give_up(task)
        if not task.done():
            return Failure(f"summarizer took longer than {self._timeout:g} s")
        if task.cancelled():
            return Failure("summarizer was cancelled")
        error = task.exception()
        if error is not None:
            return Failure(f"summarizer raised {type(error).__name__}: {error}")
        return _usable(task.result())

    async def aclose(self) -> None:
        """Wait a moment for summarizers that were told to stop."""
        if self._given_up:
            await asyncio.wait(self._given_up, timeout=1.0)

    def _give_up(self, task: asyncio.Task[object]) -> None:
        self._given_up.add(task)
        task.add_done_callback(self._given_up.discard)
        task.cancel()


def _usable(text: object) -> str | Failure:
    if not isinstance(text, str):
        return Failure(f"summarizer returned {type(text).__name__}, not text")
    try:
        guards.content("summarize", "summary", text)
    except InvalidArgument as error:
        return Failure(str(error))
    if not any(_visible(character) for character in text):
        return Failure("summarizer returned nothing visible")
    return text


def _visible(character: str) -> bool:
    return unicodedata.category(character)[0] in "LNPS" and character not in _BLANK_LETTERS
