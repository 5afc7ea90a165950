"""What tests of the Redis store share."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from conformance.services import Server
from memcore.sessions.redis import RedisSessionStore

SHORT = 1.0
"""Seconds after which a store of these tests gives up on a server that does not answer."""
PREFIX = "test:"


async def contents(store: RedisSessionStore, session_id: str = "s") -> list[str]:
    """Of the history, as they are."""
    return [turn.content for turn in await store.get_history(session_id)]


async def started(store: RedisSessionStore, append: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """An append whose call is on its way to the server."""
    task = asyncio.create_task(append)
    # The task of the append, the one that sends, and the driver all have to run: some turns of the loop.
    for _ in range(30):
        await asyncio.sleep(0)
    assert not store._appends._waiting
    return task


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    """The server takes bytes and answers nothing; it works through them when it goes on."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)
