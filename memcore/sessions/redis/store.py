"""Sessions on Redis 7 or Valkey: one list per session, every write one script."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Self

from memcore import guards
from memcore.compression import SUMMARIZER_TIMEOUT_SECONDS, Compressor, Rewrite
from memcore.errors import InvalidArgument
from memcore.lifetime import Closable
from memcore.policy import CountPolicy, Size
from memcore.sessions.defaults import RETRY_WINDOW, SESSION_TTL_SECONDS, shape_window
from memcore.sessions.redis.layout import Keys, decode, encode, fingerprint, header
from memcore.sessions.redis.link import Argument, Link, RedisClient, Reply, client_from_url
from memcore.sessions.redis.shared import Append, SharedAppends
from memcore.types import ChatTurn, SessionSummary

PREFIX = "agent:sess:"
TIMEOUT_SECONDS = 10.0
MAX_CONNECTIONS = 50
LEASE_SECONDS = 2 * SUMMARIZER_TIMEOUT_SECONDS
"""After this long another process may compress a session whose compressor vanished."""
PAGE = 500
"""Sessions that one call of a listing reads."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RedisSessionStore(Closable):
    """Sessions on a Redis server, shared by any number of processes.

    Args:
        client: An asyncio client that gives bytes and does not retry; it stays open when the store closes.
        compressor: When and how histories are compressed; by default 40 → 20 turns with no summarizer.
        prefix: Opens every key.
        ttl_seconds: A session to which nothing was appended for so long is gone.
        retry_window: A turn sent again is recognized while fewer than so many came after it.
        timeout: Seconds after which a call raises `StoreUnavailable`.
    """

    def __init__(
        self,
        client: RedisClient,
        compressor: Compressor | None = None,
        *,
        prefix: str = PREFIX,
        ttl_seconds: float = SESSION_TTL_SECONDS,
        retry_window: int = RETRY_WINDOW,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        self._open(Link(client, timeout=timeout, owned=False), compressor, prefix, ttl_seconds, retry_window)

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
        guards.seconds("RedisSessionStore", "timeout", timeout)
        client = client_from_url(url, timeout=timeout, max_connections=max_connections)
        store = cls.__new__(cls)
        store._open(Link(client, timeout=timeout, owned=True), compressor, prefix, ttl_seconds, retry_window)
        return store

    def _open(
        self, link: Link, compressor: Compressor | None, prefix: str, ttl_seconds: float, retry_window: int
    ) -> None:
        super().__init__()
        self._link = link
        self._keys = Keys(prefix)
        self._compressor = compressor or Compressor(CountPolicy())
        ttl_ms = int(guards.seconds("RedisSessionStore", "ttl_seconds", ttl_seconds) * 1000)
        if ttl_ms < 1:
            raise InvalidArgument("RedisSessionStore", "ttl_seconds", ttl_seconds, "is below a millisecond")
        self._appends = SharedAppends(link, self._keys, ttl_ms=ttl_ms, retry_window=retry_window)

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        self._check_open("append")
        session_id = guards.identifier("append", "session_id", session_id)
        batch = guards.turns("append", turns)
        if self._compressor.policy.due(await self._appends.append(self._prepared(session_id, batch))):
            await self._compressor.run(_Compressible(self, session_id))

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        self._check_open("get_window")
        session_id = guards.identifier("get_window", "session_id", session_id)
        limit = guards.limit("get_window", limit)
        if limit is None:
            return await self.get_history(session_id)
        # A list has fewer elements than this; larger numbers are not integers to the server.
        keys, args = [self._keys.turns(session_id)], [min(limit, 2**32)]
        elements = await self._link.run(
            "get_window", "window", keys, args, session_id=session_id, resend=True
        )
        return shape_window([decode("get_window", session_id, element) for element in elements], limit)

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        self._check_open("get_history")
        session_id = guards.identifier("get_history", "session_id", session_id)
        elements = await self._elements("get_history", session_id)
        return [decode("get_history", session_id, element) for element in elements]

    async def clear(self, session_id: str) -> None:
        self._check_open("clear")
        session_id = guards.identifier("clear", "session_id", session_id)

        async def send() -> None:
            async with self._link.client.pipeline(transaction=True) as pipe:
                pipe.zrem(self._keys.index, session_id)
                keys = self._keys
                pipe.delete(keys.turns(session_id), keys.seen(session_id), keys.lease(session_id))
                await pipe.execute()

        await self._link.call("clear", send, session_id=session_id)

    async def list_sessions(self) -> list[SessionSummary]:
        self._check_open("list_sessions")
        rows: dict[str, SessionSummary] = {}
        expired: list[Argument] = []
        lowest, size = b"-inf", PAGE
        while True:
            # From the oldest to the newest: a session that is appended to meanwhile moves ahead, not behind.
            flat = await self._link.run(
                "list_sessions", "page", [self._keys.index], [self._keys.prefix, lowest, size], resend=True
            )
            for session_id, score, length in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
                if length:
                    rows[session_id.decode()] = _row(session_id, score, length)
                else:
                    expired += [session_id, score]
            if len(flat) < 3 * size:
                break
            # All of one score: the page has to grow to get past them.
            size = PAGE if flat[-2] != lowest else size * 2
            lowest = flat[-2]
        if expired:
            await self._link.run(
                "list_sessions", "prune", [self._keys.index], [self._keys.prefix, *expired], resend=True
            )
        # Decorated by the id first, so that the second, stable sort leaves ties by id.
        by_id = sorted(rows.values(), key=lambda row: row.session_id)
        return sorted(by_id, key=lambda row: row.updated_at, reverse=True)

    async def aclose(self) -> None:
        await super().aclose()
        await self._appends.aclose()
        await self._compressor.aclose()
        await self._link.aclose()

    def _prepared(self, session_id: str, batch: Sequence[ChatTurn]) -> Append:
        args: list[Argument] = []
        weight = 0
        for turn in batch:
            encoded = encode(turn)
            weight += len(encoded)
            args += [turn.turn_id, fingerprint(encoded), self._compressor.policy.weigh(turn), encoded]
        return Append(session_id, len(batch), args, weight)

    async def _elements(self, operation: str, session_id: str) -> list[bytes]:
        key = self._keys.turns(session_id)

        async def send() -> Reply:
            return await self._link.client.lrange(key, 0, -1)

        elements: list[bytes] = await self._link.call(operation, send, session_id=session_id, resend=True)
        return elements


class _Compressible:
    """One session of a `RedisSessionStore`, for the time of one trigger."""

    def __init__(self, store: RedisSessionStore, session_id: str) -> None:
        self.session_id = session_id
        self._store = store
        self._headers: list[bytes] = []

    async def claim(self, attempt: str) -> bool:
        link, lease = self._store._link, self._store._keys.lease(self.session_id)
        milliseconds = int(LEASE_SECONDS * 1000)
        return bool(
            await link.call("append", lambda: link.client.set(lease, attempt, nx=True, px=milliseconds))
        )

    async def release(self, attempt: str) -> None:
        lease = self._store._keys.lease(self.session_id)
        await self._store._link.run("append", "release", [lease], [attempt], resend=True)

    async def read(self) -> Sequence[ChatTurn]:
        elements = await self._store._elements("append", self.session_id)
        self._headers = [header(element) for element in elements]
        return [decode("append", self.session_id, element) for element in elements]

    async def commit(self, rewrite: Rewrite) -> Size | None:
        ends = [self._headers[0], self._headers[rewrite.cut - 1]]
        args: list[Argument] = [*ends, rewrite.cut, rewrite.attempt]
        if rewrite.head:
            args += [self._store._compressor.policy.weigh(rewrite.head), encode(rewrite.head)]
        turns = self._store._keys.turns(self.session_id)
        # Sent again it finds its own mark at the head and changes nothing.
        reply = await self._store._link.run(
            "append", "commit", [turns], args, session_id=self.session_id, resend=True
        )
        return Size(reply[1], int(reply[2])) if reply[0] == b"ok" else None


def _row(session_id: bytes, score: bytes, length: int) -> SessionSummary:
    # Not by a float of seconds, which cannot hold every microsecond.
    return SessionSummary(session_id.decode(), length, _EPOCH + timedelta(microseconds=int(float(score))))
