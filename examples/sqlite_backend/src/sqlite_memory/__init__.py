"""Agent memory in one SQLite file: three stores that keep the contract of memcore."""

from sqlite_memory.database import Database
from sqlite_memory.episodes import SqliteEpisodicStore
from sqlite_memory.preferences import SqlitePreferenceStore
from sqlite_memory.sessions import SqliteSessionStore

__all__ = ["Database", "SqliteEpisodicStore", "SqlitePreferenceStore", "SqliteSessionStore"]
