"""Sessions on Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from redis.asyncio import Redis

from conformance.backend import Claims, Context, Stores, backend
from memcore import RETRY_WINDOW
from memcore.sessions.redis import RedisSessionStore
from memcore.sessions.redis.layout import Keys

CLAIMS = Claims(
    layers=frozenset({"sessions"}),
    ttl=0.001,
    idempotent=RETRY_WINDOW,
    atomic_batches=True,
    compresses=True,
    watermark=True,
    traces=True,
    persistent=True,
    shared=True,
    durable=True,
)


class _Ttl:
    """Looks at the keys of one prefix, on a connection of its own."""

    def __init__(self, client: Redis, prefix: str) -> None:
        self._client = client
        self._keys = Keys(prefix)

    async def remaining_ttl(self, session_id: str) -> float | None:
        milliseconds = await self._client.pttl(self._keys.turns(session_id))
        return milliseconds / 1000 if milliseconds >= 0 else None

    async def expire_now(self, session_id: str) -> None:
        # A deadline that has passed: the server removes both keys, as it does when their time is up.
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.pexpireat(self._keys.turns(session_id), 1)
            pipe.pexpireat(self._keys.seen(session_id), 1)
            await pipe.execute()

    async def residue(self) -> Sequence[str]:
        # The prefix has no character that means something in a pattern.
        found = self._client.scan_iter(match=f"{self._keys.prefix}*", count=1000)
        return [key.decode() async for key in found]

    async def remove_all(self) -> None:
        """Leave nothing in a server that is not ours."""
        for name in await self.residue():
            await self._client.delete(name)


@backend("redis", CLAIMS, servers=["redis"])
async def BACKEND(ctx: Context) -> AsyncIterator[Stores]:  # noqa: N802 (a constant to whoever imports it)
    url, prefix = ctx.servers["redis"].url, f"{ctx.namespace}:sess:"
    async with aclosing(Redis.from_url(url)) as client:
        ttl = _Ttl(client, prefix)
        store = RedisSessionStore.from_url(url, ctx.compressor(), prefix=prefix, ttl_seconds=ctx.ttl_seconds)
        try:
            async with store:
                yield Stores(sessions=store, ttl=ttl)
        finally:
            if not ctx.again:
                await ttl.remove_all()
