"""Decorators that turn a class into a backend with one layer, and enter it as a mutant.

```python
@sessions("SES-008", fragment="window of 1", report="yaalalabs/agent-kernel#739")
class OldestWindow(InMemorySessionStore):
    \"\"\"A window has the oldest messages.\"\"\"
```

The name of the class, in capitals, is that of the mutant, and its docstring the note. `may` has clauses or
whole chapters, such as `"CMP SES-008"`. Keywords that are no fields of `Mutant` are claims that differ from
those of the reference.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from conformance.backend import Backend, Claims, Context, Layer, Stores, backend
from conformance.backends import memory
from conformance.catalogue import checked
from conformance.mutants.mutant import Mutant, enter
from memcore import Compressor, InMemorySessionStore
from memcore.sessions.memory import _Session

Make: TypeAlias = Callable[[Context], Stores]
Named = TypeVar("Named", bound=Callable[..., Any])
_SAID = ("fragment", "report", "may", "killable_at", "role", "blind")


def sessions(*clauses: str, **said: Any) -> Callable[[Named], Named]:
    """Enter a session store; `hooks=False` gives it no TTL hooks, `quiesce` names a method to wait with."""
    hooks, quiesce = said.pop("hooks", True), said.pop("quiesce", None)

    def made(kind: Callable[..., Any], ctx: Context) -> Stores:
        store = kind(ctx.compressor(), ttl_seconds=ctx.ttl_seconds, now=ctx.now)
        ttl = memory._Ttl(store, ctx) if hooks else None
        more = {"quiesce": getattr(store, quiesce)} if quiesce else {}
        return Stores(sessions=store, ttl=ttl, **more, **_errors_of(store))

    return _entered("sessions", clauses, made, said)


def compression(*clauses: str, **said: Any) -> Callable[[Named], Named]:
    """Enter a session store with the compressor that a function makes of a context."""

    def made(compressor: Callable[[Context], Compressor], ctx: Context) -> Stores:
        store = InMemorySessionStore(compressor(ctx), ttl_seconds=ctx.ttl_seconds, now=ctx.now)
        return Stores(sessions=store, ttl=memory._Ttl(store, ctx))

    return _entered("sessions", clauses, made, said)


def preferences(*clauses: str, **said: Any) -> Callable[[Named], Named]:
    """Enter a preference store."""
    residue = _residue(said)

    def made(kind: Callable[..., Any], ctx: Context) -> Stores:
        store = kind(now=ctx.now)
        return Stores(preferences=store, residue=residue(store), **_errors_of(store))

    return _entered("preferences", clauses, made, said)


def episodes(*clauses: str, **said: Any) -> Callable[[Named], Named]:
    """Enter an episodic store."""
    residue = _residue(said)

    def made(kind: Callable[..., Any], ctx: Context) -> Stores:
        store = kind(model=ctx.model, dimension=ctx.dimension, now=ctx.now)
        return Stores(episodes=store, residue=residue(store), **_errors_of(store))

    return _entered("episodes", clauses, made, said)


def whole(layer: Layer, *clauses: str, **said: Any) -> Callable[[Make], Make]:
    """Enter what a function makes of a context: a store that needs more than its siblings."""
    return _entered(layer, clauses, lambda make, ctx: make(ctx), said)


def opened(name: str, module: str, layer: Layer, made: Make, claims: Mapping[str, Any]) -> Backend:
    """A backend of one layer in process memory, under its name in the module that defines it."""

    @backend(name, claimed(memory.CLAIMS, layer, claims))
    async def of_mutant(ctx: Context) -> AsyncIterator[Stores]:
        stores = made(ctx)
        async with AsyncExitStack() as stack:
            for store in (stores.sessions, stores.preferences, stores.episodes):
                if store is not None:
                    stack.push_async_callback(store.aclose)
            yield stores

    setattr(sys.modules[module], name, of_mutant)
    return of_mutant


def claimed(reference: Claims, layer: Layer, claims: Mapping[str, Any]) -> Claims:
    """Claims of the reference, for one layer, with some that differ."""
    return replace(reference, layers=frozenset({layer}), **claims)


def said_of(backend: Backend, defined: Callable[..., Any], clauses: tuple[str, ...], **said: Any) -> None:
    """Enter a backend as the mutant that a class or function defines."""
    # An inherited docstring is that of another store.
    note = inspect.cleandoc(defined.__doc__ or "") if "__doc__" in vars(defined) else defined.__doc__ or ""
    enter(
        Mutant(
            name=backend.name,
            place=f"{defined.__module__}:{backend.name}",
            kind=backend.servers[0] if backend.servers else "in process",  # type: ignore[arg-type]
            note=" ".join(note.split("\n\n")[0].split()),
            clauses=clauses,
            may=frozenset(clause for name in said.pop("may", "").split() for clause in _named(name)),
            **said,
        )
    )


def capitals(name: str) -> str:
    """`OldestWindow` and `oldest_window` as `OLDEST_WINDOW`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).strip("_").upper()


def _named(name: str) -> list[str]:
    """A clause, or those of a chapter that have a check: what a broken store may fail all over."""
    return [name] if "-" in name else [clause for clause in sorted(checked()) if clause.startswith(name)]


def parted(said: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is said of a mutant, and what it claims."""
    about = {name: value for name, value in said.items() if name in _SAID}
    return about, {name: value for name, value in said.items() if name not in _SAID}


def _entered(
    layer: Layer, clauses: tuple[str, ...], made: Callable[[Any, Context], Stores], said: dict[str, Any]
) -> Callable[[Named], Named]:
    about, claims = parted(said)

    def register(defined: Named) -> Named:
        name = capitals(defined.__name__)
        found = opened(name, defined.__module__, layer, lambda ctx: made(defined, ctx), claims)
        said_of(found, defined, clauses, **about)
        return defined

    return register


def _residue(said: Mapping[str, Any]) -> Callable[[object], Any]:
    """What makes the hook of a store, where it is claimed."""
    return memory.residue if said.get("residue", True) else lambda _: None


def _errors_of(store: object) -> dict[str, Any]:
    classify = getattr(store, "classify", None)
    return {"classify": classify} if classify else {}


def is_text(value: object) -> bool:
    """Whether this is a text; checks give what is none too."""
    return isinstance(value, str)


def text_of(value: object, name: str) -> str:
    """A text of what a caller gave; empty where it has none."""
    found = getattr(value, name, None)
    return found if isinstance(found, str) else ""


def stored(store: InMemorySessionStore, session_id: object) -> _Session | None:
    """A session as it lies in memory, if that is an id and there is one."""
    return store._sessions.get(session_id) if isinstance(session_id, str) else None
