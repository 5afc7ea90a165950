"""Appends of one process that wait at the same time share one script call, as a group commit.

A single append does not wait. While a call is under way, those that come gather for the next one; so appends
of one store never overtake each other. The call runs in a task of its own: a caller that is cancelled takes
its turns back if they were not sent yet, and leaves the others alone in any case.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from memcore.errors import MemcoreError, StoreClosed, StoreUnavailable, TurnConflict
from memcore.policy import Size
from memcore.sessions.redis.layout import Keys
from memcore.sessions.redis.link import Argument, Link, Reply

MAX_APPENDS = 128
"""Most appends in one call."""
MAX_BYTES = 256 * 1024
"""Most bytes in one call; a larger append goes alone."""


@dataclass(slots=True, eq=False)
class Append:
    """One waiting append.

    Args:
        session_id: The session.
        count: Number of its turns.
        args: Id, fingerprint, tokens and JSON of each turn, one after the other.
        weight: Bytes of JSON.
    """

    session_id: str
    count: int
    args: Sequence[Argument]
    weight: int
    done: asyncio.Future[Size] = field(init=False)


class SharedAppends:
    """Gathers appends and sends them.

    Args:
        link: Where they go.
        keys: Names of the keys.
        ttl_ms: Expiry of a session after its last append, in ms.
        retry_window: How many of the newest turns of a session are recognized.
    """

    def __init__(self, link: Link, keys: Keys, *, ttl_ms: int, retry_window: int) -> None:
        self._link = link
        self._keys = keys
        self._limits = (ttl_ms, retry_window)
        self._waiting: deque[Append] = deque()
        self._sending: asyncio.Task[None] | None = None

    async def append(self, append: Append) -> Size:
        """Store one append; the size of its session afterwards."""
        append.done = asyncio.get_running_loop().create_future()
        self._waiting.append(append)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_all())
        try:
            return await append.done
        except asyncio.CancelledError:
            if append in self._waiting:
                self._waiting.remove(append)
            raise

    async def aclose(self) -> None:
        """Refuse what waits, and wait for the call that is under way."""
        while self._waiting:
            _settle(self._waiting.popleft(), StoreClosed("append: the store was closed before this was sent"))
        if self._sending is not None:
            await asyncio.wait([self._sending])

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                await self._send(self._take())
        finally:
            self._sending = None

    def _take(self) -> list[Append]:
        """The next appends that fit into one call; at least one."""
        taken = [self._waiting.popleft()]
        weight = taken[0].weight
        while self._waiting and len(taken) < MAX_APPENDS and weight + self._waiting[0].weight <= MAX_BYTES:
            weight += self._waiting[0].weight
            taken.append(self._waiting.popleft())
        return taken

    async def _send(self, appends: Sequence[Append]) -> None:
        try:
            replies = await self._call(appends)
        except MemcoreError as error:
            for append in appends:
                _settle(append, _same(error))
        except BaseException as error:
            # Cancelled with the loop, or a defect: nobody may hang on it.
            for append in appends:
                _settle(append, StoreUnavailable(f"append: broken off: {error!r}"))
            raise
        else:
            for append, reply in zip(appends, replies, strict=True):
                _settle(append, await self._outcome(append, reply))

    async def _call(self, appends: Sequence[Append]) -> Reply:
        keys = [self._keys.index]
        args: list[Argument] = [self._keys.prefix, *self._limits]
        for append in appends:
            keys += [self._keys.turns(append.session_id), self._keys.seen(append.session_id)]
            args += [append.session_id, append.count, *append.args]
        # Sent again it stores nothing twice: turns are known by their ids.
        return await self._link.run("append", "append", keys, args, resend=True)

    async def _outcome(self, append: Append, reply: Reply) -> Size | MemcoreError:
        if reply[0] == b"ok":
            return Size(reply[1], int(reply[2]))
        text = reply[1].decode("utf-8", "replace")
        if reply[0] == b"conflict":
            return TurnConflict(append.session_id, text)
        return await self._link.refused("append", append.session_id, text)


def _settle(append: Append, outcome: Size | MemcoreError) -> None:
    if append.done.done():
        return
    if isinstance(outcome, MemcoreError):
        append.done.set_exception(outcome)
    else:
        append.done.set_result(outcome)


def _same(error: MemcoreError) -> MemcoreError:
    """An error of its own for each caller: a shared one would gather the tracebacks of all."""
    copy = type(error)(*error.args)
    copy.__cause__ = error
    return copy
