"""Session stores: the turns of a conversation, compressed by a rolling summary."""

from memcore.sessions.defaults import RETRY_WINDOW, SESSION_TTL_SECONDS
from memcore.sessions.memory import InMemorySessionStore

__all__ = ["RETRY_WINDOW", "SESSION_TTL_SECONDS", "InMemorySessionStore"]
