"""Episodic stores: summaries with vectors, recalled by similarity."""

from memcore.episodes.memory import InMemoryEpisodicStore

__all__ = ["InMemoryEpisodicStore"]
