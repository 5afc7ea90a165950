"""What tests of session stores share."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from conformance.provenance import Ledger
from memcore import ChatTurn


class Gated(Ledger):
    """A ledger that waits until it is let through."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.go = asyncio.Event(), asyncio.Event()

    async def __call__(self, turns: Sequence[ChatTurn], /, *, max_chars: int) -> str:
        self.entered.set()
        await self.go.wait()
        return await super().__call__(turns, max_chars=max_chars)
