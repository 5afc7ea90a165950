"""The fixture of all checks: opens a backend under a context, and hands out its stores, watched."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast
from uuid import uuid4

from conformance.backend import Backend, BadBackend, Claims, Context, Stores, TtlHooks, check_stores
from conformance.expect import expect_error, not_evaluable
from conformance.llm.opening import Noting, Opening
from conformance.llm.server import ModelServer
from conformance.model import View, view
from conformance.provenance import Ledger
from conformance.recorder import Hang, Program, Recorder
from conformance.services import Server
from memcore import ChatTurn, CompressionEnded, EpisodicStore, PreferenceStore, SessionStore


@dataclass(frozen=True, slots=True)
class Kit:
    """An open backend, and what the kit gave to it.

    Args:
        backend: Which.
        ctx: The context under which it was opened.
        stores: What it yielded; use `sessions`, `preferences` and `episodes` instead.
        ledger: The summarizer that it was given.
        events: What it reported to the trace.
        program: The calls of this check.
        model: What answers for the models, where the backend calls them itself.
    """

    backend: Backend
    ctx: Context
    stores: Stores
    ledger: Ledger
    events: list[CompressionEnded]
    program: Program
    model: Opening | None = None

    @property
    def claims(self) -> Claims:
        """What the backend promises."""
        return self.backend.claims

    @property
    def sessions(self) -> SessionStore:
        """Its session store, watched."""
        store = self.stores.sessions
        noting = Noting(store, self.model) if store is not None and self.model is not None else store
        return cast(SessionStore, self._watched("sessions", noting))

    @property
    def preferences(self) -> PreferenceStore:
        """Its preference store, watched."""
        return cast(PreferenceStore, self._watched("preferences", self.stores.preferences))

    @property
    def episodes(self) -> EpisodicStore:
        """Its episodic store, watched."""
        return cast(EpisodicStore, self._watched("episodes", self.stores.episodes))

    @property
    def ttl(self) -> TtlHooks:
        """The hooks that see and cause expiry; without them a check cannot be evaluated."""
        if self.stores.ttl is None:
            not_evaluable("the backend gives no ttl hooks (remaining_ttl, expire_now, residue)")
        return self.stores.ttl

    async def residue(self, text: str) -> list[str]:
        """Where a text stands in raw storage; without the hook a check cannot be evaluated."""
        if self.stores.residue is None:
            not_evaluable("the backend gives no hook residue")
        return sorted(await self.stores.residue(text))

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        """Append, and wait until the compression has ended where the backend compresses late."""
        await self.sessions.append(session_id, *turns)
        await self.at_rest()

    async def at_rest(self) -> None:
        """Until compressions that were triggered have ended, where the backend compresses late."""
        if self.claims.compress_late:
            waiting = self.stores.quiesce()
            if inspect.isawaitable(waiting):
                await waiting

    async def view(self, session_id: str) -> View:
        """The history, with its summary resolved to what it covers."""
        return view(await self.sessions.get_history(session_id), self.ledger)

    async def order(self, session_id: str) -> list[str]:
        """Contents of all messages that the history stands for, verbatim or by its summary."""
        return list(self.ledger.order(await self.sessions.get_history(session_id)))

    async def contents(self, session_id: str) -> list[str]:
        """Contents of the history, as they are."""
        return [turn.content for turn in await self.sessions.get_history(session_id)]

    async def refused(
        self, clause: str, what: str, method: Callable[..., Awaitable[object]], *args: object
    ) -> None:
        """A call of `method` with `args` has to be refused by a typed error."""
        await expect_error(clause, what, partial(method, *args), self.stores.classify, "refused")

    async def conflicts(
        self, clause: str, what: str, method: Callable[..., Awaitable[object]], *args: object
    ) -> None:
        """A call of `method` with `args` has to be refused as a conflict with what is stored."""
        await expect_error(clause, what, partial(method, *args), self.stores.classify, "conflict")

    def _watched(self, name: str, store: object) -> Recorder:
        if store is None:
            raise LookupError(f"backend {self.backend.name!r} claims {name} and yields no such store")
        return Recorder(name, store, self.program)


def run_name(worker: str = "") -> str:
    """A name that no other run has, nor another worker of this one, of what a namespace may consist of."""
    middle = "".join(c for c in worker if c.isascii() and c.isalnum())
    return "-".join(filter(None, ["memcore", middle, uuid4().hex[:8]]))


@dataclass(slots=True)
class World:
    """One backend for the time of a run.

    Args:
        backend: Which.
        servers: The servers that run for it.
        seed: Of every random choice of the run.
        run: Opens every namespace of this run.
    """

    backend: Backend
    servers: dict[str, Server]
    seed: int
    run: str
    program: Program = field(default_factory=Program)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _opened: bool | None = None
    _models: ModelServer = field(default_factory=ModelServer)

    @property
    def claims(self) -> Claims:
        """What the backend promises."""
        return self.backend.claims

    def namespace(self) -> str:
        """A namespace that was not used before."""
        return f"{self.run}-{next(self._numbers)}"

    @asynccontextmanager
    async def open(self, *, ledger: Ledger | None = None, **overrides: Any) -> AsyncIterator[Kit]:
        """Open the backend in a namespace of its own, with a ledger; `overrides` are fields of `Context`.

        With the namespace of a backend that is open, this opens another store object on the same data.
        """
        ledger, events = ledger or Ledger(), list[CompressionEnded]()
        ctx = Context(
            namespace=self.namespace(), servers=self.servers, summarizer=ledger, trace=events.append
        )
        ctx = replace(ctx, again="namespace" in overrides, **overrides)
        async with self._with_models(ctx) as (ctx, model), self._stores(ctx) as stores:
            yield Kit(self.backend, ctx, stores, ledger, events, self.program, model)

    def close(self) -> None:
        """End what runs in this process for the backend."""
        self._models.close()

    @asynccontextmanager
    async def _with_models(self, ctx: Context) -> AsyncIterator[tuple[Context, Opening | None]]:
        """The context with the address of models, where the backend calls them itself."""
        if not self.backend.calls_model:
            yield ctx, None
            return
        asked = self._models.opening(ctx.namespace, ctx.summarizer, dimension=ctx.dimension, model=ctx.model)
        async with asked as (url, model):
            yield replace(ctx, llm_url=url), model

    @asynccontextmanager
    async def _stores(self, ctx: Context) -> AsyncIterator[Stores]:
        opening = self.backend.open(ctx)
        try:
            stores = await self.program.in_time("opening the backend", opening.__aenter__)
        except Exception as error:
            if not await self._opens_at_all():
                # The check could not begin, which is not the same as a promise that was broken.
                self.program.unopened = error
            raise
        async with AsyncExitStack() as stack:
            stack.push_async_exit(partial(self._close, opening))
            try:
                check_stores(self.backend, stores)
            except BadBackend as error:
                self.program.unopened = error
                raise
            yield stores

    async def _close(self, opening: AbstractAsyncContextManager[Stores], *raised: Any) -> bool | None:
        try:
            return await self.program.in_time("closing the backend", partial(opening.__aexit__, *raised))
        except Hang:
            raise
        except Exception as error:
            if raised[1] is not None:
                # What the check found comes first.
                raise
            problem = BadBackend(
                f"closing {self.backend.name} raised {type(error).__name__}: {error}; yield once, and let "
                "nothing raise after that"
            )
            self.program.unopened = problem
            raise problem from error

    async def _opens_at_all(self) -> bool:
        if self._opened is None:
            plain = Context(namespace=self.namespace(), servers=self.servers)
            try:
                async with self._with_models(plain) as (ctx, _):
                    opening = self.backend.open(ctx)
                    await self.program.in_time("opening the backend", opening.__aenter__)
                    await self.program.in_time(
                        "closing the backend", partial(opening.__aexit__, None, None, None)
                    )
            except Exception:
                self._opened = False
            else:
                self._opened = True
        return self._opened
