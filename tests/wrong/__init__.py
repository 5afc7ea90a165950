"""Backends that are wrong on purpose, each in one way in which real stores were wrong.

A decorator registers a class under its name in capitals, with the clauses that have to fail on it.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from conformance.backend import Backend, Context, Layer, Stores, backend
from conformance.backends import memory
from memcore import Compressor, InMemoryEpisodicStore, InMemoryPreferenceStore, InMemorySessionStore


@dataclass(frozen=True, slots=True)
class Wrong:
    """Where a wrong backend is, and the clauses that have to fail on it."""

    place: str
    clauses: tuple[str, ...]


WRONG: dict[str, Wrong] = {}
"""All of them, by name; those of a module are there once it is imported."""


def registered(
    module: str,
    layer: Layer,
    name: str,
    clauses: Sequence[str],
    made: Callable[[Context], Stores],
    **claims: Any,
) -> Backend:
    """Make a backend with one layer, and put it under its name into the module that defines it."""

    @backend(name, replace(memory.CLAIMS, layers=frozenset({layer}), **claims))
    async def opened(ctx: Context) -> AsyncIterator[Stores]:
        stores = made(ctx)
        yield stores
        for store in (stores.sessions, stores.preferences, stores.episodes):
            if store is not None:
                await store.aclose()

    WRONG[name] = Wrong(f"{module}:{name}", tuple(clauses))
    setattr(sys.modules[module], name, opened)
    return opened


def sessions(
    *clauses: str, **claims: Any
) -> Callable[[type[InMemorySessionStore]], type[InMemorySessionStore]]:
    """Register a session store, with claims that differ from those of the reference."""

    def register(kind: type[InMemorySessionStore]) -> type[InMemorySessionStore]:
        def made(ctx: Context) -> Stores:
            store = kind(ctx.compressor(), ttl_seconds=ctx.ttl_seconds, now=ctx.now)
            return Stores(sessions=store, ttl=memory._Ttl(store, ctx))

        registered(kind.__module__, "sessions", kind.__name__.upper(), clauses, made, **claims)
        return kind

    return register


def compression(name: str, *clauses: str) -> Callable[[Callable[[Context], Compressor]], object]:
    """Register a session store with a compressor of its own."""

    def register(compressor: Callable[[Context], Compressor]) -> object:
        def made(ctx: Context) -> Stores:
            store = InMemorySessionStore(compressor(ctx), ttl_seconds=ctx.ttl_seconds, now=ctx.now)
            return Stores(sessions=store, ttl=memory._Ttl(store, ctx))

        return registered(compressor.__module__, "sessions", name, clauses, made)

    return register


def preferences(
    *clauses: str, **claims: Any
) -> Callable[[type[InMemoryPreferenceStore]], type[InMemoryPreferenceStore]]:
    """Register a preference store, with claims that differ from those of the reference."""

    def register(kind: type[InMemoryPreferenceStore]) -> type[InMemoryPreferenceStore]:
        def made(ctx: Context) -> Stores:
            store = kind(now=ctx.now)
            return Stores(preferences=store, residue=memory.residue(store))

        registered(kind.__module__, "preferences", kind.__name__.upper(), clauses, made, **claims)
        return kind

    return register


def episodes(
    *clauses: str, **claims: Any
) -> Callable[[type[InMemoryEpisodicStore]], type[InMemoryEpisodicStore]]:
    """Register an episodic store, with claims that differ from those of the reference."""

    def register(kind: type[InMemoryEpisodicStore]) -> type[InMemoryEpisodicStore]:
        def made(ctx: Context) -> Stores:
            store = kind(model=ctx.model, dimension=ctx.dimension, now=ctx.now)
            return Stores(episodes=store, residue=memory.residue(store))

        registered(kind.__module__, "episodes", kind.__name__.upper(), clauses, made, **claims)
        return kind

    return register
