"""Preferences on Postgres."""

from memcore.preferences.postgres.store import PostgresPreferenceStore

__all__ = ["PostgresPreferenceStore"]
