"""Calls to a Redis server: scripts, time limits, and one place where the driver's errors become ours.

Nothing is ever sent twice. A second copy of a `clear` would destroy what was appended since, one of an append
would bring back what was cleared since; so a call whose reply is lost says that its outcome is unknown, and
whoever made it decides. An append is safe to make again: its turns are known by their ids.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias, TypeVar

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, ReadOnlyError, RedisError, ResponseError

from memcore import guards
from memcore.errors import InvalidArgument, MemcoreError, StoreClosed, StoreUnavailable
from memcore.lifetime import Calls
from memcore.sessions.redis.layout import corrupt

Argument: TypeAlias = str | bytes | int
# Replies to scripts have no static type.
Reply: TypeAlias = Any
T = TypeVar("T")


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
        client: A client that gives bytes and does not send commands again by itself.
        timeout: Seconds after which a call gives up.
        owned: Close the client with the link.
    """

    def __init__(self, client: Redis, *, timeout: float, owned: bool) -> None:
        _check_client(client)
        self.client = client
        self.timeout = guards.seconds("RedisSessionStore", "timeout", timeout)
        self._owned = owned
        self._closed = False
        self._calls = Calls()

    def check(self, operation: str) -> None:
        """Refuse a call after closing, and one from another event loop than before."""
        if self._closed:
            raise StoreClosed(f"{operation}: the store was closed meanwhile")
        self.check_loop(operation)

    def check_loop(self, operation: str) -> None:
        """Refuse a call from another event loop than before."""
        self._calls.check_loop(operation)

    async def call(
        self, operation: str, send: Callable[[], Awaitable[T]], *, session_id: str | None = None
    ) -> T:
        """Make a call, in time or not at all.

        Args:
            operation: Named by errors.
            send: Sends the command and gives its reply.
            session_id: Named by errors; `None` where the call concerns several.

        Raises:
            StoreUnavailable: No answer, or the server refused; what was sent may have taken effect.
            StoreCorrupt: A key is of another type.
            StoreClosed: Closed, or called from another event loop than before.
        """
        self.check(operation)
        with self._calls.counted():
            try:
                async with asyncio.timeout(self.timeout):
                    return await send()
            except MemcoreError:
                raise
            except Exception as error:
                raise await self._translated(operation, session_id, error) from error

    async def run(
        self,
        operation: str,
        name: str,
        keys: Sequence[str],
        args: Sequence[Argument],
        *,
        session_id: str | None = None,
    ) -> Reply:
        """Run a script by its digest, or by its source where the server does not know it yet."""
        chosen = script(name)

        async def send() -> Reply:
            try:
                return await self.client.evalsha(chosen.sha, len(keys), *keys, *args)
            except NoScriptError:
                # It was not run, so this does not send it twice.
                return await self.client.eval(chosen.source, len(keys), *keys, *args)

        return await self.call(operation, send, session_id=session_id)

    async def refused(self, operation: str, session_id: str | None, message: str) -> MemcoreError:
        """The error for what the server said of one command; a replica is not asked again."""
        if message.startswith("READONLY"):
            # After a failover the open connections lead to a server that is no longer the master.
            await self.client.connection_pool.disconnect(inuse_connections=False)
        if message.startswith(("WRONGTYPE", "LAYOUT")):
            return corrupt(operation, session_id, message)
        return StoreUnavailable(f"{operation}: Redis refused: {message}")

    async def aclose(self) -> None:
        """Begin no call any more, wait for those under way, and close the connections of a client of ours.

        A closed pool would connect anew, so a call that waits for a connection must not outlive this.
        """
        self._closed = True
        await self._calls.ended()
        if self._owned:
            await self.client.aclose()
            await self.client.connection_pool.aclose()

    async def _translated(self, operation: str, session_id: str | None, error: Exception) -> MemcoreError:
        if isinstance(error, ReadOnlyError):
            return await self.refused(operation, session_id, f"READONLY {error}")
        if isinstance(error, ResponseError):
            return await self.refused(operation, session_id, str(error))
        if isinstance(error, RedisError | OSError):
            reason = str(error) or f"no answer within {self.timeout:g} s"
            return StoreUnavailable(f"{operation}: Redis does not answer: {reason}")
        # Such as what a credential provider raises: nobody who has to do with stores alone expects it.
        return StoreUnavailable(f"{operation}: {error!r}")


def client_from_url(url: str, *, timeout: float, max_connections: int) -> Redis:
    """A client whose pool waits for a free connection and which sends nothing twice by itself."""
    try:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=max_connections,
            timeout=timeout,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError:
        # Neither the URL nor what the driver says of it is shown: they may hold a password.
        reason = "is not a URL of Redis: redis://, rediss:// or unix://, a password in it percent-encoded"
        raise InvalidArgument("RedisSessionStore", "url", "…", reason) from None
    return Redis(connection_pool=pool)


def _check_client(client: Redis) -> None:
    pool = client.connection_pool
    try:
        # A connection that is never opened: only it knows the driver's defaults.
        connection = pool.connection_class(**pool.connection_kwargs)
    except TypeError as error:
        raise InvalidArgument("RedisSessionStore", "client", client, f"has a bad option: {error}") from error
    if pool.connection_kwargs.get("decode_responses"):
        raise InvalidArgument("RedisSessionStore", "client", client, "decodes; give decode_responses=False")
    if connection.retry.get_retries() != 0:
        reason = "sends commands again by itself; give retry=Retry(NoBackoff(), 0)"
        raise InvalidArgument("RedisSessionStore", "client", client, reason)
