"""What goes into columns: a key for each user, vectors in half precision, and texts with NUL."""

from __future__ import annotations

import hashlib
import re
from uuid import UUID

import numpy as np
import numpy.typing as npt
import psycopg
from pgvector import HalfVector
from psycopg.adapt import Dumper
from psycopg.pq import Format

_ESCAPE = "\x1a"
"""Substitute, a control character that texts do not have: then they are stored as they are."""
_ESCAPED = {"0": "\0", "1": _ESCAPE}


class Half:
    """A vector in half precision as the server reads it.

    Args:
        vector: Shape `(dimension,)`, at most 1 in size.
    """

    def __init__(self, vector: npt.NDArray[np.float64]) -> None:
        self.binary = HalfVector(vector).to_binary()


class _HalfDumper(Dumper):
    # Without a type: the server takes it from the cast in the query, so nothing has to be looked up first.
    format = Format.BINARY

    def dump(self, obj: Half) -> bytes:
        return obj.binary


psycopg.adapters.register_dumper(Half, _HalfDumper)


def user_key(user_id: str) -> UUID:
    """16 bytes that stand for a user id of any length in indexes; `takeover.sql` has the other half."""
    return UUID(bytes=hashlib.sha256(user_id.encode()).digest()[:16])


def escaped(text: str) -> str:
    """A text without NUL, which Postgres cannot hold."""
    return text.replace(_ESCAPE, f"{_ESCAPE}1").replace("\0", f"{_ESCAPE}0")


def unescaped(text: str) -> str:
    """The text that was `escaped`."""
    if _ESCAPE not in text:
        return text
    return re.sub(f"{_ESCAPE}([01])", lambda found: _ESCAPED[found[1]], text)
