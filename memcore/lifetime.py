"""The lifetime that all stores share: open until `aclose`, then every call is refused."""

from __future__ import annotations

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
