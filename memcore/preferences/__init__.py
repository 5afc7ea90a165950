"""Preference stores: facts per user."""

from memcore.preferences.memory import InMemoryPreferenceStore

__all__ = ["InMemoryPreferenceStore"]
