"""One session on Redis as compression sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memcore.compression import Rewrite
from memcore.policy import Size
from memcore.sessions.redis.layout import Keys, decode, encode, header
from memcore.sessions.redis.link import Argument, Link
from memcore.types import ChatTurn


class RedisCompressible:
    """A session for the time of one trigger.

    Args:
        link: The server.
        keys: Names of the keys.
        session_id: The session.
        weigh: Tokens of a turn.
        lease_seconds: After so long another may compress a session whose compressor vanished.
    """

    def __init__(
        self,
        link: Link,
        keys: Keys,
        session_id: str,
        weigh: Callable[[ChatTurn], int],
        lease_seconds: float,
    ) -> None:
        self.session_id = session_id
        self._link = link
        self._turns, self._seen, self._lease = keys.of(session_id)
        self._weigh = weigh
        self._lease_ms = int(lease_seconds * 1000)
        self._headers: list[bytes] = []

    async def claim(self, owner: str) -> bool:
        async def send() -> object:
            return await self._link.client.set(self._lease, owner, nx=True, px=self._lease_ms)

        return bool(await self._link.call("append", send, session_id=self.session_id))

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
