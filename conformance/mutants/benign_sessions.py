"""Session stores that are odd and right: none of them may fail anything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from conformance.backend import ErrorClass
from conformance.mutants import making
from memcore import (
    ChatTurn,
    Compressor,
    CountPolicy,
    InMemorySessionStore,
    InvalidArgument,
    SessionSummary,
    TurnConflict,
    guards,
)
from memcore.compression import Rewrite
from memcore.policy import Size
from memcore.sessions.defaults import shape_window
from memcore.sessions.memory import _Compressible

sessions = partial(making.sessions, role="benign")
YIELDS = 20


async def _yield() -> None:
    for _ in range(YIELDS):
        await asyncio.sleep(0)


@sessions()
class SlowSessions(InMemorySessionStore):
    """Every call lets other tasks run many times, before and after it takes effect."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        await _yield()
        await super().append(session_id, *turns)
        await _yield()

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        await _yield()
        return await super().get_window(session_id, limit)

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        history = await super().get_history(session_id)
        await _yield()
        return history

    async def clear(self, session_id: str) -> None:
        await _yield()
        await super().clear(session_id)

    async def list_sessions(self) -> list[SessionSummary]:
        await _yield()
        return await super().list_sessions()


class _Apart(_Compressible):
    """A session whose summary is not among its turns."""

    _store: SummariesApart

    def _summary(self) -> list[ChatTurn]:
        found = self._store.summaries.get(id(self._session))
        return [found] if found else []

    async def read(self) -> Sequence[ChatTurn]:
        return [*self._summary(), *self._session.turns]

    async def release(self, owner: str) -> Size:
        await super().release(owner)
        history = await self.read()
        return Size(len(history), sum(map(self._store._policy.weigh, history)))

    async def commit(self, rewrite: Rewrite) -> bool:
        if self._store._live(self.session_id) is not self._session:
            return False
        rest = rewrite.apply(await self.read())
        self._session.turns = [turn for turn in rest if turn.kind == "message"]
        if rewrite.head:
            self._store.summaries[id(self._session)] = rewrite.head
            self._store.kept.append(self._session)
        return True


@sessions()
class SummariesApart(InMemorySessionStore):
    """Summaries are kept in a place of their own."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.summaries: dict[int, ChatTurn] = {}
        # So that no other session gets the number of one that is gone.
        self.kept: list[object] = []

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        self._check_open("append")
        name = guards.identifier("append", "session_id", session_id)
        self._store(name, guards.turns("append", turns))
        history = self._whole(name)
        if self._policy.due(Size(len(history), sum(map(self._policy.weigh, history)))):
            await self._compressions.run(_Apart(self, name))

    def _whole(self, name: str) -> list[ChatTurn]:
        session = self._live(name)
        summary = self.summaries.get(id(session))
        return [*([summary] if summary else []), *(session.turns if session else [])]

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        await super().get_window(session_id, limit)
        return shape_window(self._whole(session_id), limit)

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        return await self.get_window(session_id, None)

    async def list_sessions(self) -> list[SessionSummary]:
        rows = await super().list_sessions()
        return [replace(row, turns=len(self._whole(row.session_id))) for row in rows]


@sessions(compress_late=True, quiesce="quiesce")
class CompressesLate(InMemorySessionStore):
    """An append returns before its compression has begun, as is claimed."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.tasks: set[asyncio.Task[None]] = set()

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        self._check_open("append")
        name = guards.identifier("append", "session_id", session_id)
        if self._policy.due(self._store(name, guards.turns("append", turns))):
            self.tasks.add(asyncio.create_task(self._compressions.run(_Compressible(self, name))))

    async def quiesce(self) -> None:
        while self.tasks:
            done, self.tasks = self.tasks, set()
            await asyncio.wait(done)

    async def aclose(self) -> None:
        await super().aclose()
        await self.quiesce()


@sessions(nul=False)
class SessionsWithoutNul(InMemorySessionStore):
    """A text with a NUL is refused, as is claimed."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        texts = [getattr(turn, "content", None) for turn in turns]
        if any(isinstance(text, str) and "\0" in text for text in texts):
            raise InvalidArgument("append", "content", "…", "has a NUL")
        await super().append(session_id, *turns)


def within(operation: str, text: object, characters: int | None = None, size: int | None = None) -> None:
    """Refuse what is longer than this store takes."""
    if isinstance(text, str) and (
        (characters is not None and len(text) > characters)
        or (size is not None and len(text.encode("utf-8", "surrogatepass")) > size)
    ):
        raise InvalidArgument(operation, "text", f"{len(text)} characters", "is too long for this store")


@sessions(max_id_length=64, max_text_bytes=8192)
class SmallSessions(InMemorySessionStore):
    """Ids and texts have small limits, as is claimed."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        within("append", session_id, 64)
        for turn in turns:
            within("append", getattr(turn, "content", None), size=8192)
        await super().append(session_id, *turns)

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        within("get_window", session_id, 64)
        return await super().get_window(session_id, limit)

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        within("get_history", session_id, 64)
        return await super().get_history(session_id)

    async def clear(self, session_id: str) -> None:
        within("clear", session_id, 64)
        await super().clear(session_id)


@sessions(
    hooks=False,
    ttl=None,
    idempotent=None,
    atomic_batches=False,
    compresses=False,
    watermark=False,
    traces=False,
    injected_clock=False,
    snapshot=False,
    residue=False,
)
class NothingClaimed(InMemorySessionStore):
    """What every backend has to do, and nothing that it may claim: no compression, no retries, no expiry."""

    def __init__(self, _: Compressor, **__: Any) -> None:
        super().__init__(Compressor(CountPolicy(10**9, 1)))


@sessions(idempotent=100)
class AHundredAreClaimed(InMemorySessionStore):
    """A turn is known while a hundred others came after it, as is claimed."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, retry_window=100, **options)


class Refused(ValueError):
    """An error of a store that is not memcore's."""


class Conflict(LookupError):
    """Another such error."""


@sessions()
class OwnErrors(InMemorySessionStore):
    """Errors are the store's own, and it says how to read them."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        try:
            await super().append(session_id, *turns)
        except InvalidArgument as error:
            raise Refused(str(error)) from error
        except TurnConflict as error:
            raise Conflict(str(error)) from error

    def classify(self, error: BaseException) -> ErrorClass:
        if isinstance(error, Conflict):
            return "conflict"
        return "refused" if isinstance(error, Refused | InvalidArgument) else "fail"


@sessions()
class CoarseTimes(InMemorySessionStore):
    """Times are whole seconds, and the list is ordered by them."""

    async def list_sessions(self) -> list[SessionSummary]:
        rows = await super().list_sessions()
        coarse = [replace(row, updated_at=row.updated_at.replace(microsecond=0)) for row in rows]
        return sorted(coarse, key=lambda row: (-row.updated_at.timestamp(), row.session_id))


class Rows(list[Any]):
    """A list of a store."""


@sessions()
class ListsOfItsOwn(InMemorySessionStore):
    """What is handed out is a kind of list."""

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        return Rows(await super().get_history(session_id))

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        return Rows(await super().get_window(session_id, limit))

    async def list_sessions(self) -> list[SessionSummary]:
        return Rows(await super().list_sessions())
