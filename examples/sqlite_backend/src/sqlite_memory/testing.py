"""The backend as the conformance kit sees it.

```sh
python -m conformance --backend sqlite_memory.testing:BACKEND
```
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from conformance.backend import Claims, Context, Stores, backend
from memcore import RETRY_WINDOW

from sqlite_memory import Database, SqliteEpisodicStore, SqlitePreferenceStore, SqliteSessionStore

CLAIMS = Claims(
    layers=frozenset({"sessions", "preferences", "episodes"}),
    ttl=0.001,
    idempotent=RETRY_WINDOW,
    atomic_batches=True,
    compresses=True,
    watermark=True,
    traces=True,
    injected_clock=True,
    snapshot=True,
    persistent=True,
    residue=True,
    shared=True,
    durable=True,
)

_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
_SESSION_PARTS = """
SELECT 'session ' || session_id FROM sessions
UNION ALL SELECT 'turn ' || turn FROM turns
UNION ALL SELECT 'known turn ' || turn FROM known_turns
"""


class _Ttl:
    """Looks at the rows of sessions through the database under test."""

    def __init__(self, database: Database, ctx: Context) -> None:
        self._database = database
        self._now = ctx.now

    async def remaining_ttl(self, session_id: str) -> float | None:
        query = "SELECT expires_at - ? FROM sessions WHERE session_id = ?"
        values = [self._now(), session_id]
        row = await self._database.read("remaining_ttl", lambda db: db.execute(query, values).fetchone())
        return row[0] if row else None

    async def expire_now(self, session_id: str) -> None:
        query = "UPDATE sessions SET expires_at = 0 WHERE session_id = ?"
        await self._database.write("expire_now", lambda db: db.execute(query, [session_id]))

    async def residue(self) -> Sequence[str]:
        found = await self._database.read("residue", lambda db: db.execute(_SESSION_PARTS).fetchall())
        return [name for (name,) in found]


class _Residue:
    """Where a text still stands: rows of tables, and the bytes of the files, free pages and log included."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(self, text: str) -> Sequence[str]:
        tables = await self._database.read("residue", lambda db: _tables_with(db, text))
        folder = Path(self._database.path).parent
        return [*tables, *(file.name for file in folder.iterdir() if text.encode() in file.read_bytes())]


def _tables_with(db: sqlite3.Connection, text: str) -> list[str]:
    tables = [name for (name,) in db.execute(_TABLES).fetchall()]
    return [
        table
        for table in tables
        if any(text in str(value) for row in db.execute(f'SELECT * FROM "{table}"') for value in row)
    ]


@backend("sqlite", CLAIMS)
async def BACKEND(ctx: Context) -> AsyncIterator[Stores]:  # noqa: N802 (a constant to whoever imports it)
    # Found by its name when the kit opens the same namespace again.
    folder = Path(tempfile.gettempdir(), ctx.namespace)
    os.makedirs(folder, exist_ok=ctx.again)
    try:
        async with (
            Database(folder / "memory.sqlite") as database,
            SqliteSessionStore(
                database, ctx.compressor(), ttl_seconds=ctx.ttl_seconds, now=ctx.now
            ) as sessions,
            SqlitePreferenceStore(database, now=ctx.now) as preferences,
            SqliteEpisodicStore(database, model=ctx.model, dimension=ctx.dimension, now=ctx.now) as episodes,
        ):
            yield Stores(
                sessions=sessions,
                preferences=preferences,
                episodes=episodes,
                ttl=_Ttl(database, ctx),
                residue=_Residue(database),
            )
    finally:
        if not ctx.again:
            shutil.rmtree(folder)
