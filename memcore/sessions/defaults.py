"""What session stores share: their default limits, and the shape of a window."""

from __future__ import annotations

from collections.abc import Sequence

from memcore.types import ChatTurn

SESSION_TTL_SECONDS = 86_400
"""A session lives for this long after its last append."""
RETRY_WINDOW = 1024
"""A turn sent again is recognized while fewer than this many later turns came to its session."""


def shape_window(history: Sequence[ChatTurn], limit: int | None) -> list[ChatTurn]:
    """The summary, if there is one, then the last `limit` messages, as a new list.

    Args:
        history: A whole history, or a summary and enough of the last messages.
        limit: At least 0, or `None` for all.
    """
    if limit is None:
        return list(history)
    first = 1 if history and history[0].kind == "summary" else 0
    return [*history[:first], *history[max(first, len(history) - limit) :]]
