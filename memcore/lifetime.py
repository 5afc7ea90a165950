"""The lifetime that all stores share: open until `aclose`, then every call is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from memcore.errors import StoreClosed


class Closable:
    """A store that can be closed once and used with `async with`."""

    def __init__(self) -> None:
        self._closed = False

    def _check_open(self, operation: str) -> None:
        if self._closed:
            raise StoreClosed(f"{operation}: this {type(self).__name__} was closed; open a new one")

    async def aclose(self) -> None:
        self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class Ending:
    """The end of something, which begins once and is waited for by all who ask for it."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    @property
    def began(self) -> bool:
        """Whether anyone asked for it."""
        return self._task is not None

    async def by(self, end: Callable[[], Coroutine[object, object, None]]) -> None:
        """End it, or wait until that is done; it goes on if whoever asked first is cancelled."""
        if self._task is None:
            self._task = asyncio.create_task(end())
        await asyncio.shield(self._task)


class Calls:
    """The calls of one owner that are under way, all of them in one event loop: the first that calls."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._under_way = 0
        self._none = asyncio.Event()

    def check_loop(self, operation: str) -> None:
        """Refuse a call from another event loop than before."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        if loop is not self._loop:
            raise StoreClosed(
                f"{operation}: this store belongs to another event loop; open one in each loop, "
                "for connections cannot move"
            )

    @contextmanager
    def counted(self) -> Iterator[None]:
        """For the time of a call."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._none.set()

    async def ended(self) -> None:
        """Until none is under way."""
        while self._under_way:
            self._none.clear()
            await self._none.wait()
