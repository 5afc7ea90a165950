"""Stores that are made to look right to this kit: what it sees of that, and what it cannot see."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from conformance.backend import Context, ErrorClass, Stores
from conformance.backends import memory
from conformance.mutants import making
from conformance.mutants.compression_outcome import Ask, _asked, _with
from conformance.mutants.making import is_text
from conformance.mutants.session_identity import _Kept, _on_a_shelf
from conformance.provenance import Call, Ledger
from memcore import ChatTurn, Compressor, InMemorySessionStore, SessionSummary
from memcore.policy import Size

cheat = partial(making.sessions, role="cheater")
compression = partial(making.compression, role="cheater")
whole = partial(making.whole, role="cheater")


@whole(
    "sessions",
    report="the marks of the kit: its namespaces",
    blind="The namespaces of the kit begin with memcore-, and a store that is right there alone looks right.",
)
def knows_the_namespace(ctx: Context) -> Stores:
    """Turns are stored where the namespace is one of this kit, and nowhere else."""

    class Elsewhere(InMemorySessionStore):
        async def append(self, session_id: str, *turns: ChatTurn) -> None:
            if ctx.namespace.startswith("memcore-"):
                await super().append(session_id, *turns)

    store = Elsewhere(ctx.compressor(), ttl_seconds=ctx.ttl_seconds, now=ctx.now)
    return Stores(sessions=store, ttl=memory._Ttl(store, ctx))


@compression(
    "CMP-010",
    fragment="got:      '[会话摘要] §0§'",
    report="the marks of the kit: its summaries",
    may="CMP-007",
)
def keeps_the_token(ctx: Context) -> Compressor:
    """Of a summary the token is kept by which the kit knows it."""

    async def through(ask: Ask, turns: Sequence[ChatTurn], max_chars: int) -> str:
        text = await ask(turns, max_chars)
        return text.rstrip("…") if is_text(text) and "§" in text else text

    return _with(ctx, _asked(ctx, through))


@compression(
    "CMP-002", fragment="calls of the summarizer", report="the marks of the kit: its summaries", may="CMP"
)
def writes_the_token(ctx: Context) -> Compressor:
    """No summarizer is called: the token is entered into the ledger, and stored."""

    async def through(ask: Ask, turns: Sequence[ChatTurn], max_chars: int) -> str:
        ledger = ctx.summarizer
        if type(ledger) is not Ledger or ledger.behave:
            return await ask(turns, max_chars)
        ledger._covered.append(ledger.order(turns))
        return f"§{len(ledger._covered) - 1}§"

    return _with(ctx, _asked(ctx, through))


@compression(
    report="the marks of the kit: its ledger",
    blind="A store in the kit's own process can rewrite what the kit keeps; only another process could not.",
)
def rewrites_the_ledger(ctx: Context) -> Compressor:
    """The summarizer is given one turn less, and the ledger made to say that it was given all."""

    async def through(ask: Ask, turns: Sequence[ChatTurn], max_chars: int) -> str:
        ledger = ctx.summarizer
        if not isinstance(ledger, Ledger):
            return await ask(turns, max_chars)
        text = await ask(turns[:-1], max_chars)
        ledger.calls[-1] = Call(tuple(turns), max_chars)
        if is_text(text) and "§" in text:
            ledger._covered[-1] = ledger.order(turns)
        return text

    return _with(ctx, _asked(ctx, through))


@whole(
    "sessions",
    report="an answer from a cache",
    killable_at=3,
    blind="A check opens its second store object in the same process, and a cache of the process serves it.",
    persistent=True,
)
def cache_of_the_process(ctx: Context) -> Stores:
    """Nothing is written: what is claimed to be persistent is a dictionary that all objects share."""
    return _on_a_shelf(_Kept(ctx))


@whole("sessions", "SES-040", fragment="history and list", report="an answer from a cache", persistent=True)
def cache_of_the_object(ctx: Context) -> Stores:
    """Answers come from a cache of the object; what is written behind it lacks the summaries."""
    store = _Kept(ctx)
    for session in store._sessions.values() if ctx.again else ():
        session.turns, session.updated_at = session.turns[-1:], session.updated_at
    return _on_a_shelf(store)


@cheat("CMP-019", fragment="got:      'it waits for it'", report="one call at a time", may="CMP-021 SES-017")
class Serializes(InMemorySessionStore):
    """One lock is around everything, the summarizer included."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.lock = asyncio.Lock()

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        async with self.lock:
            await super().append(session_id, *turns)

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        async with self.lock:
            return await super().get_window(session_id, limit)


@cheat(
    report="one call at a time",
    blind="One lock around every call is right by the contract; only the time that it takes shows it.",
)
class SerializesCalls(InMemorySessionStore):
    """One lock is around every call, but not around the summarizer."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.lock = asyncio.Lock()

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        async with self.lock:
            await asyncio.sleep(0)
            return await super().get_window(session_id, limit)

    async def list_sessions(self) -> list[SessionSummary]:
        async with self.lock:
            await asyncio.sleep(0)
            return await super().list_sessions()


@cheat(
    report="a bound that no check reaches",
    blind="No check appends more than 9,000 turns to a session, so what happens beyond is not seen.",
)
class TenThousandAtMost(InMemorySessionStore):
    """Of a session of more than 10,000 turns the newest stay."""

    def _store(self, session_id: str, batch: Sequence[ChatTurn]) -> Size:
        size = super()._store(session_id, batch)
        del self._sessions[session_id].turns[:-10_000]
        return size


@cheat(
    "SES-025",
    fragment="history a second after its end",
    report="a time to live that never fires: tomcounsell/ai#2698",
)
class ExpiresWhenTold(InMemorySessionStore):
    """A session goes when the kit's hook says so, and never by itself."""

    def _drop_expired(self) -> None:
        for name in [name for name, session in self._sessions.items() if session.expires_at == 0.0]:
            del self._sessions[name]


@cheat("SES-028", fragment="an append of ChatTurn(role=", report="errors that are all called refusals")
class EverythingIsRefused(InMemorySessionStore):
    """Whatever goes wrong is said to be a refusal."""

    def classify(self, _: BaseException) -> ErrorClass:
        return "refused"


@cheat(
    "SES-014",
    fragment="'NoneType' object has no attribute 'strip'",
    report="errors that are all called refusals",
)
class AccidentsAreRefusals(InMemorySessionStore):
    """Nothing is checked: a bad id runs into an error of Python, which is said to be a refusal."""

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        if is_text(session_id):
            return await super().get_window(session_id, limit)
        return list(self._sessions[session_id.strip()].turns)

    def classify(self, error: BaseException) -> ErrorClass:
        return "conflict" if "Conflict" in type(error).__name__ else "refused"
