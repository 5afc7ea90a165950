"""Until when a server may work on a call: by its own clock, so that what was given up cannot come later.

Bytes that wait in some buffer, for a server that was away or a network that was cut, are worked on when it is
back. A call that carries its limit is refused then.
"""

from __future__ import annotations

import asyncio

from memcore.errors import StoreUnavailable
from memcore.sessions.redis.link import Link


class Fence:
    """Knows how far the clock of the server is ahead of that of the event loop, from the last reply.

    A step of the server's clock makes one limit wrong: a step ahead refuses a call, which can be made again;
    a step back lets one through for as long as the step.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._ahead: float | None = None

    async def limit(self, operation: str, deadline: float) -> int:
        """A time of the event loop as µs of the server's clock; asks the server if it never answered yet."""
        if self._ahead is None:
            seconds, micros = await self._link.call(operation, self._link.client.time)
            self.learn(seconds * 1_000_000 + micros)
        assert self._ahead is not None
        return int((deadline + self._ahead) * 1e6)

    def learn(self, server_time: int) -> None:
        """Take in the time in µs that a reply tells; read before the reply came, it makes limits early."""
        self._ahead = server_time / 1e6 - asyncio.get_running_loop().time()

    def passed(self, operation: str) -> StoreUnavailable:
        """The error for a call that the server got to too late."""
        return StoreUnavailable(f"{operation}: Redis got to it too late, and did nothing")
