"""Calls to a Redis server: scripts, time limits, and one place where the driver's errors become ours."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias, TypeVar

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import (
    TimeoutError as RedisTimeoutError,
)

from memcore.errors import InvalidArgument, MemcoreError, StoreClosed, StoreUnavailable
from memcore.sessions.redis.layout import corrupt

# The driver's classes are generic in its stubs only; replies to scripts have no static type.
RedisClient: TypeAlias = "Redis"
Reply: TypeAlias = Any
Argument: TypeAlias = str | bytes | int
T = TypeVar("T")

RESENDS = 2
"""How often a call that may be sent again is, after the connection broke."""
_LOST = (RedisConnectionError, RedisTimeoutError)


class Script:
    """A Lua script of this package, behind the lines that all of them share."""

    def __init__(self, name: str) -> None:
        folder = files("memcore.sessions.redis") / "scripts"
        self.source = "\n".join((folder / part).read_text() for part in ("common.lua", f"{name}.lua"))
        self.sha = hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()


@cache
def script(name: str) -> Script:
    """The script of this name, read once."""
    return Script(name)


class Link:
    """A client, how long its calls may take, and whether it is ours to close.

    Args:
        client: A client that gives bytes and does not send commands again by itself: the driver would
            repeat a `clear` whose reply was lost after others had appended anew.
        timeout: Seconds after which a call gives up.
        owned: Close the client with the link.
    """

    def __init__(self, client: RedisClient, *, timeout: float, owned: bool) -> None:
        _check_client(client)
        self.client = client
        self._timeout = timeout
        self._owned = owned
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._resending = Retry(
            ExponentialWithJitterBackoff(base=0.02, cap=0.5), RESENDS, supported_errors=_LOST
        )

    async def call(
        self,
        operation: str,
        send: Callable[[], Awaitable[T]],
        *,
        session_id: str | None = None,
        resend: bool = False,
    ) -> T:
        """Make a call, in time or not at all.

        Args:
            operation: Named by errors.
            session_id: Named by errors; `None` where the call concerns several.
            send: Sends the command and gives its reply.
            resend: The command may be sent again if the connection breaks: sending it twice has the effect
                of sending it once.

        Raises:
            StoreUnavailable: No answer, or the server refused; what was sent may have taken effect.
            StoreCorrupt: A key is of another type.
            StoreClosed: Closed, or called from another event loop than before.
        """
        self._check(operation)
        try:
            async with asyncio.timeout(self._timeout):
                if not resend:
                    return await send()
                return await self._resending.call_with_retry(send, _ignore)
        except (RedisError, OSError) as error:
            raise await self._translated(operation, session_id, error) from error

    async def run(
        self,
        operation: str,
        name: str,
        keys: Sequence[str],
        args: Sequence[Argument],
        *,
        session_id: str | None = None,
        resend: bool = False,
    ) -> Reply:
        """Run a script by its digest, or by its source where the server does not know it yet."""
        chosen = script(name)

        async def send() -> Reply:
            try:
                return await self.client.evalsha(chosen.sha, len(keys), *keys, *args)
            except NoScriptError:
                return await self.client.eval(chosen.source, len(keys), *keys, *args)

        return await self.call(operation, send, session_id=session_id, resend=resend)

    async def refused(self, operation: str, session_id: str | None, message: str) -> MemcoreError:
        """The error for what the server said of one command; a replica is not asked again."""
        if message.startswith("READONLY"):
            # After a failover the open connections lead to a server that is no longer the master.
            await self.client.connection_pool.disconnect(inuse_connections=False)
        if message.startswith(("WRONGTYPE", "LAYOUT")):
            return corrupt(operation, session_id, message)
        return StoreUnavailable(f"{operation}: Redis refused: {message}")

    async def aclose(self) -> None:
        """Send nothing any more, and close the connections of a client that is ours."""
        self._closed = True
        if self._owned:
            await self.client.aclose()
            await self.client.connection_pool.aclose()

    def _check(self, operation: str) -> None:
        # A closed pool would connect anew: what a late caller sends must not go out.
        if self._closed:
            raise StoreClosed(f"{operation}: the store was closed meanwhile")
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        if loop is not self._loop:
            raise StoreClosed(
                f"{operation}: this store belongs to another event loop; open one in each loop, "
                "for connections cannot move"
            )

    async def _translated(self, operation: str, session_id: str | None, error: Exception) -> MemcoreError:
        if isinstance(error, ReadOnlyError):
            return await self.refused(operation, session_id, f"READONLY {error}")
        if isinstance(error, ResponseError):
            return await self.refused(operation, session_id, str(error))
        reason = str(error) or f"no answer within {self._timeout:g} s"
        return StoreUnavailable(f"{operation}: Redis does not answer: {reason}")


def client_from_url(url: str, *, timeout: float, max_connections: int) -> RedisClient:
    """A client whose pool waits for a free connection and which sends nothing twice by itself."""
    try:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=max_connections,
            timeout=timeout,
            # Leaves time for the calls that are sent again.
            socket_timeout=timeout / (RESENDS + 1),
            socket_connect_timeout=timeout / (RESENDS + 1),
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError as error:
        # The value itself is not shown: it may hold a password.
        raise InvalidArgument("RedisSessionStore", "url", "…", f"is not a Redis URL: {error}") from error
    return Redis(connection_pool=pool)


def _check_client(client: RedisClient) -> None:
    pool = client.connection_pool
    if pool.connection_kwargs.get("decode_responses"):
        raise InvalidArgument("RedisSessionStore", "client", client, "decodes; give decode_responses=False")
    # A connection that is never opened: only it knows the driver's defaults.
    if pool.connection_class(**pool.connection_kwargs).retry.get_retries() != 0:
        reason = "sends commands again by itself; give retry=Retry(NoBackoff(), 0)"
        raise InvalidArgument("RedisSessionStore", "client", client, reason)


async def _ignore(error: Exception) -> None:
    """Between two sends there is nothing to do: the driver has dropped the broken connection."""
