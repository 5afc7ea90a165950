"""What lies in the file: a table for each thing, and how they are made.

Texts are compared byte by byte (SQLite's own order, `BINARY`), which for UTF-8 is code point by code point.
"""

from __future__ import annotations

import sqlite3

from memcore import StoreCorrupt

VERSION = 1
"""Kept in the file as `user_version`."""

_TABLES = (
    # `compressor` and `compressing_until`: who writes a summary of this session, and how long to believe it.
    """
    CREATE TABLE sessions (
        session INTEGER PRIMARY KEY AUTOINCREMENT,
        session_id TEXT NOT NULL UNIQUE,
        updated_at REAL NOT NULL,
        expires_at REAL NOT NULL,
        compressor TEXT,
        compressing_until REAL NOT NULL DEFAULT 0
    )
    """,
    "CREATE INDEX sessions_by_expiry ON sessions (expires_at)",
    # AUTOINCREMENT, so that no number comes again: equal numbers are the same turn, also after a `clear`.
    """
    CREATE TABLE turns (
        turn INTEGER PRIMARY KEY AUTOINCREMENT,
        session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
        kind TEXT NOT NULL CHECK (kind IN ('message', 'summary')),
        tokens INTEGER NOT NULL,
        turn_id TEXT NOT NULL,
        role TEXT NOT NULL,
        tool_name TEXT,
        content TEXT NOT NULL
    )
    """,
    # In the order of a history: 'summary' is above 'message'.
    "CREATE INDEX turns_in_order ON turns (session, kind DESC, turn)",
    # A turn is known for longer than it is kept: compression takes it out of `turns`, not from here.
    """
    CREATE TABLE known_turns (
        session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
        turn_id TEXT NOT NULL,
        turn INTEGER NOT NULL,
        fingerprint BLOB NOT NULL,
        PRIMARY KEY (session, turn_id)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX known_turns_by_age ON known_turns (session, turn)",
    """
    CREATE TABLE preferences (
        user_id TEXT NOT NULL,
        key TEXT NOT NULL,
        value TEXT NOT NULL,
        updated_at REAL NOT NULL,
        PRIMARY KEY (user_id, key)
    ) WITHOUT ROWID
    """,
    # One row: whoever opens the file first decides.
    """
    CREATE TABLE embedding (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        model TEXT NOT NULL,
        dimension INTEGER NOT NULL
    )
    """,
    """
    CREATE TABLE episodes (
        episode INTEGER PRIMARY KEY AUTOINCREMENT,
        user_id TEXT NOT NULL,
        episode_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        summary TEXT NOT NULL,
        created_at TEXT NOT NULL,
        vector BLOB NOT NULL,
        UNIQUE (user_id, episode_id)
    )
    """,
)


def set_up(connection: sqlite3.Connection) -> None:
    """Make the tables in an empty file; where it raises, the connection has to be closed.

    Raises:
        StoreCorrupt: The file holds something else, or another version.
    """
    if _version(connection) == VERSION:
        # As nearly always, and then no lock of a writer is in the way.
        return
    connection.execute("BEGIN IMMEDIATE")
    # Of several processes that open a new file at once, one makes the tables.
    if (version := _version(connection)) != VERSION:
        (others,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if version or others:
            raise StoreCorrupt(
                f"open: the file has layout {version} and {others} tables and indexes, not layout {VERSION} "
                "of sqlite_memory; give the store a file of its own"
            )
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)
