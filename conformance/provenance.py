"""A summarizer whose summaries can be checked: each is a short token, and a ledger says what it stands for.

So compression is checked without a model: what a history covers is what its token covers, followed by what
is still there verbatim.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from memcore import ChatTurn

Behaviour: TypeAlias = Literal[
    "works", "raises", "cancels", "hangs", "empty", "blank", "invisible", "surrogate", "none", "bytes", "long"
]
FAILURES: tuple[Behaviour, ...] = (
    "raises",
    "cancels",
    "hangs",
    "empty",
    "blank",
    "invisible",
    "surrogate",
    "none",
    "bytes",
)
UNUSABLE: dict[Behaviour, object] = {
    "empty": "",
    "blank": " \n\t ",
    "invisible": "\u200b\u2060\ufeff\u3164",
    "surrogate": "half \ud83d",
    "none": None,
    "bytes": b"summary",
}
LONG = 5000
"""Characters that a long summary has too many."""
_SUMMARY = re.compile(r"[^§]{0,64}§(\d+)§…*")
"""A prefix and one token, with what makes it long, and nothing else."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the summarizer: what it was given, and how long its answer was to be."""

    turns: tuple[ChatTurn, ...]
    max_chars: int


class Ledger:
    """The summarizer that the kit injects. It behaves as it was told, call by call, and else it works."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.behave: deque[Behaviour] = deque()
        self._covered: list[tuple[str, ...]] = []

    async def __call__(self, turns: Sequence[ChatTurn], /, *, max_chars: int) -> str:
        self.calls.append(Call(tuple(turns), max_chars))
        behaviour = self.behave.popleft() if self.behave else "works"
        if behaviour == "raises":
            raise RuntimeError("the summarizer was told to fail")
        if behaviour == "cancels":
            raise asyncio.CancelledError
        if behaviour == "hangs":
            await asyncio.Event().wait()
        if behaviour in UNUSABLE:
            return UNUSABLE[behaviour]  # type: ignore[return-value]  # what a bad summarizer gives
        self._covered.append(self.order(turns))
        token = f"§{len(self._covered) - 1}§"
        return token + "…" * LONG if behaviour == "long" else token

    def order(self, history: Iterable[ChatTurn]) -> tuple[str, ...]:
        """Contents of all messages that a history stands for, oldest first."""
        return tuple(content for turn in history for content in self.covers(turn))

    def covers(self, turn: ChatTurn) -> tuple[str, ...]:
        """Contents that one turn stands for: its own, or those behind the token of a summary."""
        if turn.kind == "message":
            return (turn.content,)
        token = _SUMMARY.fullmatch(turn.content)
        # A summary that is not one of the ledger's stands for nothing that could be accounted for.
        return self._covered[int(token[1])] if token else (f"unknown summary {turn.content!r}",)


class Gated(Ledger):
    """A ledger that waits at a gate, so that a check decides what happens while a summary is written."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.go = asyncio.Event(), asyncio.Event()

    async def __call__(self, turns: Sequence[ChatTurn], /, *, max_chars: int) -> str:
        self.entered.set()
        await self.go.wait()
        return await super().__call__(turns, max_chars=max_chars)
