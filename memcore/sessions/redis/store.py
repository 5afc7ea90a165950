"""Sessions on Redis 7 or Valkey: one list per session, every write one script."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Self

from redis.asyncio import Redis

from memcore import guards
from memcore.compression import Compressions, Compressor
from memcore.lifetime import Closable, Ending
from memcore.policy import CountPolicy
from memcore.sessions.defaults import RETRY_WINDOW, SESSION_TTL_SECONDS, shape_window
from memcore.sessions.redis.compressible import RedisCompressible
from memcore.sessions.redis.fence import Fence
from memcore.sessions.redis.layout import Keys, corrupt, decode, encode, fingerprint
from memcore.sessions.redis.link import Argument, Link, client_from_url
from memcore.sessions.redis.shared import Append, SharedAppends
from memcore.types import ChatTurn, SessionSummary

PREFIX = "agent:sess:"
TIMEOUT_SECONDS = 10.0
MAX_CONNECTIONS = 50
PAGE = 500
"""Sessions that one call of a listing reads."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RedisSessionStore(Closable):
    """Sessions on a Redis server, shared by any number of processes.

    Args:
        client: An asyncio client that gives bytes and does not retry; see `from_url`.
        compressor: When and how histories are compressed; by default 40 → 20 turns with no summarizer.
        prefix: Opens every key.
        ttl_seconds: A session to which nothing was appended for so long is gone.
        retry_window: A turn sent again is recognized while fewer than so many came after it.
        timeout: Seconds after which a call raises `StoreUnavailable`.
        owns_client: Close the client with the store.
    """

    def __init__(
        self,
        client: Redis,
        compressor: Compressor | None = None,
        *,
        prefix: str = PREFIX,
        ttl_seconds: float = SESSION_TTL_SECONDS,
        retry_window: int = RETRY_WINDOW,
        timeout: float = TIMEOUT_SECONDS,
        owns_client: bool = False,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self._link = Link(client, timeout=timeout, owned=owns_client)
        self._keys = Keys(guards.identifier(name, "prefix", prefix))
        self._compressor = compressor or Compressor(CountPolicy())
        self._policy = self._compressor.policy
        self._compressions = Compressions(self._compressor)
        self._fence = Fence(self._link)
        self._ending = Ending()
        self._appends = SharedAppends(
            self._link,
            self._fence,
            self._keys,
            ttl_ms=int(guards.ttl(name, ttl_seconds) * 1000),
            retry_window=guards.whole_number(name, "retry_window", retry_window, at_least=1),
        )

    @classmethod
    def from_url(
        cls,
        url: str,
        compressor: Compressor | None = None,
        *,
        prefix: str = PREFIX,
        ttl_seconds: float = SESSION_TTL_SECONDS,
        retry_window: int = RETRY_WINDOW,
        timeout: float = TIMEOUT_SECONDS,
        max_connections: int = MAX_CONNECTIONS,
    ) -> Self:
        """A store with a client of its own, which it closes. Nothing is sent before the first call.

        Args:
            url: Such as `redis://localhost:6379/0`, `rediss://…` or `unix://…`.
            max_connections: Calls above so many at once wait for a free connection.
            compressor, prefix, ttl_seconds, retry_window, timeout: As for the class.
        """
        seconds = guards.seconds(cls.__name__, "timeout", timeout)
        return cls(
            client_from_url(url, timeout=seconds, max_connections=max_connections),
            compressor,
            prefix=prefix,
            ttl_seconds=ttl_seconds,
            retry_window=retry_window,
            timeout=seconds,
            owns_client=True,
        )

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        self._check_open("append")
        session_id = guards.identifier("append", "session_id", session_id)
        batch = guards.turns("append", turns)
        size = await self._appends.append(self._prepared(session_id, batch))
        if self._policy.due(size):
            lease_seconds = 2 * self._compressor.timeout
            session = RedisCompressible(
                self._link, self._fence, self._keys, session_id, self._policy.weigh, lease_seconds
            )
            await self._compressions.run(session)

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        return await self._read("get_window", session_id, limit)

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        return await self._read("get_history", session_id, None)

    async def clear(self, session_id: str) -> None:
        self._check_open("clear")
        session_id = guards.identifier("clear", "session_id", session_id)
        keys = [self._keys.index, *self._keys.of(session_id)]
        deadline = asyncio.get_running_loop().time() + self._link.timeout
        args: list[Argument] = [session_id, await self._fence.limit("clear", deadline)]
        if not await self._link.run("clear", "clear", keys, args, session_id=session_id):
            raise self._fence.passed("clear")

    async def list_sessions(self) -> list[SessionSummary]:
        self._check_open("list_sessions")
        rows: dict[str, SessionSummary] = {}
        lowest, size = b"-inf", PAGE
        while True:
            # From the oldest to the newest: a session that is appended to meanwhile moves ahead, not behind.
            args: list[Argument] = [self._keys.prefix, lowest, size]
            flat = await self._link.run("list_sessions", "page", [self._keys.index], args)
            page = list(zip(flat[::3], flat[1::3], flat[2::3], strict=True))
            rows.update((row.session_id, row) for row in map(_row, page) if row.turns)
            await self._prune([(session_id, score) for session_id, score, turns in page if not turns])
            if len(page) < size:
                break
            # All of one score: the page has to grow to get past them.
            size = PAGE if page[-1][1] != lowest else size * 2
            lowest = page[-1][1]
        by_id = sorted(rows.values(), key=lambda row: row.session_id)
        # Stable, so that ties stay in the order of their ids.
        return sorted(by_id, key=lambda row: row.updated_at, reverse=True)

    async def aclose(self) -> None:
        self._link.check_loop("aclose")
        self._closed = True
        await self._ending.by(self._end)

    async def _end(self) -> None:
        await self._appends.aclose()
        await self._compressions.aclose()
        await self._link.aclose()

    def _prepared(self, session_id: str, batch: Sequence[ChatTurn]) -> Append:
        args: list[Argument] = []
        weight = 0
        for turn in batch:
            encoded = encode(turn)
            weight += len(encoded)
            args += [turn.turn_id, fingerprint(encoded), self._policy.weigh(turn), encoded]
        return Append(session_id, len(batch), args, weight)

    async def _read(self, operation: str, session_id: str, limit: int | None) -> list[ChatTurn]:
        self._check_open(operation)
        session_id = guards.identifier(operation, "session_id", session_id)
        limit = guards.limit(operation, limit)
        keys = [self._keys.turns(session_id), self._keys.seen(session_id)]
        # A list has fewer elements than 2**32; larger numbers are no integers to the server.
        args = [-1 if limit is None else min(limit, 2**32)]
        elements = await self._link.run(operation, "window", keys, args, session_id=session_id)
        return shape_window([decode(operation, session_id, element) for element in elements], limit)

    async def _prune(self, expired: Sequence[tuple[bytes, bytes]]) -> None:
        if expired:
            args: list[Argument] = [self._keys.prefix, *(part for pair in expired for part in pair)]
            await self._link.run("list_sessions", "prune", [self._keys.index], args)


def _row(found: tuple[bytes, bytes, int]) -> SessionSummary:
    session_id, score, turns = found[0].decode(), found[1], found[2]
    if turns < 0:
        raise corrupt("list_sessions", session_id, "not a list")
    # Not by a float of seconds, which cannot hold every microsecond.
    return SessionSummary(session_id, turns, _EPOCH + timedelta(microseconds=int(float(score))))
