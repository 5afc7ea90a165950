"""Agent memory: sessions, preferences and episodes, in process or on a server, behind three protocols."""

from memcore.compression import (
    SUMMARIZER_TIMEOUT_SECONDS,
    SUMMARY_PREFIX,
    Compressor,
)
from memcore.contract import EpisodicStore, PreferenceStore, SessionStore
from memcore.episodes import InMemoryEpisodicStore
from memcore.errors import (
    ConfigurationError,
    InvalidArgument,
    MemcoreError,
    MissingDriver,
    ModelMismatch,
    StoreClosed,
    StoreCorrupt,
    StoreUnavailable,
    TurnConflict,
)
from memcore.factory import (
    create_episodic_store_from_env,
    create_preference_store_from_env,
    create_session_store_from_env,
)
from memcore.guards import MAX_ID_LENGTH, MAX_KEY_LENGTH, MAX_TEXT_BYTES, MAX_VALUE_LENGTH
from memcore.policy import (
    COMPRESS_AFTER,
    KEEP_RECENT,
    SUMMARY_MAX_CHARS,
    CountPolicy,
    Policy,
    TokenWatermarkPolicy,
)
from memcore.preferences import InMemoryPreferenceStore
from memcore.sessions import RETRY_WINDOW, SESSION_TTL_SECONDS, InMemorySessionStore
from memcore.summarizer import Summarizer
from memcore.tokens import context_window, estimate_tokens
from memcore.trace import CompressionEnded, Trace
from memcore.types import ChatTurn, Episode, Preference, RecalledEpisode, SessionSummary

__all__ = [
    "COMPRESS_AFTER",
    "KEEP_RECENT",
    "MAX_ID_LENGTH",
    "MAX_KEY_LENGTH",
    "MAX_TEXT_BYTES",
    "MAX_VALUE_LENGTH",
    "RETRY_WINDOW",
    "SESSION_TTL_SECONDS",
    "SUMMARIZER_TIMEOUT_SECONDS",
    "SUMMARY_MAX_CHARS",
    "SUMMARY_PREFIX",
    "ChatTurn",
    "CompressionEnded",
    "Compressor",
    "ConfigurationError",
    "CountPolicy",
    "Episode",
    "EpisodicStore",
    "InMemoryEpisodicStore",
    "InMemoryPreferenceStore",
    "InMemorySessionStore",
    "InvalidArgument",
    "MemcoreError",
    "MissingDriver",
    "ModelMismatch",
    "Policy",
    "Preference",
    "PreferenceStore",
    "RecalledEpisode",
    "SessionStore",
    "SessionSummary",
    "StoreClosed",
    "StoreCorrupt",
    "StoreUnavailable",
    "Summarizer",
    "TokenWatermarkPolicy",
    "Trace",
    "TurnConflict",
    "context_window",
    "create_episodic_store_from_env",
    "create_preference_store_from_env",
    "create_session_store_from_env",
    "estimate_tokens",
]
