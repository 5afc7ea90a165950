"""Session stores that are wrong in what reading shows, and in what it does."""

from __future__ import annotations

from conformance.mutants.making import sessions, stored
from memcore import ChatTurn, InMemorySessionStore
from memcore.sessions.memory import _Session


@sessions("SES-008", fragment="window of 1 of 5 messages", report="yaalalabs/agent-kernel#739", may="CMP-009")
class OldestWindow(InMemorySessionStore):
    """A window has the oldest messages, not the newest."""

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        history = await super().get_window(session_id, None)
        await super().get_window(session_id, limit)
        first = 1 if history and history[0].kind == "summary" else 0
        return history[: first + limit] if limit is not None else history


@sessions(
    "SES-008", fragment="window of 1 beside a summary", report="the summary takes a place of the window"
)
class SummaryCounts(InMemorySessionStore):
    """A window with a summary has one message less."""

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        shown = await super().get_window(session_id, limit)
        return shown if limit is None or len(shown) <= limit else [*shown[:1], *shown[2:]]


@sessions(
    "SES-009",
    fragment="window of 0 beside a summary",
    report="microsoft/agent-framework#7469, agno-agi/agno#8942",
    may="CMP-009 SES-010",
)
class ZeroIsEverything(InMemorySessionStore):
    """A limit of 0 is taken for none, so a window of nothing has everything."""

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        return await super().get_window(session_id, limit or None)


@sessions("SES-010", fragment="a window of -1", report="openai/openai-agents-python#3219")
class NegativeIsEverything(InMemorySessionStore):
    """A negative limit gives everything instead of an error."""

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        negative = isinstance(limit, int) and limit < 0
        return await super().get_window(session_id, None if negative else limit)


@sessions(
    "SES-021",
    fragment="got:      ['t1', 't2', 'not stored']",
    report="langchain-ai/langgraph#8835, google/adk-python#7105",
)
class HandsOutItsList(InMemorySessionStore):
    """The history that is handed out is the stored list itself."""

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        history = await super().get_history(session_id)
        return self._sessions[session_id].turns if history else history


@sessions(
    "SES-011",
    fragment="history and list after reading",
    report="reading moves a session to the front",
    may="SES-023",
)
class ReadingIsUse(InMemorySessionStore):
    """A window that is read makes its session the last used."""

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        shown = await super().get_window(session_id, limit)
        if session_id in self._sessions:
            self._renew(session_id, self._sessions[session_id])
        return shown


@sessions(
    "SES-012",
    fragment="got:      [SessionSummary(session_id='unknown'",
    report="reading creates what it did not find",
    may="SES-002 SES-007 SES-015 SES-025",
)
class ReadingBegins(InMemorySessionStore):
    """Reading a history that is not there begins the session."""

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        history = await super().get_history(session_id)
        if session_id not in self._sessions:
            self._renew(session_id, _Session())
        return history


@sessions("SES-008", fragment="default window of 25 messages", report="a default that differs")
class TenByDefault(InMemorySessionStore):
    """A window has ten messages unless it is told otherwise."""

    async def get_window(self, session_id: str, limit: int | None = 10) -> list[ChatTurn]:
        return await super().get_window(session_id, limit)


@sessions(
    "SES-008",
    fragment="window of 1 beside a summary",
    report="a summary that is not shown",
    may="CMP-010 SES-009",
)
class WindowWithoutSummary(InMemorySessionStore):
    """A window has messages alone."""

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        shown = await super().get_window(session_id, limit)
        return [turn for turn in shown if turn.kind == "message"]


@sessions(
    "SES-030",
    fragment="got:      [('message', 'user', 't2', None)]",
    report="openai/openai-agents-python#4001",
)
class LimitBeforeTheFilter(InMemorySessionStore):
    """Turns that were sent again are stored again and hidden by reads, which count them in their limit."""

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        shown = await super().get_window(session_id, limit)
        hidden = self.__dict__.get("again", {}).get(session_id, 0)
        messages = [turn for turn in shown if turn.kind == "message"]
        if limit is None or not hidden or len(messages) < limit:
            return shown
        return [*shown[: len(shown) - len(messages)], *messages[min(hidden, limit) :]]

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        session = stored(self, session_id)
        known = [turn for turn in turns if session and getattr(turn, "turn_id", None) in session.known]
        await super().append(session_id, *turns)
        self.__dict__.setdefault("again", {})[session_id] = len(known)
