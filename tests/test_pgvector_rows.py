"""What goes into a row of episodes, up to the limits of ids, texts, times and dimensions."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore import MAX_ID_LENGTH
from memcore.episodes.pgvector.setup import NARROW
from memcore.episodes.pgvector.texts import escaped, unescaped, user_key
from tests.postgres_help import episode, episodes, fresh, sql

# Random, for the server compresses: equal characters would fit where these do not.
CHANCE = random.Random(0)


def random_id(length: int) -> str:
    """Code points of four bytes each."""
    return "".join(chr(CHANCE.randrange(0x20000, 0x2A6DF)) for _ in range(length))


@given(st.text(st.sampled_from("\0\x1a01x会"), max_size=20))
def test_escaping_is_reversible(text: str) -> None:
    """Whatever has NUL or the escape character comes back, and has no NUL on the way."""
    assert "\0" not in escaped(text)
    assert unescaped(escaped(text)) == text


@given(st.text(st.characters(exclude_characters="\0\x1a", exclude_categories=["Cs"])))
def test_other_texts_are_stored_as_they_are(text: str) -> None:
    """So that whoever looks into the table reads what was written."""
    assert escaped(text) == text


@pytest.mark.parametrize("user_id", ["u", " a:b ", "Ü会\U0001f600", "\\x41", "x" * 512])
def test_the_server_makes_the_same_key(postgres_url: str, user_id: str) -> None:
    """Rows of an older table are found under the key that the server gave them."""
    expression = "encode(substring(sha256(convert_to(%s, 'UTF8')) FROM 1 FOR 16), 'hex')::uuid"
    assert sql(postgres_url, f"SELECT {expression}", [user_id]) == [(user_key(user_id),)]


@pytest.mark.asyncio
@pytest.mark.parametrize("dimension", [1, 2, NARROW, NARROW + 1, 1500, 2001, 3999, 4000])
async def test_rows_of_any_size_fit(postgres_url: str, dimension: int) -> None:
    """Short ids stay in the row and long ones leave it: either way there is room beside the vector."""
    vectors = np.random.default_rng(dimension).normal(size=(12, dimension))
    # Around the 24 bytes above which a text can be moved out of its row, and the longest.
    sizes = [1, 4, 5, 6, 7, 30, 127, 128, 500, MAX_ID_LENGTH]
    async with episodes(postgres_url, fresh(), dimension=dimension) as store:
        for size, vector in zip(sizes, vectors, strict=False):
            sent = episode("s" * size, vector, user_id=random_id(size), episode_id=random_id(size))
            await store.remember(sent)
            (found,) = await store.recall(sent.user_id, vector)
            assert (found.episode_id, found.summary) == (sent.episode_id, sent.summary)
            assert found.score == pytest.approx(1.0, abs=1e-3)
            assert await store.forget(sent.user_id) == 1


@pytest.mark.asyncio
async def test_the_ends_of_time(postgres_url: str) -> None:
    """The first and the last moment that Python knows come back, from whatever zone."""
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    zones = [first.astimezone(UTC), last, datetime.max.replace(tzinfo=timezone(timedelta(hours=14)))]
    async with episodes(postgres_url, fresh()) as store:
        for n, stamp in enumerate(zones):
            await store.remember(episode(f"{n}", np.eye(8)[0], created_at=stamp))
        found = await store.recall("u", np.eye(8)[0])
        assert [item.created_at for item in found] == zones


@pytest.mark.asyncio
async def test_forgetting_leaves_no_row(postgres_url: str) -> None:
    """Not in the table and not in what its indexes lead to, by a look past the store."""
    schema = fresh()
    async with episodes(postgres_url, schema) as store:
        for n in range(20):
            await store.remember(episode(f"{n}", np.eye(8)[n % 8]))
        assert await store.forget("u") == 20
    assert sql(postgres_url, f"SELECT count(*) FROM {schema}.conversation_events") == [(0,)]
