"""Session stores that are wrong in what becomes of the turns that leave, and in what they say of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from conformance.backend import Context, Stores
from conformance.backends import memory
from conformance.mutants.making import compression, sessions, whole
from memcore import ChatTurn, CompressionEnded, Compressor, InMemorySessionStore
from memcore.compression import Rewrite
from memcore.sessions.memory import _Session

Ask: TypeAlias = Callable[[Sequence[ChatTurn], int], Coroutine[Any, Any, str]]


def _asked(ctx: Context, through: Callable[[Ask, Sequence[ChatTurn], int], Coroutine[Any, Any, str]]) -> Any:
    """The summarizer of the context, asked through something that is wrong."""
    if ctx.summarizer is None:
        return None
    summarizer = ctx.summarizer

    async def ask(turns: Sequence[ChatTurn], max_chars: int) -> str:
        return await summarizer(turns, max_chars=max_chars)

    async def asked(turns: Sequence[ChatTurn], /, *, max_chars: int) -> str:
        return await through(ask, turns, max_chars)

    return asked


def _with(ctx: Context, summarizer: Any, kind: type[Compressor] = Compressor) -> Compressor:
    return kind(ctx.policy, summarizer, timeout=ctx.summarizer_timeout, trace=ctx.trace)


class _LosesTheSummary(Compressor):
    async def _propose(self, session_id: str, history: Sequence[ChatTurn]) -> Rewrite | CompressionEnded:
        proposed = await super()._propose(session_id, history)
        if isinstance(proposed, Rewrite) and proposed.event.status == "truncated":
            return replace(proposed, head=None)
        return proposed


class _Last(Rewrite):
    def apply(self, history: Sequence[ChatTurn]) -> list[ChatTurn]:
        return [*history[self.cut :], *([self.head] if self.head else [])]


class _SummaryLast(Compressor):
    async def _propose(self, session_id: str, history: Sequence[ChatTurn]) -> Rewrite | CompressionEnded:
        proposed = await super()._propose(session_id, history)
        if isinstance(proposed, Rewrite):
            return _Last(proposed.cut, proposed.head, proposed.event)
        return proposed


@compression(
    "CMP-010",
    fragment="got:      '[会话摘要] §0§…………………………………………………………………",
    report="Blaizzy/mlx-vlm#2226",
    may="CMP-007",
)
def summary_is_cut(ctx: Context) -> Compressor:
    """A summary is cut to the length that was asked for."""

    async def cut(turns: Sequence[ChatTurn], /, *, max_chars: int) -> str:
        assert ctx.summarizer is not None
        text = await ctx.summarizer(turns, max_chars=max_chars)
        return text[:max_chars]

    return Compressor(ctx.policy, ctx.summarizer and cut, timeout=ctx.summarizer_timeout, trace=ctx.trace)


@compression(
    "CMP-012",
    "CMP-014",
    fragment="history after a first failure",
    report="langchain-ai/langchain#38867, s2b-dev/smart-second-brain#435",
    may="CMP-011 CMP-016 CMP-017",
)
def error_is_the_summary(ctx: Context) -> Compressor:
    """The text of an error is stored as the summary."""

    async def careless(turns: Sequence[ChatTurn], /, *, max_chars: int) -> str:
        assert ctx.summarizer is not None
        try:
            text = await ctx.summarizer(turns, max_chars=max_chars)
            return text.strip() or "(nothing)"
        except Exception as error:
            return f"error: {error}"

    return Compressor(
        ctx.policy, ctx.summarizer and careless, timeout=ctx.summarizer_timeout, trace=ctx.trace
    )


@compression(
    "CMP-016",
    "CMP-017",
    fragment="dropped turns of each attempt",
    report="outcomes that nobody reports",
    may="CMP-006 CMP-011",
)
def silent(ctx: Context) -> Compressor:
    """Nothing is reported to the trace."""

    return Compressor(ctx.policy, ctx.summarizer, timeout=ctx.summarizer_timeout, trace=lambda _: None)


@compression(
    "CMP-012",
    "CMP-014",
    "CMP-013",
    fragment="history with an earlier summary",
    report="a failure that takes more than it must",
    may="CMP-011 CMP-016",
)
def failure_loses_the_summary(ctx: Context) -> Compressor:
    """A summary that fails takes the earlier one with it."""

    return _LosesTheSummary(ctx.policy, ctx.summarizer, timeout=ctx.summarizer_timeout, trace=ctx.trace)


@compression(
    "CMP-008",
    fragment="summaries beyond the first place, 7 turns",
    report="anomalyco/opencode#24963",
    may="CMP SES-008 SES-009 SES-027",
)
def summary_comes_last(ctx: Context) -> Compressor:
    """The summary stands after the recent turns."""

    return _SummaryLast(ctx.policy, ctx.summarizer, timeout=ctx.summarizer_timeout, trace=ctx.trace)


@sessions(
    "CMP-009",
    fragment="got:      ['[会话摘要] not a summary', 'a']",
    report="strands-agents/harness-sdk#3614",
)
class SummaryByPrefix(InMemorySessionStore):
    """A message that begins like a summary is taken for one."""

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        history = await super().get_window(session_id, None)
        await super().get_window(session_id, limit)
        first = 1 if history and history[0].content.startswith("[会话摘要]") else 0
        messages = history[first:]
        return [*history[:first], *(messages if limit is None else messages[max(0, len(messages) - limit) :])]


@compression(
    "CMP-011", fragment="what is left", report="vellum-ai/vellum-assistant#34639", may="CMP SES-008 SES-009"
)
def summarizes_one_less(ctx: Context) -> Compressor:
    """The last turn that leaves is not given to the summarizer."""

    async def fewer(turns: Sequence[ChatTurn], /, *, max_chars: int) -> str:
        assert ctx.summarizer is not None
        return await ctx.summarizer(turns[:-1], max_chars=max_chars)

    return Compressor(ctx.policy, ctx.summarizer and fewer, timeout=ctx.summarizer_timeout, trace=ctx.trace)


@compression(
    "CMP-008",
    fragment="head of what it was given later",
    report="openclaw/openclaw#127997",
    may="CMP-002 CMP-011 CMP-012 CMP-013 CMP-014",
)
def earlier_summary_is_dropped(ctx: Context) -> Compressor:
    """The summarizer is given the messages that leave, without the earlier summary."""

    async def through(ask: Ask, turns: Sequence[ChatTurn], max_chars: int) -> str:
        return await ask([turn for turn in turns if turn.kind == "message"], max_chars)

    return _with(ctx, _asked(ctx, through))


@compression(
    "CMP-011",
    fragment="all that is covered or kept",
    report="openclaw/openclaw#109828",
    may="CMP-002 CMP-012 CMP-013 CMP-014",
)
def earlier_summary_comes_twice(ctx: Context) -> Compressor:
    """The earlier summary is given to the summarizer twice."""

    async def through(ask: Ask, turns: Sequence[ChatTurn], max_chars: int) -> str:
        return await ask([*(turn for turn in turns[:1] if turn.kind == "summary"), *turns], max_chars)

    return _with(ctx, _asked(ctx, through))


class _Beside(Rewrite):
    def apply(self, history: Sequence[ChatTurn]) -> list[ChatTurn]:
        earlier = [turn for turn in history[:1] if turn.kind == "summary" and turn != self.head]
        rewritten = super().apply(history)
        return [*rewritten[:1], *earlier, *rewritten[1:]]


class _Reversed(Rewrite):
    def apply(self, history: Sequence[ChatTurn]) -> list[ChatTurn]:
        rewritten = super().apply(history)
        return [*rewritten[:1], *reversed(rewritten[1:])] if self.head else rewritten[::-1]


def _applied(kind: type[Rewrite]) -> type[Compressor]:
    class Applied(Compressor):
        async def _propose(self, session_id: str, history: Sequence[ChatTurn]) -> Rewrite | CompressionEnded:
            found = await super()._propose(session_id, history)
            return kind(found.cut, found.head, found.event) if isinstance(found, Rewrite) else found

    return Applied


@compression(
    "CMP-008",
    fragment="summaries beyond the first place, 10 turns",
    report="NousResearch/hermes-agent#97321",
    may="CMP",
)
def two_summaries(ctx: Context) -> Compressor:
    """The earlier summary stays beside the new one."""
    return _with(ctx, ctx.summarizer, _applied(_Beside))


@compression(
    "CMP-002", fragment="history of 41 turns", report="run-llama/llama_index#22963", may="CMP SES-008 SES-009"
)
def rewriting_reverses(ctx: Context) -> Compressor:
    """The turns that stay are pushed back in the wrong direction."""
    return _with(ctx, ctx.summarizer, _applied(_Reversed))


@whole(
    "sessions",
    "CMP-011",
    fragment="what is left",
    report="Tarquinen/opencode-dynamic-context-pruning#538",
    may="CMP SES-008 SES-009",
)
def boundary_on_both_sides(ctx: Context) -> Stores:
    """The first turn that stays is given to the summarizer too."""
    store = _WithList(ctx, _one_more)
    return Stores(sessions=store, ttl=memory._Ttl(store, ctx))


@whole(
    "sessions",
    "CMP-018",
    fragment="messages after the summary",
    report="NousResearch/hermes-agent#76354",
    may="CMP-013",
)
def summarizer_gets_the_list_itself(ctx: Context) -> Stores:
    """What a summarizer does to the list that it is given is done to the stored turns."""
    store = _WithList(ctx, _in_place)
    return Stores(sessions=store, ttl=memory._Ttl(store, ctx))


@whole("sessions", "CMP-013", fragment="history after the late answer", report="a late result that is taken")
def late_summary_is_taken(ctx: Context) -> Stores:
    """A summary that comes after the summarizer was given up is put before the history all the same."""
    store = _WithList(ctx, _late)
    return Stores(sessions=store, ttl=memory._Ttl(store, ctx))


Given: TypeAlias = Callable[[Ask, _Session, Sequence[ChatTurn], int], Coroutine[Any, Any, str]]


class _WithList(InMemorySessionStore):
    """A summarizer beside which stands the session for which it is called."""

    def __init__(self, ctx: Context, given: Given) -> None:
        async def through(ask: Ask, turns: Sequence[ChatTurn], max_chars: int) -> str:
            return await given(ask, self._of(turns), turns, max_chars)

        compressor = _with(ctx, _asked(ctx, through))
        super().__init__(compressor, ttl_seconds=ctx.ttl_seconds, now=ctx.now)

    def _of(self, turns: Sequence[ChatTurn]) -> _Session:
        ids = [turn.turn_id for turn in turns]
        found = (session for session in self._sessions.values() if _ids(session, len(ids)) == ids)
        return next(found, _Session())


def _ids(session: _Session, count: int) -> list[str]:
    return [turn.turn_id for turn in session.turns[:count]]


async def _one_more(ask: Ask, session: _Session, turns: Sequence[ChatTurn], max_chars: int) -> str:
    return await ask([*turns, *session.turns[len(turns) : len(turns) + 1]], max_chars)


async def _in_place(ask: Ask, session: _Session, turns: Sequence[ChatTurn], max_chars: int) -> str:
    given = list(turns)
    text = await ask(given, max_chars)
    session.turns[: len(turns)] = given
    return text


async def _late(ask: Ask, session: _Session, turns: Sequence[ChatTurn], max_chars: int) -> str:
    text = await ask(turns, max_chars)
    if turns[0] not in session.turns:
        session.turns.insert(0, ChatTurn("system", text, kind="summary"))
    return text


@compression("CMP-010", fragment="asked lengths", report="a length that nobody set")
def asks_for_a_thousand(ctx: Context) -> Compressor:
    """A thousand characters are asked of the summarizer."""

    async def through(ask: Ask, turns: Sequence[ChatTurn], max_chars: int) -> str:
        return await ask(turns, max(max_chars, 1000))

    return _with(ctx, _asked(ctx, through))


@compression(
    "CMP-016",
    fragment="dropped turns of each attempt",
    report="turns that disappear unreported",
    may="CMP-011 CMP-017",
)
def dropped_are_counted(ctx: Context) -> Compressor:
    """An outcome says that turns were dropped, and not which."""
    return Compressor(
        ctx.policy,
        ctx.summarizer,
        timeout=ctx.summarizer_timeout,
        trace=lambda event: ctx.trace(replace(event, dropped=())),
    )
