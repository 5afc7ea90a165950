"""The three protocols, and what whoever implements them promises.

This is the short form; `docs/contract.md` has every promise as a numbered clause, and the package
`conformance` holds a backend to them.

For every store:

- A call takes effect at most once, at one instant between call and return. A call whose outcome is unknown
  raises `StoreUnavailable`; it does not guess, and an error is never an empty answer.
- A refused argument raises `InvalidArgument` before anything is written; `memcore.guards` says which are.
- What was passed in and what was handed out may be changed by the caller; nothing stored changes with it.
- After `aclose` nothing of the store is left running, and every call raises `StoreClosed`.
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from memcore.types import (
    ChatTurn,
    Embedding,
    Episode,
    Preference,
    RecalledEpisode,
    SessionSummary,
)


class Store(Protocol):
    """What all stores have: a lifetime. `async with store:` closes it."""

    async def aclose(self) -> None:
        """End what is running and close what this store opened; a client handed in stays open."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


@runtime_checkable
class SessionStore(Store, Protocol):
    """The turns of a conversation, kept in order and compressed by a rolling summary."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        """Store turns at the end, all of them next to each other, or none.

        Returns once they are stored and the compression that they triggered, if any, has ended; other
        appends to the session do not wait for that. A turn id that the session already knows is skipped: so
        an append whose outcome is unknown can be sent again. The same id with other content raises
        `TurnConflict`. An append whose turns are all known still renews the expiry. No turn is refused.
        """

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        """The summary, if there is one, then the last `limit` messages, oldest first, of one instant.

        The summary does not count: `limit=0` gives it alone. `None` gives everything. An unknown session is
        empty. Reading renews nothing.
        """

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        """Everything that is kept: the summary, if there is one, then all messages, oldest first."""

    async def clear(self, session_id: str) -> None:
        """Remove the turns, the summary, the known turn ids and the listing of this session, nothing else.

        A compression that is under way never brings anything back. An unknown session is left as it is.
        """

    async def list_sessions(self) -> list[SessionSummary]:
        """One row for each live session, the last appended first, ties by id."""


@runtime_checkable
class PreferenceStore(Store, Protocol):
    """Facts per user: a dictionary of short texts.

    Keys and values are stripped, cut to 50 and 500 code points, and stripped again, the same in every
    method. Keys are compared as code points: case counts, Unicode forms are not unified.
    """

    async def get(self, user_id: str, key: str) -> str | None:
        """The value last set, or `None`."""

    async def set(self, user_id: str, key: str, value: str) -> None:
        """Store a value in place of an earlier one. A blank key or value is dropped without error."""

    async def all(self, user_id: str) -> dict[str, Preference]:
        """Every preference of one instant, ordered by key, code point by code point."""

    async def delete(self, user_id: str, key: str) -> None:
        """Remove one key; an absent one is left as it is."""

    async def forget(self, user_id: str) -> int:
        """Remove everything of this user; how many preferences there were."""


@runtime_checkable
class EpisodicStore(Store, Protocol):
    """Summaries with vectors of one embedding model and one dimension, recalled by cosine similarity."""

    async def remember(self, episode: Episode) -> None:
        """Store an episode. One whose user and episode id are known already is left as it was."""

    async def recall(
        self, user_id: str, embedding: Embedding, k: int = 3, min_score: float | None = None
    ) -> list[RecalledEpisode]:
        """The `k` episodes of this user most alike to the query, best first, ties by order of arrival.

        Never fewer than there are: `min(k, episodes that reach min_score)`, the bound included. Nothing of
        another user is in any answer.
        """

    async def forget(self, user_id: str) -> int:
        """Remove everything of this user; how many episodes there were."""
