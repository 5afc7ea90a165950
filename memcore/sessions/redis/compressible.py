"""One session on Redis as compression sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from memcore.compression import Rewrite
from memcore.policy import Size
from memcore.sessions.redis.fence import Fence
from memcore.sessions.redis.layout import Keys, decode, encode, header
from memcore.sessions.redis.link import Argument, Link
from memcore.types import ChatTurn


class RedisCompressible:
    """A session for the time of one trigger.

    Args:
        link: The server.
        fence: Makes limits of the server's clock.
        keys: Names of the keys.
        session_id: The session.
        weigh: Tokens of a turn.
        lease_seconds: After so long another may compress a session whose compressor vanished.
    """

    def __init__(
        self,
        link: Link,
        fence: Fence,
        keys: Keys,
        session_id: str,
        weigh: Callable[[ChatTurn], int],
        lease_seconds: float,
    ) -> None:
        self.session_id = session_id
        self._link = link
        self._fence = fence
        self._turns, self._seen, self._lease = keys.of(session_id)
        self._weigh = weigh
        # Between a second and some decades: what the server takes, whatever the limit of a summarizer.
        self._lease_ms = int(max(1.0, min(lease_seconds, 1e9)) * 1000)
        self._headers: list[bytes] = []

    async def claim(self, owner: str) -> bool:
        deadline = asyncio.get_running_loop().time() + self._link.timeout
        args: list[Argument] = [owner, self._lease_ms, await self._fence.limit("append", deadline)]
        return bool(await self._link.run("append", "claim", [self._lease], args, session_id=self.session_id))

    async def release(self, owner: str) -> Size:
        keys = [self._lease, self._turns]
        length, tokens = await self._link.run("append", "release", keys, [owner], session_id=self.session_id)
        return Size(length, tokens)

    async def read(self) -> Sequence[ChatTurn]:
        keys = [self._turns, self._seen]
        elements = await self._link.run("append", "window", keys, [-1], session_id=self.session_id)
        self._headers = [header(element) for element in elements]
        return [decode("append", self.session_id, element) for element in elements]

    async def commit(self, rewrite: Rewrite) -> bool:
        ends = [self._headers[0], self._headers[rewrite.cut - 1]]
        args: list[Argument] = [*ends, rewrite.cut, rewrite.event.attempt]
        if rewrite.head:
            args += [self._weigh(rewrite.head), encode(rewrite.head)]
        return bool(await self._link.run("append", "commit", [self._turns], args, session_id=self.session_id))
