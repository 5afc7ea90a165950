"""What is done to the rows of sessions, each step within the transaction of a call."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memcore import ChatTurn, TurnConflict
from memcore.policy import Size

_FIND = "SELECT session FROM sessions WHERE session_id = ?"
_RENEW = """
INSERT INTO sessions (session_id, updated_at, expires_at) VALUES (?, ?, ?)
ON CONFLICT (session_id) DO UPDATE
SET updated_at = max(updated_at, excluded.updated_at), expires_at = excluded.expires_at
"""
_KNOWN = "SELECT fingerprint FROM known_turns WHERE session = ? AND turn_id = ?"
_KNOW = "INSERT INTO known_turns (session, turn_id, turn, fingerprint) VALUES (?, ?, ?, ?)"
_UNLEARN = """
DELETE FROM known_turns WHERE session = ? AND turn <=
    (SELECT turn FROM known_turns WHERE session = ? ORDER BY turn DESC LIMIT 1 OFFSET ?)
"""
_ADD = """
INSERT INTO turns (session, kind, tokens, turn_id, role, tool_name, content) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_READ = """
SELECT turn, role, content, tool_name, turn_id, kind FROM turns
WHERE session = ? ORDER BY kind DESC, turn
"""
_SUMMARY_AND_LAST = """
SELECT turn, role, content, tool_name, turn_id, kind FROM turns WHERE session = ? AND kind = 'summary'
UNION ALL SELECT * FROM (
    SELECT turn, role, content, tool_name, turn_id, kind FROM turns
    WHERE session = ? AND kind = 'message' ORDER BY turn DESC LIMIT ?
) ORDER BY kind DESC, turn
"""
_FIRST = "SELECT turn FROM turns WHERE session = ? ORDER BY kind DESC, turn LIMIT ?"
_SIZE = "SELECT count(*), coalesce(sum(tokens), 0) FROM turns WHERE session = ?"
_LIST = """
SELECT session_id, (SELECT count(*) FROM turns WHERE turns.session = sessions.session), updated_at
FROM sessions ORDER BY updated_at DESC, session_id
"""
_MOST = 2**63 - 1
"""The largest number that SQLite takes; no session has so many turns."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """A turn, and the tokens that it takes."""

    turn: ChatTurn
    tokens: int


def drop_expired(db: sqlite3.Connection, now: float) -> None:
    """Remove every session whose time is up; all that belongs to one goes with it."""
    db.execute("DELETE FROM sessions WHERE expires_at <= ?", [now])


def find(db: sqlite3.Connection, session_id: str) -> int | None:
    """The number of a session; `None` if there is none."""
    row = db.execute(_FIND, [session_id]).fetchone()
    return row[0] if row else None


def renew(db: sqlite3.Connection, session_id: str, *, now: float, expires_at: float) -> int:
    """The number of a session that is used now, begun if it is new."""
    db.execute(_RENEW, [session_id, now, expires_at])
    (session,) = db.execute(_FIND, [session_id]).fetchone()
    return int(session)


def add(db: sqlite3.Connection, session: int, session_id: str, batch: Iterable[Weighed]) -> None:
    """Put those turns of a batch that the session does not know at its end.

    Raises:
        TurnConflict: It knows one with other content; the transaction must not go on.
    """
    for weighed in batch:
        turn, mark = weighed.turn, _fingerprint(weighed.turn)
        known = db.execute(_KNOWN, [session, turn.turn_id]).fetchone()
        if known is None:
            db.execute(_KNOW, [session, turn.turn_id, _insert(db, session, weighed), mark])
        elif known[0] != mark:
            raise TurnConflict(session_id, turn.turn_id)


def unlearn(db: sqlite3.Connection, session: int, retry_window: int) -> None:
    """Keep the ids of the newest turns only."""
    db.execute(_UNLEARN, [session, session, retry_window])


def history(db: sqlite3.Connection, session: int) -> list[tuple[int, ChatTurn]]:
    """All turns with their numbers, in order, the summary first."""
    return [(row[0], _turn(row)) for row in db.execute(_READ, [session])]


def window(db: sqlite3.Connection, session: int, limit: int | None) -> list[ChatTurn]:
    """The summary, if there is one, and the last `limit` messages; `None` for all."""
    most = _MOST if limit is None else min(limit, _MOST)
    return [_turn(row) for row in db.execute(_SUMMARY_AND_LAST, [session, session, most])]


def size(db: sqlite3.Connection, session: int) -> Size:
    """How large a history is."""
    return Size(*db.execute(_SIZE, [session]).fetchone())


def listing(db: sqlite3.Connection) -> list[tuple[str, int, float]]:
    """Id, number of turns and time of the last append of every session, in the order of a list."""
    return db.execute(_LIST).fetchall()


def rewrite(db: sqlite3.Connection, session: int, gone: Sequence[int], head: Weighed | None) -> bool:
    """Put a summary in place of the first turns; false if these are not, or not all, the first any more."""
    if [turn for (turn,) in db.execute(_FIRST, [session, len(gone)])] != list(gone):
        return False
    db.executemany("DELETE FROM turns WHERE turn = ?", [[turn] for turn in gone])
    if head is not None:
        _insert(db, session, head)
    return True


def _insert(db: sqlite3.Connection, session: int, weighed: Weighed) -> int:
    turn = weighed.turn
    values = [session, turn.kind, weighed.tokens, turn.turn_id, turn.role, turn.tool_name, turn.content]
    number = db.execute(_ADD, values).lastrowid
    assert number is not None
    return number


def _turn(row: tuple[int, str, str, str | None, str, str]) -> ChatTurn:
    _, role, content, tool_name, turn_id, kind = row
    # Checked by `guards` and by the table when it was written.
    return ChatTurn(role, content, tool_name, turn_id=turn_id, kind=kind)  # type: ignore[arg-type]


def _fingerprint(turn: ChatTurn) -> bytes:
    """Tells whether two turns of one id are the same turn."""
    fields = json.dumps([turn.role, turn.content, turn.tool_name])
    return hashlib.blake2b(fields.encode(), digest_size=16).digest()
