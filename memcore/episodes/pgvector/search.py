"""The search for the nearest episodes of one user: exact where that is quick, by an index where it is not."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memcore.episodes.pgvector.queries import SEARCH_BY_INDEX, Queries
from memcore.episodes.pgvector.texts import Half, user_key
from memcore.postgres.connections import Connection
from memcore.postgres.database import Call, Database

MOST_NEAR = 1000
"""The most that a search by the index looks at: the largest `hnsw.ef_search`."""
LEAST_NEAR = 400
"""The least: of fewer, too many of the best are missed."""
OVER_FETCH = 4
"""How many times k it looks at, where that is more."""
MOST_LARGE_USERS = 10_000
_ALL = 2**62


class Found(NamedTuple):
    """A row of a recall, and how much was looked at for it.

    Attributes:
        looked_at: Rows of this user that the search came to.
        farthest: Cosine distance of the farthest of them.
        distance: Of this one.
        created_at: In UTC, without a zone.
    """

    looked_at: int
    farthest: float
    distance: float
    session_id: str
    summary: str
    episode_id: str
    created_at: datetime


class LargeUsers:
    """Users known to have many episodes, for whom the exact search is not begun in vain; a bounded number."""

    def __init__(self) -> None:
        self._users = OrderedDict[str, None]()

    def __contains__(self, user_id: str) -> bool:
        return user_id in self._users

    def add(self, user_id: str) -> None:
        """Note one, in place of the one noted longest ago if there are too many."""
        self._users[user_id] = None
        if len(self._users) > MOST_LARGE_USERS:
            self._users.popitem(last=False)

    def discard(self, user_id: str) -> None:
        """Note that one has few."""
        self._users.pop(user_id, None)


class Search:
    """The search in one table.

    Args:
        queries: The statements for it.
        exact_rows: Up to so many episodes of a user are looked at one by one.
    """

    def __init__(self, queries: Queries, exact_rows: int) -> None:
        self._queries = queries
        self._exact_rows = exact_rows
        self.large_users = LargeUsers()

    async def best(
        self, database: Database, call: Call, user_id: str, query: npt.NDArray[np.float64], k: int
    ) -> list[Found]:
        """The `k` nearest episodes of a user, nearest first, ties by arrival.

        Args:
            database: Where the table is.
            call: What this is part of.
            user_id: Whose episodes.
            query: A unit vector, shape `(dimension,)`.
            k: How many.
        """
        where = {"user_key": user_key(user_id), "user_id": user_id, "v": Half(query), "k": min(k, _ALL)}
        near = max(LEAST_NEAR, OVER_FETCH * k)
        if near <= MOST_NEAR:
            if user_id not in self.large_users:
                found = await self._exact(database, call, where, self._exact_rows + 1)
                if self._are_few(found):
                    return found
                self.large_users.add(user_id)
            found = await self._by_index(database, call, where, near)
            if _is_enough(found, k):
                return found
        found = await self._exact(database, call, where, _ALL)
        if self._are_few(found):
            self.large_users.discard(user_id)
        return found

    def _are_few(self, found: list[Found]) -> bool:
        return not found or found[0].looked_at <= self._exact_rows

    async def _exact(
        self, database: Database, call: Call, where: dict[str, object], rows: int
    ) -> list[Found]:
        found = await database.read(call, self._queries.exact, {**where, "rows": rows})
        return [Found(*row) for row in found]

    async def _by_index(
        self, database: Database, call: Call, where: dict[str, object], near: int
    ) -> list[Found]:
        parameters = {**where, "rows": near, "ef_search": near}

        async def send(connection: Connection) -> list[Found]:
            # A pipeline is one trip and one transaction: the settings end with it, whoever comes next.
            async with connection.pipeline():
                await connection.execute(SEARCH_BY_INDEX, parameters)
                cursor = await connection.execute(self._queries.by_index, parameters, binary=True)
            return [Found(*row) for row in await cursor.fetchall()]

        return await database.run(call, send)


def _is_enough(found: list[Found], k: int) -> bool:
    """Whether a search by the index gave k rows, and came to others that are farther than the last of them.

    Where all that it came to is as near as the k-th, there may be more of the same that arrived earlier. That
    it missed none among those it passed by cannot be known.
    """
    return len(found) == k and found[-1].distance < found[-1].farthest
