"""Stores chosen by the environment."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import textwrap

import pytest

from memcore import (
    CountPolicy,
    InMemoryEpisodicStore,
    InMemoryPreferenceStore,
    InMemorySessionStore,
    StoreUnavailable,
    TokenWatermarkPolicy,
    create_episodic_store_from_env,
    create_preference_store_from_env,
    create_session_store_from_env,
)
from memcore.episodes.pgvector import PgVectorEpisodicStore
from memcore.policy import Policy
from memcore.preferences.postgres import PostgresPreferenceStore
from memcore.sessions.redis import RedisSessionStore


def policy_of(environ: dict[str, str]) -> Policy:
    """The policy of the session store that these variables give."""
    store = create_session_store_from_env(environ=environ)
    assert isinstance(store, InMemorySessionStore)
    return store._policy


@pytest.mark.clause("INF-003")
@pytest.mark.parametrize("value", [None, "", "  ", "memory", " Memory\n", "MEMORY"])
def test_memory_is_the_default(value: str | None) -> None:
    """Unset, empty and `memory` in any case give stores in memory."""
    names = ("SESSION_STORE", "PREFERENCE_STORE", "EPISODIC_STORE")
    environ = {} if value is None else dict.fromkeys(names, value)
    assert isinstance(create_session_store_from_env(environ=environ), InMemorySessionStore)
    assert isinstance(create_preference_store_from_env(environ=environ), InMemoryPreferenceStore)
    assert isinstance(create_episodic_store_from_env(environ=environ), InMemoryEpisodicStore)


@pytest.mark.clause("INF-003")
def test_an_unknown_value_warns_and_means_memory(caplog: pytest.LogCaptureFixture) -> None:
    """The warning names the variable, the value and what is known."""
    with caplog.at_level(logging.WARNING):
        store = create_session_store_from_env(environ={"SESSION_STORE": "rediss"})
    assert isinstance(store, InMemorySessionStore)
    for part in ("SESSION_STORE", "rediss", "memory, redis"):
        assert part in caplog.text


@pytest.mark.clause("INF-003")
@pytest.mark.parametrize("value", ["redis", " REDIS "])
def test_redis_is_chosen(value: str) -> None:
    """Trimmed and in any case; nothing is connected before the first call."""
    environ = {"SESSION_STORE": value, "REDIS_URL": "redis://nowhere.invalid:1/3"}
    assert isinstance(create_session_store_from_env(environ=environ), RedisSessionStore)


@pytest.mark.clause("INF-003")
def test_postgres_is_chosen() -> None:
    """For preferences and episodes; nothing is connected before the first call."""
    environ = {
        "PREFERENCE_STORE": " PG ",
        "EPISODIC_STORE": "PgVector",
        "DATABASE_URL": "postgresql://nowhere.invalid:1/d",
    }
    assert isinstance(create_preference_store_from_env(environ=environ), PostgresPreferenceStore)
    store = create_episodic_store_from_env(model="m", dimension=3, environ=environ)
    assert isinstance(store, PgVectorEpisodicStore)
    assert (store.model, store.dimension) == ("m", 3)


@pytest.mark.clause("INF-004")
@pytest.mark.asyncio
async def test_an_absent_server_raises_at_first_use() -> None:
    """`StoreUnavailable`, within its time, and not an empty answer."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        environ = {
            "SESSION_STORE": "redis",
            "PREFERENCE_STORE": "pg",
            "EPISODIC_STORE": "pgvector",
            "REDIS_URL": f"redis://{address}/0",
            "DATABASE_URL": f"postgresql://{address}/d",
        }
        sessions = create_session_store_from_env(environ=environ)
        preferences = create_preference_store_from_env(environ=environ)
        episodes = create_episodic_store_from_env(environ=environ)
        for call, name in (
            (sessions.get_window("s"), "get_window"),
            (preferences.all("u"), "all"),
            (episodes.recall("u", [1.0] * 1536), "recall"),
        ):
            with pytest.raises(StoreUnavailable, match=f"^{name}: "):
                await call
        for store in (sessions, preferences, episodes):
            await store.aclose()


@pytest.mark.clause("INF-004")
@pytest.mark.parametrize(
    ("variable", "value", "driver", "extra", "kind"),
    [
        ("SESSION_STORE", "redis", "redis", "redis", "session"),
        ("PREFERENCE_STORE", "pg", "psycopg", "postgres", "preference"),
        ("EPISODIC_STORE", "pgvector", "psycopg", "postgres", "episodic"),
        ("EPISODIC_STORE", "pgvector", "pgvector", "postgres", "episodic"),
    ],
)
def test_a_missing_driver_says_how_to_install_it(
    variable: str, value: str, driver: str, extra: str, kind: str
) -> None:
    """Without the driver memcore works, and the choice that needs it names the command."""
    program = textwrap.dedent(f"""
        import sys
        sys.modules["{driver}"] = None
        import memcore
        memcore.create_{kind}_store_from_env(environ={{}})
        try:
            memcore.create_{kind}_store_from_env(environ={{"{variable}": "{value}"}})
        except memcore.MissingDriver as error:
            sys.stdout.write(str(error))
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    expected = f"{variable}={value} needs a driver that is not installed: "
    assert done.stdout == f"{expected}pip install 'memcore-conformance[{extra}]'"


@pytest.mark.clause("INF-005")
@pytest.mark.parametrize(
    ("environ", "tokens"),
    [
        ({"MODEL_CONTEXT_TOKENS": "8192"}, 8192),
        ({"MODEL_CONTEXT_TOKENS": " 8192 ", "LLM_MODEL": "gpt-4o"}, 8192),
        ({"LLM_MODEL": "gpt-4o"}, 128_000),
        ({"LLM_MODEL": " gpt-4o-2024-11-20 ", "MODEL_CONTEXT_TOKENS": ""}, 128_000),
    ],
)
def test_a_window_switches_to_tokens(environ: dict[str, str], tokens: int) -> None:
    """The number, or the model's in the table; the number wins."""
    policy = policy_of(environ)
    assert isinstance(policy, TokenWatermarkPolicy)
    assert policy.context_tokens == tokens


@pytest.mark.clause("INF-005")
@pytest.mark.parametrize("number", ["many", "0", "-5", "1.5", "8k"])
def test_a_bad_window_warns_and_counts(number: str, caplog: pytest.LogCaptureFixture) -> None:
    """The warning names the variable and the value; a model beside it does not step in."""
    environ = {"MODEL_CONTEXT_TOKENS": number, "LLM_MODEL": "gpt-4o"}
    with caplog.at_level(logging.WARNING):
        assert isinstance(policy_of(environ), CountPolicy)
    assert "MODEL_CONTEXT_TOKENS" in caplog.text
    assert number in caplog.text


@pytest.mark.clause("INF-005")
def test_an_unknown_model_counts() -> None:
    """A model that is not in the table leaves compression to the count."""
    assert isinstance(policy_of({"LLM_MODEL": "my-own-model"}), CountPolicy)
