"""What every backend accepts and refuses, in one place.

Each function takes the name of the calling operation, checks one argument, and returns it in the form in
which stores work with it. What it does not accept raises `InvalidArgument`, before anything is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from memcore.errors import InvalidArgument
from memcore.types import ChatTurn, Episode

MAX_ID_LENGTH = 512
"""Longest id of a session, user, turn or episode, and longest tool name, in code points."""
MAX_TEXT_BYTES = 1024 * 1024
"""Longest content of a turn and summary of an episode, in bytes of UTF-8."""
MAX_KEY_LENGTH = 50
"""Preference keys are cut to this many code points."""
MAX_VALUE_LENGTH = 500
"""Preference values are cut to this many code points."""
MAX_DIMENSION = 4000
"""Most components of an embedding: what an index over half-precision vectors can hold."""
MIN_TTL_SECONDS = 0.001
"""Shortest time to live: a millisecond is what servers count in."""
MAX_TTL_SECONDS = 100 * 366 * 86_400
"""Longest time to live: a hundred years."""

ROLES = ("user", "assistant", "system")


def identifier(operation: str, argument: str, value: object) -> str:
    """An id: 1 to 512 code points, not blank, without NUL and lone surrogates."""
    text = _text(operation, argument, value, nul=False)
    if not text.strip():
        raise InvalidArgument(operation, argument, value, "is blank; give 1 to 512 code points")
    if len(text) > MAX_ID_LENGTH:
        reason = f"has {len(text)} code points; at most {MAX_ID_LENGTH} are allowed"
        raise InvalidArgument(operation, argument, value, reason)
    return text


def content(operation: str, argument: str, value: object) -> str:
    """The text of a turn or summary: up to 1 MiB of UTF-8, without lone surrogates."""
    text = _text(operation, argument, value)
    # Four bytes are the most that a code point takes: only longer texts need counting.
    if len(text) * 4 > MAX_TEXT_BYTES and len(text.encode()) > MAX_TEXT_BYTES:
        reason = f"has {len(text.encode())} bytes of UTF-8; at most {MAX_TEXT_BYTES} are stored"
        raise InvalidArgument(operation, argument, value, reason)
    return text


def turns(operation: str, values: Sequence[object]) -> tuple[ChatTurn, ...]:
    """A batch of turns that a caller may append: at least one message, ids without contradiction."""
    if not values:
        raise InvalidArgument(operation, "turns", values, "is empty; give at least one turn")
    checked = tuple(_turn(operation, value) for value in values)
    known: dict[str, ChatTurn] = {}
    for turn in checked:
        if known.setdefault(turn.turn_id, turn) != turn:
            reason = "stands twice in one call with different content"
            raise InvalidArgument(operation, "turn_id", turn.turn_id, reason)
    return tuple(known.values())


def limit(operation: str, value: object) -> int | None:
    """How many messages of a window are wanted: `None` for all, else an int of at least 0."""
    if value is None:
        return None
    return whole_number(operation, "limit", value, at_least=0)


def k(operation: str, value: object) -> int:
    """How many episodes are wanted: an int of at least 1."""
    return whole_number(operation, "k", value, at_least=1)


def min_score(operation: str, value: object) -> float | None:
    """The least score that counts: `None`, or a finite number."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise InvalidArgument(operation, "min_score", value, "is not a finite number or None")
    return float(value)


def preference_key(operation: str, value: object) -> str:
    """A preference key as it is stored: stripped, cut to 50 code points, stripped; may be empty."""
    return _trimmed(operation, "key", value, MAX_KEY_LENGTH)


def preference_value(operation: str, value: object) -> str:
    """A preference value as it is stored: stripped, cut to 500 code points, stripped; may be empty."""
    return _trimmed(operation, "value", value, MAX_VALUE_LENGTH)


def unit_vector(operation: str, value: object, dimension: int) -> npt.NDArray[np.float64]:
    """An embedding of the store's dimension, copied and scaled to length 1; shape `(dimension,)`."""
    vector = _vector(operation, value)
    if vector.shape != (dimension,):
        reason = f"has shape {vector.shape}; this store holds vectors of dimension {dimension}"
        raise InvalidArgument(operation, "embedding", value, reason)
    largest = np.abs(vector).max()
    if not np.isfinite(largest):
        raise InvalidArgument(operation, "embedding", value, "has a component that is NaN or infinite")
    if largest == 0:
        raise InvalidArgument(operation, "embedding", value, "is zero; it has no direction")
    # Scaled by its largest component first, so that the squares neither overflow nor vanish.
    scaled = vector / largest
    return np.asarray(scaled / np.linalg.norm(scaled))


def episode(operation: str, value: object) -> Episode:
    """An episode whose texts can be stored, its time in UTC; its vector is checked by `unit_vector`."""
    if not isinstance(value, Episode):
        raise InvalidArgument(operation, "episode", value, "is not an Episode")
    for argument in ("user_id", "session_id", "episode_id"):
        identifier(operation, argument, getattr(value, argument))
    content(operation, "summary", value.summary)
    if value.created_at is None:
        return value
    return replace(value, created_at=_utc(operation, "created_at", value.created_at))


def dimension(operation: str, value: object) -> int:
    """The dimension of a store: an int from 1 to 4,000."""
    number = whole_number(operation, "dimension", value, at_least=1)
    if number > MAX_DIMENSION:
        raise InvalidArgument(operation, "dimension", value, f"is above {MAX_DIMENSION}")
    return number


def whole_number(operation: str, argument: str, value: object, *, at_least: int) -> int:
    """An int of at least so much, and not a bool."""
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise InvalidArgument(operation, argument, value, f"is not an int of at least {at_least}")
    return value


def ttl(operation: str, value: object) -> float:
    """A time to live in seconds: at least a millisecond, at most a hundred years."""
    number = seconds(operation, "ttl_seconds", value)
    if not MIN_TTL_SECONDS <= number <= MAX_TTL_SECONDS:
        reason = f"is not within {MIN_TTL_SECONDS} and {MAX_TTL_SECONDS:,} seconds"
        raise InvalidArgument(operation, "ttl_seconds", value, reason)
    return number


def seconds(operation: str, argument: str, value: object) -> float:
    """A duration: a finite number of seconds above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise InvalidArgument(operation, argument, value, "is not a number of seconds above 0")
    return float(value)


def _turn(operation: str, value: object) -> ChatTurn:
    if not isinstance(value, ChatTurn):
        raise InvalidArgument(operation, "turn", value, "is not a ChatTurn")
    if value.kind != "message":
        raise InvalidArgument(operation, "kind", value.kind, "is reserved to the store; append messages only")
    role: object = value.role
    if not isinstance(role, str) or role not in ROLES:
        raise InvalidArgument(operation, "role", value.role, f"is not one of {', '.join(ROLES)}")
    content(operation, "content", value.content)
    if value.tool_name is not None:
        content(operation, "tool_name", value.tool_name)
        if len(value.tool_name) > MAX_ID_LENGTH:
            reason = f"has more than {MAX_ID_LENGTH} code points"
            raise InvalidArgument(operation, "tool_name", value.tool_name, reason)
    identifier(operation, "turn_id", value.turn_id)
    return value


def _text(operation: str, argument: str, value: object, *, nul: bool = True) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(operation, argument, value, f"is not text but {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(operation, argument, value, "has a lone surrogate, which is no text") from error
    if not nul and "\0" in value:
        raise InvalidArgument(operation, argument, value, "has a NUL character")
    return value


def _trimmed(operation: str, argument: str, value: object, longest: int) -> str:
    text = _text(operation, argument, value, nul=False)
    # Cutting can lay bare a space at the new end, so once more: the result is a fixed point.
    return text.strip()[:longest].strip()


def _vector(operation: str, value: object) -> npt.NDArray[np.float64]:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(operation, "embedding", value, f"is not a vector: {error}") from error
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "fiu":
        raise InvalidArgument(operation, "embedding", value, "is not a vector of real numbers")
    return array.astype(np.float64)


def _utc(operation: str, argument: str, value: object) -> datetime:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise InvalidArgument(operation, argument, value, "is not a datetime with a time zone")
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise InvalidArgument(operation, argument, value, "is outside the calendar in UTC") from error
