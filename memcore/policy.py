"""When a history is compressed, and what of it stays: by number of turns, or by tokens.

A policy is a pure value: it looks at a history and draws a `Plan`. Who writes the summary and where it is
kept is none of its business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from memcore import guards
from memcore.errors import InvalidArgument
from memcore.tokens import MESSAGE_OVERHEAD_TOKENS, TokenCounter, estimate_tokens
from memcore.types import ChatTurn

COMPRESS_AFTER = 40
"""A history of up to this many turns, a summary included, is left alone."""
KEEP_RECENT = 20
"""This many of the newest turns stay verbatim."""
HIGH_WATERMARK = 0.75
"""Compression starts above this share of the context window."""
LOW_WATERMARK = 0.50
"""After compression the history takes at most this share of the context window."""
SUMMARY_MAX_CHARS = 150
"""Length that is asked of a summarizer, in characters; not enforced by cutting."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large a history is: elements, and tokens with the overhead of each message."""

    turns: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Which part of a history leaves it.

    Args:
        cut: The first `cut` elements are folded into a summary; the rest stays verbatim.
        budget: Most tokens the new summary turn may take; `None` if it is free.
        irreducible: What stays is over the budget even so.
        fallback_cut: Without a usable summary the messages among the first `fallback_cut` elements are
            dropped, and an earlier summary stays.
        fallback_irreducible: What stays then is over the budget even so.
    """

    cut: int
    budget: int | None
    irreducible: bool
    fallback_cut: int
    fallback_irreducible: bool


class Policy(Protocol):
    """When to compress and what to keep."""

    def weigh(self, turn: ChatTurn) -> int:
        """Tokens that a turn takes in a prompt, its overhead included."""

    def due(self, size: Size) -> bool:
        """Whether a history of this size has to be compressed. Cheap: asked at every append."""

    def plan(self, history: Sequence[ChatTurn]) -> Plan | None:
        """What has to leave this history; `None` if nothing has to, or nothing can."""

    def irreducible(self, history: Sequence[ChatTurn]) -> bool:
        """Whether a history for which there is no plan is over the budget all the same."""


@dataclass(frozen=True, slots=True)
class CountPolicy:
    """Compress a history that is longer than `compress_after` turns down to a summary and `keep_recent`.

    Args:
        compress_after: Longest history that is left alone, a summary included; above `keep_recent`.
        keep_recent: Newest turns that stay verbatim; at least 1.
        count_tokens: Counts the tokens of a text, for a store that notes them beside each turn.
    """

    compress_after: int = COMPRESS_AFTER
    keep_recent: int = KEEP_RECENT
    count_tokens: TokenCounter = estimate_tokens

    def __post_init__(self) -> None:
        guards.whole_number("CountPolicy", "keep_recent", self.keep_recent, at_least=1)
        guards.whole_number(
            "CountPolicy", "compress_after", self.compress_after, at_least=self.keep_recent + 1
        )

    def weigh(self, turn: ChatTurn) -> int:
        return _weight(turn, self.count_tokens)

    def due(self, size: Size) -> bool:
        return size.turns > self.compress_after

    def plan(self, history: Sequence[ChatTurn]) -> Plan | None:
        if len(history) <= self.compress_after:
            return None
        cut = len(history) - self.keep_recent
        return Plan(cut, None, irreducible=False, fallback_cut=cut, fallback_irreducible=False)

    def irreducible(self, history: Sequence[ChatTurn]) -> bool:  # noqa: ARG002 (a count can always be met)
        return False


@dataclass(frozen=True, slots=True)
class TokenWatermarkPolicy:
    """Compress a history that takes more than `high` of the context window down to at most `low` of it.

    Args:
        context_tokens: Size of the model's context window, in tokens.
        high: Share of the window above which compression starts; exactly this much does not start it.
        low: Share of the window that the history takes at most afterwards.
        count_tokens: Counts the tokens of a text; an estimate unless an exact counter is given.
        summary_max_chars: Length that will be asked of the summarizer; room is kept for so much.
    """

    context_tokens: int
    high: float = HIGH_WATERMARK
    low: float = LOW_WATERMARK
    count_tokens: TokenCounter = estimate_tokens
    summary_max_chars: int = SUMMARY_MAX_CHARS

    def __post_init__(self) -> None:
        guards.whole_number("TokenWatermarkPolicy", "context_tokens", self.context_tokens, at_least=1)
        if not 0 < self.low < self.high <= 1:
            shares = (self.low, self.high)
            raise InvalidArgument(
                "TokenWatermarkPolicy", "low, high", shares, "are not shares with 0 < low < high <= 1"
            )

    def weigh(self, turn: ChatTurn) -> int:
        return _weight(turn, self.count_tokens)

    def due(self, size: Size) -> bool:
        return size.tokens > self.context_tokens * self.high

    def plan(self, history: Sequence[ChatTurn]) -> Plan | None:
        weights = [self.weigh(turn) for turn in history]
        first_message = _first_message(history)
        # The newest turn always stays, so with one message there is nothing that could leave.
        if not self.due(Size(len(history), sum(weights))) or len(history) - first_message < 2:
            return None
        reserve = self._reserve()
        earlier = sum(weights[:first_message])
        cut = self._cut(weights, first_message, reserve)
        fallback = self._cut(weights, first_message, earlier)
        room = self._target - sum(weights[cut:])
        return Plan(
            cut=cut,
            budget=room if room >= 0 else reserve,
            irreducible=room < 0,
            fallback_cut=fallback,
            fallback_irreducible=earlier + sum(weights[fallback:]) > self._target,
        )

    def irreducible(self, history: Sequence[ChatTurn]) -> bool:
        return self.due(Size(len(history), sum(self.weigh(turn) for turn in history)))

    @property
    def _target(self) -> int:
        return int(self.context_tokens * self.low)

    def _reserve(self) -> int:
        """Tokens kept free for the summary: what the asked length takes in Chinese, the densest script.

        At most a quarter of the target, so that in a small window turns are not thrown out for it.
        """
        full = ChatTurn("system", "摘" * self.summary_max_chars, kind="summary")
        return min(self.weigh(full), self._target // 4)

    def _cut(self, weights: Sequence[int], first_message: int, head: int) -> int:
        """Where the longest suffix begins that fits beside `head` tokens; something always leaves."""
        used = head + weights[-1]
        cut = len(weights) - 1
        while cut > first_message + 1 and used + weights[cut - 1] <= self._target:
            cut -= 1
            used += weights[cut]
        return cut


def _first_message(history: Sequence[ChatTurn]) -> int:
    return 1 if history and history[0].kind == "summary" else 0


def _weight(turn: ChatTurn, count_tokens: TokenCounter) -> int:
    tool = count_tokens(turn.tool_name) if turn.tool_name else 0
    return MESSAGE_OVERHEAD_TOKENS + count_tokens(turn.content) + tool
