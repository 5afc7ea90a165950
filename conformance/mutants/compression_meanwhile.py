"""Session stores that are wrong in what happens while a summary is written."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from conformance.mutants.making import sessions
from memcore import ChatTurn, InMemorySessionStore, guards
from memcore.compression import Rewrite
from memcore.sessions.memory import _Compressible


class _Unchecked(_Compressible):
    """Commits whatever is there by now."""

    def fits(self, history: Sequence[ChatTurn]) -> bool:  # noqa: ARG002
        return True

    async def commit(self, rewrite: Rewrite) -> bool:
        session = self._store._sessions.setdefault(self.session_id, self._session)
        if not self.fits(session.turns):
            return False
        session.turns = rewrite.apply(session.turns)
        session.tokens = sum(self._store._policy.weigh(turn) for turn in session.turns)
        return True


class _ByHead(_Unchecked):
    """Commits if the first turn is the one that was read."""

    def fits(self, history: Sequence[ChatTurn]) -> bool:
        return bool(history) and history[0].turn_id == self._session.turns[0].turn_id


class _FromSnapshot(_Unchecked):
    """Writes back what was read, with the summary."""

    async def read(self) -> Sequence[ChatTurn]:
        self.snapshot = await super().read()
        return self.snapshot

    async def commit(self, rewrite: Rewrite) -> bool:
        self._session.turns = rewrite.apply(self.snapshot)
        return True


class _Unclaimed(_Compressible):
    """Does not look whether another is at it."""

    async def claim(self, owner: str) -> bool:  # noqa: ARG002
        return True


class WithCompressible(InMemorySessionStore):
    kind: type[_Compressible]

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        self._check_open("append")
        session_id = guards.identifier("append", "session_id", session_id)
        if self._policy.due(self._store(session_id, guards.turns("append", turns))):
            await self._compressions.run(self.kind(self, session_id))


@sessions("SES-017", "CMP-020", fragment="got:      ['compressed']", report="matrixorigin/Astra#616")
class CommitUnchecked(WithCompressible):
    """A summary is committed onto whatever is there by then."""

    kind = _Unchecked


@sessions(
    "CMP-020",
    fragment="got:      [ChatTurn(role='system', content='[会",
    report="a base that is compared by its first turn",
    may="SES-017",
)
class CommitByTheHead(WithCompressible):
    """A summary is committed if the first turn is the same."""

    kind = _ByHead


@sessions(
    "CMP-020",
    fragment="all that is covered or kept",
    report="openai/openai-agents-python#4679, openai/openai-agents-js#1842",
    may="CMP-005 SES-017",
)
class CommitFromASnapshot(WithCompressible):
    """What was read before the summary is written back after it."""

    kind = _FromSnapshot


@sessions("CMP-021", fragment="an append beside it", report="NousResearch/hermes-agent#97321", may="CMP-019")
class CompressesTwiceAtOnce(WithCompressible):
    """A second compression starts beside the first."""

    kind = _Unclaimed


@sessions(
    "CMP-019",
    fragment="got:      'it waits for it'",
    report="a lock around the model call",
    may="CMP-021 SES-017",
)
class LocksWhileItSummarizes(InMemorySessionStore):
    """Appends wait while a summary is written."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        if not hasattr(self, "lock"):
            self.lock = asyncio.Lock()
        async with self.lock:
            await super().append(session_id, *turns)


@sessions("CMP-022", fragment="got:      ['t3', 't4']", report="a cancellation taken for a failure")
class CancelledIsFailed(InMemorySessionStore):
    """A cancelled append drops what a failed summary would."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        try:
            await super().append(session_id, *turns)
        except asyncio.CancelledError:
            session = self._sessions[session_id]
            session.turns = session.turns[-2:]
            raise


@sessions(
    "CMP-003",
    fragment="got:      [('message', 'user', 't0', None), ('",
    report="an answer before the work is done",
    may="CMP SES-008 SES-009 SES-020 SES-024",
)
class CompressesInTheBackground(InMemorySessionStore):
    """An append returns at once, and its compression comes later."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        self._check_open("append")
        session_id = guards.identifier("append", "session_id", session_id)
        if self._policy.due(self._store(session_id, guards.turns("append", turns))):
            work = self._compressions.run(_Compressible(self, session_id))
            self.__dict__.setdefault("tasks", set()).add(asyncio.create_task(work))

    async def aclose(self) -> None:
        await super().aclose()
        tasks = self.__dict__.get("tasks", set())
        if tasks:
            await asyncio.wait(tasks)


@sessions(
    "CMP-022",
    fragment="kinds after the next append",
    report="NousResearch/hermes-agent#97064, NousResearch/hermes-agent#78187",
)
class CancelLeavesTheClaim(InMemorySessionStore):
    """A session whose append was cancelled while its summary was written is never compressed again."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        try:
            await super().append(session_id, *turns)
        except asyncio.CancelledError:
            self._sessions[session_id].compressor = "gone"
            raise
