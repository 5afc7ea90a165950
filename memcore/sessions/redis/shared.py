"""Appends of one process that wait at the same time share one script call, as a group commit.

A single append does not wait. While a call is under way, those that come gather for the next one; so appends
of one store never overtake each other. The calls are made by a task of their own: a caller that is cancelled
takes its turns back if they were not sent yet, and leaves the others alone in any case.

Each append carries the time until which the server may work on it: what its caller gave up does not come
later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from memcore.errors import MemcoreError, StoreClosed, StoreUnavailable, TurnConflict
from memcore.policy import Size
from memcore.sessions.redis.fence import Fence
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
        done: Gets the size of the session.
        deadline: When its caller gives up, by the clock of the event loop.
        refused: The server has found it late once.
    """

    session_id: str
    count: int
    args: Sequence[Argument]
    weight: int
    done: asyncio.Future[Size] = field(init=False)
    deadline: float = field(init=False)
    refused: bool = False


class SharedAppends:
    """Gathers appends and sends them.

    Args:
        link: Where they go.
        fence: Makes limits of the server's clock.
        keys: Names of the keys.
        ttl_ms: Expiry of a session after its last append, in ms.
        retry_window: How many of the newest turns of a session are recognized.
    """

    def __init__(self, link: Link, fence: Fence, keys: Keys, *, ttl_ms: int, retry_window: int) -> None:
        self._link = link
        self._fence = fence
        self._keys = keys
        self._ttl_ms = ttl_ms
        self._retry_window = retry_window
        self._waiting: deque[Append] = deque()
        self._sender: asyncio.Task[None] | None = None

    async def append(self, append: Append) -> Size:
        """Store one append; the size of its session afterwards.

        Raises:
            StoreUnavailable: Not stored in time, or not known to be.
            TurnConflict: A turn id is known with other content.
        """
        self._link.check("append")
        loop = asyncio.get_running_loop()
        append.done, append.deadline = loop.create_future(), loop.time() + self._link.timeout
        self._waiting.append(append)
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_all())
        try:
            async with asyncio.timeout_at(append.deadline):
                return await append.done
        except TimeoutError as error:
            stored = "nothing was stored" if self._withdraw(append) else "it may be stored"
            reason = f"no answer within {self._link.timeout:g} s, {stored}"
            raise StoreUnavailable(f"append: Redis does not answer: {reason}") from error
        except asyncio.CancelledError:
            self._withdraw(append)
            raise

    async def aclose(self) -> None:
        """Refuse what waits, and wait for the call that is under way."""
        self._settle_all(StoreClosed("append: the store was closed before this was sent"))
        if self._sender is not None:
            await asyncio.wait([self._sender])

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                await self._send(self._take())
        finally:
            self._sender = None
            # Only where this task was cancelled, with its event loop, is there still something.
            self._settle_all(StoreUnavailable("append: not sent, the event loop ends"))

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
            # Backwards, so that those that go out once more stay in their order.
            for append, reply in reversed(list(zip(appends, replies, strict=True))):
                if reply[0] != b"late":
                    _settle(append, await self._outcome(append, reply))
                elif not self._once_more(append):
                    _settle(append, self._fence.passed("append"))
        except MemcoreError as error:
            for append in appends:
                _settle(append, _same(error))
        except (Exception, asyncio.CancelledError) as error:
            # Whatever it is, such as an error of a credential provider, nobody may hang on it.
            for append in appends:
                _settle(append, _same(StoreUnavailable(f"append: {error!r}"), error))
            if isinstance(error, asyncio.CancelledError):
                raise

    async def _call(self, appends: Sequence[Append]) -> Reply:
        keys = [self._keys.index]
        args: list[Argument] = [self._keys.prefix, self._ttl_ms, self._retry_window]
        for append in appends:
            limit = await self._fence.limit("append", append.deadline)
            keys += [self._keys.turns(append.session_id), self._keys.seen(append.session_id)]
            args += [append.session_id, limit, append.count, *append.args]
        now, replies = await self._link.run("append", "append", keys, args)
        self._fence.learn(now)
        return replies

    def _once_more(self, append: Append) -> bool:
        """Whether an append that the server found late goes out again: nothing was done, and it may have been
        the clock of the server that made a step."""
        in_time = asyncio.get_running_loop().time() < append.deadline
        again = in_time and not append.refused and not append.done.done()
        if again:
            append.refused = True
            self._waiting.appendleft(append)
        return again

    async def _outcome(self, append: Append, reply: Reply) -> Size | MemcoreError:
        if reply[0] == b"ok":
            return Size(reply[1], reply[2])
        text = reply[1].decode("utf-8", "replace")
        if reply[0] == b"conflict":
            return TurnConflict(append.session_id, text)
        return await self._link.refused("append", append.session_id, text)

    def _withdraw(self, append: Append) -> bool:
        """Whether it was still waiting to be sent."""
        waits = append in self._waiting
        if waits:
            self._waiting.remove(append)
        return waits

    def _settle_all(self, error: MemcoreError) -> None:
        while self._waiting:
            _settle(self._waiting.popleft(), _same(error))


def _settle(append: Append, outcome: Size | MemcoreError) -> None:
    if append.done.done():
        return
    if isinstance(outcome, MemcoreError):
        append.done.set_exception(outcome)
    else:
        append.done.set_result(outcome)


def _same(error: MemcoreError, cause: BaseException | None = None) -> MemcoreError:
    """An error of its own for each caller: a shared one would gather the tracebacks of all."""
    copy = type(error)(*error.args)
    copy.__cause__ = cause or error.__cause__
    return copy
