"""Session stores that are wrong in what they keep of a turn, and in which turns they keep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conformance.mutants.making import is_text, sessions, stored
from memcore import ChatTurn, InMemorySessionStore, guards
from memcore.types import new_id


@sessions(
    "SES-004",
    fragment="got:      ['yes', 'yes', 'yes', 'yes', 'no']",
    report="over-eager removal of duplicates",
)
class EqualTextsAreOne(InMemorySessionStore):
    """A turn that says what was said before is dropped."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        known = await super().get_history(session_id)
        await super().append(session_id, *([turn for turn in turns if turn not in known] or turns))


@sessions("SES-003", fragment="got:      ['']", report="coder/coder#25555")
class NulIsCut(InMemorySessionStore):
    """A text ends at its first NUL."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        await super().append(session_id, *map(self._cut, turns))

    def _cut(self, turn: Any) -> Any:
        text = getattr(turn, "content", None)
        return replace(turn, content=text.partition("\0")[0]) if isinstance(text, str) else turn


@sessions("SES-002", fragment="got:      'no error, but None'", report="agentscope-ai/agentscope#1117")
class SurrogatesAreReplaced(InMemorySessionStore):
    """Half a character is replaced by a question mark."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        await super().append(session_id, *map(self._mended, turns))

    def _mended(self, turn: Any) -> Any:
        text = getattr(turn, "content", None)
        return (
            replace(turn, content=text.encode("utf-8", "replace").decode()) if isinstance(text, str) else turn
        )


@sessions("SES-007", fragment="an append of no turn", report="an empty batch is no error")
class NothingCanBeAppended(InMemorySessionStore):
    """An append of no turn does nothing, silently."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        if turns:
            await super().append(session_id, *turns)


class _Changed(InMemorySessionStore):
    """Stores something else than it was given."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        await super().append(session_id, *(self.changed(turn) for turn in turns))

    def changed(self, turn: Any) -> Any:
        return turn


@sessions(
    "SES-001",
    fragment="history after appending hostile texts",
    report="run-llama/llama_index#12313",
    may="CMP-005 CMP-011 SES-007 SES-028",
)
class ToolNameIsLost(_Changed):
    """Role and content are stored, and nothing else."""

    def changed(self, turn: Any) -> Any:
        return replace(turn, tool_name=None) if isinstance(turn, ChatTurn) else turn


@sessions("SES-001", fragment="history after appending hostile texts", report="an empty text taken for none")
class EmptyToolNameIsNone(_Changed):
    """An empty tool name comes back as none."""

    def changed(self, turn: Any) -> Any:
        return replace(turn, tool_name=turn.tool_name or None) if isinstance(turn, ChatTurn) else turn


@sessions("SES-001", fragment="history after appending hostile texts", report="newlines that are unified")
class NewlinesAreUnified(_Changed):
    """Every kind of line end comes back as the same."""

    def changed(self, turn: Any) -> Any:
        text = getattr(turn, "content", None)
        return replace(turn, content=text.replace("\r\n", "\n")) if isinstance(text, str) else turn


@sessions("SES-002", fragment="content None", report="openai/openai-agents-python#2494")
class ContentOfAnyKind(_Changed):
    """A content that is no text is stored as its `str`."""

    def changed(self, turn: Any) -> Any:
        odd = isinstance(turn, ChatTurn) and not isinstance(turn.content, str)
        return replace(turn, content=str(turn.content)) if odd else turn


@sessions(
    "SES-002", fragment="got:      'no error, but None'", report="a text that is cut instead of refused"
)
class LongTextsAreCut(_Changed):
    """A text above the limit is stored up to it."""

    def changed(self, turn: Any) -> Any:
        text = getattr(turn, "content", None)
        if not isinstance(text, str) or len(text) <= guards.MAX_TEXT_BYTES // 4:
            return turn
        cut = text.encode("utf-8", "surrogatepass")[: guards.MAX_TEXT_BYTES].decode("utf-8", "ignore")
        return replace(turn, content=cut)


@sessions("SES-002", fragment="got:      'no error, but None'", report="open-webui/open-webui#27084")
class SurrogatesAreStored(InMemorySessionStore):
    """Half a character is stored as it is."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        texts = [getattr(turn, "content", None) for turn in turns]
        if any(isinstance(text, str) and "\ud800" <= max(text, default="") <= "\udfff" for text in texts):
            self._store(session_id, turns)
        else:
            await super().append(session_id, *turns)


@sessions(
    "SES-002",
    fragment="history after the refusal",
    report="a batch that is checked turn by turn",
    may="SES-007 SES-028",
)
class RefusalComesLate(InMemorySessionStore):
    """Turns of a batch are stored one by one, up to the one that is refused."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        for turn in turns[:-1]:
            self._store(guards.identifier("append", "session_id", session_id), guards.turns("append", [turn]))
        await super().append(session_id, *turns[-1:])


@sessions(
    "SES-004",
    fragment="got:      ['t0', 't0', 't1', 't0', 't0', 't1',",
    report="microsoft/agent-framework#7242",
    may="CMP SES",
)
class HistoryIsAppendedAgain(InMemorySessionStore):
    """Every append stores the whole conversation again."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        known = stored(self, session_id)
        before = known.turns if known and len(known.turns) < 100 else []
        messages = [replace(turn, turn_id=new_id()) for turn in before if turn.kind == "message"]
        await super().append(session_id, *(messages if turns else []), *turns)


@sessions(
    "SES-004",
    fragment="got:      ['t500', 't501', 't502', 't503', 't5",
    report="a cap that nobody asked for",
    may="SES-005 SES-027",
)
class FiveHundredAtMost(InMemorySessionStore):
    """Of a long history the newest 500 turns stay."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        await super().append(session_id, *turns)
        del self._sessions[session_id].turns[:-500]


@sessions(
    "SES-004",
    fragment="got:      ['t1', 't2', 't3', 't4', 't5', 't6',",
    report="agentscope-ai/agentscope#1783",
    may="CMP INF-002 SES",
)
class FirstWriteUnderAnotherKey(InMemorySessionStore):
    """The first append of a session is stored under an id that nobody knows."""

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        begun = self.__dict__.setdefault("begun", set())
        if is_text(session_id) and session_id.strip() and session_id not in begun:
            await super().append(session_id, *turns)
            begun.add(session_id)
            self._sessions[new_id()] = self._sessions.pop(session_id)
        else:
            await super().append(session_id, *turns)
