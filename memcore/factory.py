"""Stores chosen by environment variables.

| variable | values | default |
|---|---|---|
| `SESSION_STORE` | `memory`, `redis` | `memory` |
| `PREFERENCE_STORE` | `memory`, `pg` | `memory` |
| `EPISODIC_STORE` | `memory`, `pgvector` | `memory` |
| `REDIS_URL` | | `redis://localhost:6379/0` |
| `DATABASE_URL` | | `postgresql://localhost:5432/agent` |
| `MODEL_CONTEXT_TOKENS` | size of the context window: compress by tokens instead of by count | |
| `LLM_MODEL` | the same, looked up by the model's name; the number wins | |

An unknown store is warned about and means memory. A known one whose driver is missing raises
`MissingDriver`; one whose server is away raises `StoreUnavailable` at first use. Never does a store that was
asked for turn silently into memory.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from memcore.compression import Compressor
from memcore.contract import EpisodicStore, PreferenceStore, SessionStore
from memcore.episodes.memory import InMemoryEpisodicStore
from memcore.errors import InvalidArgument, MissingDriver
from memcore.policy import CountPolicy, Policy, TokenWatermarkPolicy
from memcore.preferences.memory import InMemoryPreferenceStore
from memcore.sessions.memory import InMemorySessionStore
from memcore.summarizer import Summarizer
from memcore.tokens import TokenCounter, context_window, estimate_tokens

logger = logging.getLogger("memcore.factory")

DEFAULT_REDIS_URL = "redis://localhost:6379/0"
DEFAULT_DATABASE_URL = "postgresql://localhost:5432/agent"
DEFAULT_MODEL = "text-embedding-3-small"
DEFAULT_DIMENSION = 1536


def create_session_store_from_env(
    summarizer: Summarizer | None = None,
    *,
    count_tokens: TokenCounter = estimate_tokens,
    environ: Mapping[str, str] = os.environ,
) -> SessionStore:
    """The session store that the environment asks for.

    Args:
        summarizer: Writes the rolling summaries; without one, turns that have to leave are dropped.
        count_tokens: Counts the tokens of a text, where compression goes by tokens.
        environ: The variables.

    Raises:
        MissingDriver: `SESSION_STORE=redis` without the extra `redis`.
    """
    compressor = Compressor(_policy(environ, count_tokens), summarizer)
    if _choice(environ, "SESSION_STORE", ("memory", "redis")) == "memory":
        return InMemorySessionStore(compressor)
    try:
        from memcore.sessions.redis import RedisSessionStore
    except ImportError as error:
        raise MissingDriver("SESSION_STORE=redis", "redis") from error
    return RedisSessionStore.from_url(_value(environ, "REDIS_URL") or DEFAULT_REDIS_URL, compressor)


def create_preference_store_from_env(*, environ: Mapping[str, str] = os.environ) -> PreferenceStore:
    """The preference store that the environment asks for.

    Raises:
        MissingDriver: `PREFERENCE_STORE=pg` without the extra `postgres`.
    """
    if _choice(environ, "PREFERENCE_STORE", ("memory", "pg")) == "memory":
        return InMemoryPreferenceStore()
    try:
        from memcore.preferences.postgres import PostgresPreferenceStore
    except ImportError as error:
        raise MissingDriver("PREFERENCE_STORE=pg", "postgres") from error
    return PostgresPreferenceStore.from_url(_value(environ, "DATABASE_URL") or DEFAULT_DATABASE_URL)


def create_episodic_store_from_env(
    *,
    model: str = DEFAULT_MODEL,
    dimension: int = DEFAULT_DIMENSION,
    environ: Mapping[str, str] = os.environ,
) -> EpisodicStore:
    """The episodic store that the environment asks for.

    Args:
        model: Name of the embedding model.
        dimension: Components of its vectors.
        environ: The variables.

    Raises:
        MissingDriver: `EPISODIC_STORE=pgvector` without the extra `postgres`.
    """
    if _choice(environ, "EPISODIC_STORE", ("memory", "pgvector")) == "memory":
        return InMemoryEpisodicStore(model=model, dimension=dimension)
    try:
        from memcore.episodes.pgvector import PgVectorEpisodicStore
    except ImportError as error:
        raise MissingDriver("EPISODIC_STORE=pgvector", "postgres") from error
    url = _value(environ, "DATABASE_URL") or DEFAULT_DATABASE_URL
    return PgVectorEpisodicStore.from_url(url, model=model, dimension=dimension)


def _value(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip()


def _choice(environ: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    chosen = _value(environ, name).lower() or "memory"
    if chosen in known:
        return chosen
    logger.warning("%s=%r is unknown (known: %s); using memory", name, environ[name], ", ".join(known))
    return "memory"


def _policy(environ: Mapping[str, str], count_tokens: TokenCounter) -> Policy:
    window = _context_tokens(environ)
    if window is None:
        return CountPolicy(count_tokens=count_tokens)
    return TokenWatermarkPolicy(window, count_tokens=count_tokens)


def _context_tokens(environ: Mapping[str, str]) -> int | None:
    number = _value(environ, "MODEL_CONTEXT_TOKENS")
    if number:
        try:
            return TokenWatermarkPolicy(int(number)).context_tokens
        except (ValueError, InvalidArgument):
            logger.warning("MODEL_CONTEXT_TOKENS=%r is not a positive whole number; counting turns", number)
            return None
    model = _value(environ, "LLM_MODEL")
    return context_window(model) if model else None
