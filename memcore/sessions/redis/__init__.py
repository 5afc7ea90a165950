"""Sessions on Redis: `store` for callers, `layout` what lies there, `shared` and `link` how it gets there."""

from memcore.sessions.redis.store import RedisSessionStore

__all__ = ["RedisSessionStore"]
