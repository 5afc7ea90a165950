"""Session stores that are wrong in which session is which, in clearing and in listing them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from conformance.backend import Context, Stores
from conformance.backends import memory
from conformance.mutants.making import is_text, sessions, stored, whole
from memcore import ChatTurn, InMemorySessionStore, SessionSummary


def _stripped(name: Any) -> Any:
    """Callers of a check give what is no text too."""
    return name.strip() if isinstance(name, str) else name


@sessions(
    "SES-013",
    fragment="got:      ['first of a', 'first of  a', 'first",
    report="ids are unified",
    may="SES-015",
)
class IdsAreStripped(InMemorySessionStore):
    """Session ids lose the spaces around them."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        await super().append(_stripped(session_id), *turns)

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        return await super().get_history(_stripped(session_id))


@sessions("SES-016", fragment="got:      []", report="clear leaves a part", may="SES-026")
class ClearKeepsIds(InMemorySessionStore):
    """Clear empties a session, and still knows its turn ids."""

    async def clear(self, session_id: str) -> None:
        session = stored(self, session_id)
        await super().clear(session_id)
        if session is not None:
            session.turns, session.tokens = [], 0
            self._sessions[session_id] = session

    async def list_sessions(self) -> list[SessionSummary]:
        return [row for row in await super().list_sessions() if row.turns]


@sessions("SES-015", fragment="listed after clear of", report="subinium/agf#62")
class ClearByPrefix(InMemorySessionStore):
    """Clear takes every session whose id begins alike."""

    async def clear(self, session_id: str) -> None:
        await super().clear(session_id)
        for name in [name for name in self._sessions if name.startswith(session_id)]:
            await super().clear(name)


@sessions("SES-019", fragment="rows", report="HarperFast/harper#2268")
class ListByName(InMemorySessionStore):
    """The list is ordered by name."""

    async def list_sessions(self) -> list[SessionSummary]:
        return sorted(await super().list_sessions(), key=lambda row: row.session_id)


@sessions("SES-018", fragment="listed lengths", report="lengths that disagree")
class ListWithoutSummary(InMemorySessionStore):
    """The list does not count the summary."""

    async def list_sessions(self) -> list[SessionSummary]:
        rows = await super().list_sessions()
        return [
            replace(row, turns=sum(turn.kind == "message" for turn in self._sessions[row.session_id].turns))
            for row in rows
        ]


@sessions("SES-020", fragment="zone of updated_at", report="semantica-agi/semantica#1073")
class LocalTime(InMemorySessionStore):
    """The time in a row has no zone."""

    async def list_sessions(self) -> list[SessionSummary]:
        rows = await super().list_sessions()
        return [replace(row, updated_at=row.updated_at.replace(tzinfo=None)) for row in rows]


@sessions("SES-040", fragment="history and list", report="data that dies with its object", persistent=True)
class SessionsOfOneObject(InMemorySessionStore):
    """What is claimed to be persistent dies with its object."""


@sessions("SES-014", fragment="append, session id", report="langchain-ai/langgraph#6239")
class LongIdsAreCut(InMemorySessionStore):
    """Session ids are cut to the limit instead of refused."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        await super().append(self._cut(session_id), *turns)

    def _cut(self, name: Any) -> Any:
        return name[:512] if isinstance(name, str) else name


@sessions("SES-014", fragment="append, session id", report="alibaba/spring-ai-alibaba#4975")
class BlankIsDefault(InMemorySessionStore):
    """Whoever gives no id shares one session with all others who give none."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        blank = not session_id or (is_text(session_id) and not session_id.strip())
        await super().append("default" if blank else session_id, *turns)


@sessions("SES-015", fragment="listed after clear of", report="better-auth/better-auth#10507")
class ClearByGlob(InMemorySessionStore):
    """An id is a pattern to clear."""

    async def clear(self, session_id: str) -> None:
        await super().clear(session_id)
        for name in [name for name in self._sessions if fnmatchcase(name, session_id)]:
            await super().clear(name)


@sessions(
    "SES-013",
    fragment="got:      ['first of a', 'first of A', 'second",
    report="ids are unified",
    may="SES-015 SES-019",
)
class IdsAreLowerCase(InMemorySessionStore):
    """Sessions whose ids differ in case are one."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        await super().append(self._lower(session_id), *turns)

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        return await super().get_history(self._lower(session_id))

    def _lower(self, session_id: Any) -> Any:
        return session_id.lower() if isinstance(session_id, str) else session_id


@sessions("SES-018", fragment="got:      []", report="redis/agent-memory-server#119", may="SES")
class ListIsEmpty(InMemorySessionStore):
    """The list reads an index that nothing writes."""

    async def list_sessions(self) -> list[SessionSummary]:
        return []


@sessions(
    "SES-018", fragment="got:      ['s1000', 's1001', 's1002', 's1003',", report="a page taken for the whole"
)
class AThousandAreListed(InMemorySessionStore):
    """The list ends after its first page."""

    async def list_sessions(self) -> list[SessionSummary]:
        return (await super().list_sessions())[:1000]


@sessions(
    "SES-018",
    fragment="got:      ['s1000', 's1001', 's1002', 's1003',",
    report="Consensys/ask-o11y-plugin#198",
)
class LiveSessionsAreEvicted(InMemorySessionStore):
    """Above a number of sessions the oldest is removed, though it lives."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        await super().append(session_id, *turns)
        while len(self._sessions) > 1000:
            self._sessions.popitem(last=False)


class _Kept(InMemorySessionStore):
    """Sessions that outlive their object, as long as its namespace is open."""

    shelves: dict[str, Any] = {}  # noqa: RUF012 (it is shared on purpose)

    def __init__(self, ctx: Context) -> None:
        super().__init__(ctx.compressor(), ttl_seconds=ctx.ttl_seconds, now=ctx.now)
        self.ctx = ctx
        self._sessions = self.shelves.setdefault(ctx.namespace, self._sessions)

    async def aclose(self) -> None:
        self._sessions = OrderedDict()
        await super().aclose()
        if not self.ctx.again:
            self.shelves.pop(self.ctx.namespace, None)


def _on_a_shelf(store: _Kept) -> Stores:
    return Stores(sessions=store, ttl=memory._Ttl(store, store.ctx))


@whole(
    "sessions", "SES-040", fragment="history and list", report="run-llama/llama_index#13308", persistent=True
)
def opening_erases(ctx: Context) -> Stores:
    """A store object that is opened begins with an empty history, and stores that."""
    store = _Kept(ctx)
    store._sessions.clear()
    return _on_a_shelf(store)


@whole(
    "sessions",
    "SES-040",
    fragment="history and list",
    report="agentscope-ai/agentscope#1624",
    persistent=True,
)
def summary_only_in_process(ctx: Context) -> Stores:
    """The summary is kept in the process that wrote it; another finds the turns alone."""
    store = _Kept(ctx)
    for session in store._sessions.values() if ctx.again else ():
        session.turns = [turn for turn in session.turns if turn.kind == "message"]
    return _on_a_shelf(store)


class _Logged(_Kept):
    """Keeps every turn that it ever got, beside the history."""

    log: dict[tuple[str, str], list[ChatTurn]] = {}  # noqa: RUF012 (it is shared on purpose)

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        await super().append(session_id, *turns)
        self.log.setdefault((self.ctx.namespace, session_id), []).extend(turns)

    async def aclose(self) -> None:
        await super().aclose()
        for key in [key for key in self.log if key[0] == self.ctx.namespace and not self.ctx.again]:
            del self.log[key]


@whole(
    "sessions", "SES-040", fragment="history and list", report="turnstonelabs/turnstone#731", persistent=True
)
def reopened_uncompressed(ctx: Context) -> Stores:
    """A store object that is opened later reads the whole transcript, as if nothing had been compressed."""
    store = _Logged(ctx)
    for name, session in store._sessions.items() if ctx.again else ():
        session.turns = list(store.log.get((ctx.namespace, name), session.turns))
    return _on_a_shelf(store)
