"""How a session lies in Redis: names of keys, and turns as elements of a list.

The braces make all keys of a session fall into one slot of a cluster, and keep every session apart from the
index, whatever its id: `{`, `}` and `%` in ids are percent-encoded. `scripts/common.lua` has the other half.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from memcore.errors import StoreCorrupt, shown
from memcore.types import ChatTurn, Kind

_ESCAPES = str.maketrans({"{": "%7B", "}": "%7D", "%": "%25"})
_KINDS: dict[bytes, Kind] = {b"m": "message", b"s": "summary"}


@dataclass(frozen=True, slots=True)
class Keys:
    """Names of keys under a prefix, such as `agent:sess:`."""

    prefix: str

    @property
    def index(self) -> str:
        """Sorted set of session ids by the time of their last append, in µs."""
        return f"{self.prefix}index"

    def turns(self, session_id: str) -> str:
        """List of the elements of a session."""
        return f"{self.prefix}{{{session_id.translate(_ESCAPES)}}}"

    def seen(self, session_id: str) -> str:
        """Hash of the newest turn ids of a session, with their fingerprints."""
        return f"{self.turns(session_id)}:seen"

    def lease(self, session_id: str) -> str:
        """Says which attempt is compressing a session."""
        return f"{self.turns(session_id)}:lease"

    def of(self, session_id: str) -> tuple[str, str, str]:
        """All keys of a session: turns, seen, lease."""
        return self.turns(session_id), self.seen(session_id), self.lease(session_id)


def encode(turn: ChatTurn) -> bytes:
    """A turn as the JSON part of an element; its kind stands in the header."""
    fields = [turn.role, turn.content, turn.tool_name, turn.turn_id]
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def fingerprint(encoded: bytes) -> str:
    """16 hexadecimal digits that tell whether two turns of one id are the same turn."""
    return hashlib.blake2b(encoded, digest_size=8).hexdigest()


def header(element: bytes) -> bytes:
    """The header line of an element, without its end."""
    return element.partition(b"\n")[0]


def decode(operation: str, session_id: str, element: bytes) -> ChatTurn:
    """The turn in an element of a list.

    Raises:
        StoreCorrupt: The element is not laid out as version 1.
    """
    try:
        head, _, body = element.partition(b"\n")
        role, content, tool_name, turn_id = json.loads(body)
        return ChatTurn(role, content, tool_name, turn_id=turn_id, kind=_KINDS[head.split(b" ")[3]])
    except (ValueError, LookupError, TypeError) as error:
        raise corrupt(operation, session_id, "an element that cannot be read") from error


def corrupt(operation: str, session_id: str | None, what: str) -> StoreCorrupt:
    """The error for what this version cannot have written; `None` where it concerns no single session."""
    if session_id is None:
        remedy = "a key under this prefix belongs to something else; give the store another prefix"
        return StoreCorrupt(f"{operation}: not laid out as version 1 stores it ({what}); {remedy}")
    which = f"session {shown(session_id)}"
    return StoreCorrupt(
        f"{operation}: {which} is not laid out as version 1 stores it ({what}); clear it to begin anew"
    )
