"""What a backend author fills in: a name, claims, and an async generator that opens the stores.

```python
from conformance.backend import Claims, Context, Stores, backend

@backend("mine", Claims(layers=frozenset({"sessions"}), atomic_batches=True))
async def BACKEND(ctx: Context) -> AsyncIterator[Stores]:
    async with MyStore(prefix=ctx.namespace) as store:
        yield Stores(sessions=store)
```
"""

from __future__ import annotations

import importlib
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Literal, Protocol, TypeAlias

from conformance.entry import BUILT_IN
from conformance.llm.embedding import embed
from conformance.services import Server
from memcore import (
    MAX_ID_LENGTH,
    MAX_KEY_LENGTH,
    MAX_TEXT_BYTES,
    MAX_VALUE_LENGTH,
    SESSION_TTL_SECONDS,
    SUMMARIZER_TIMEOUT_SECONDS,
    Compressor,
    CountPolicy,
    EpisodicStore,
    InvalidArgument,
    Policy,
    PreferenceStore,
    SessionStore,
    StoreUnavailable,
    Summarizer,
    Trace,
    TurnConflict,
)
from memcore.guards import MAX_DIMENSION
from memcore.tokens import TokenCounter, estimate_tokens
from memcore.trace import log_event

Layer: TypeAlias = Literal["sessions", "preferences", "episodes"]
LAYERS: tuple[Layer, ...] = ("sessions", "preferences", "episodes")
METHODS: dict[Layer, tuple[str, ...]] = {
    "sessions": ("append", "get_window", "get_history", "clear", "list_sessions"),
    "preferences": ("get", "set", "all", "delete", "forget"),
    "episodes": ("remember", "recall", "forget"),
}
"""What a store of each layer is asked for."""
ENTRY_POINTS = "memcore.backends"
"""Group of the entry points by which an installed package names its backends."""
ErrorClass: TypeAlias = Literal["refused", "conflict", "unavailable", "unsupported", "fail", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a backend promises beyond the required clauses, and the limits that it sets instead of ours.

    Args:
        layers: The stores that it has.
        max_id_length: Longest id of any kind, in code points; at least 64.
        max_text_bytes: Longest content of a turn and summary of an episode, in bytes of UTF-8; at least 8192.
        max_key_length: Code points to which preference keys are cut.
        max_value_length: Code points to which preference values are cut.
        max_dimension: Largest dimension of an embedding.
        nul: NUL characters in texts come back; otherwise they are refused.
        ttl: Resolution of the time to live, in seconds; `None` if sessions do not expire.
        idempotent: For how many later turns a turn sent again is recognized, at least 100: fewer protect
            nobody. `None` if it is not.
        atomic_batches: An append of several turns is one write.
        compresses: Sessions are compressed under the policy of the context.
        watermark: By tokens too, not by count only.
        compress_late: Compression may end after the append that triggered it has returned.
        traces: Outcomes of compressions are reported to `ctx.trace`.
        injected_clock: Time comes from `ctx.now`, so that checks can move it.
        snapshot: `all` shows the preferences of one instant.
        persistent: What is stored outlives the store object.
        residue: The hook `residue` shows whatever is left in raw storage.
        approximate: Recall that an approximate search reaches, from 0 to 1; `None` if search is exact.
        exact_up_to: Up to so many episodes of a user, search is exact although it is approximate above.
        shared: Store objects in several processes work on the same data.
        durable: Acknowledged writes survive faults of network and server.
    """

    layers: frozenset[Layer]
    max_id_length: int = MAX_ID_LENGTH
    max_text_bytes: int = MAX_TEXT_BYTES
    max_key_length: int = MAX_KEY_LENGTH
    max_value_length: int = MAX_VALUE_LENGTH
    max_dimension: int = MAX_DIMENSION
    nul: bool = True
    ttl: float | None = None
    idempotent: int | None = None
    atomic_batches: bool = False
    compresses: bool = False
    watermark: bool = False
    compress_late: bool = False
    traces: bool = False
    injected_clock: bool = False
    snapshot: bool = False
    persistent: bool = False
    residue: bool = False
    approximate: float | None = None
    exact_up_to: int = 0
    shared: bool = False
    durable: bool = False

    def __post_init__(self) -> None:
        unknown = sorted(set(self.layers) - set(LAYERS))
        if unknown:
            raise ValueError(f"Claims: layers has {', '.join(unknown)}; there are {', '.join(LAYERS)}")
        for name, least in (("max_id_length", 64), ("max_text_bytes", 8192), ("idempotent", 100)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"Claims: {name}={value} is below {least}, the least to check")

    def exact_for(self, episodes: int) -> bool:
        """Whether recall of a user who has so many episodes gives the best, all of them and in order."""
        return self.approximate is None or episodes <= self.exact_up_to

    def makes(self, claim: str) -> bool:
        """Whether the claim of this name is made; `a+b` is made if both are."""
        values = [getattr(self, name) for name in claim.split("+")]
        return all(value is not None and value is not False for value in values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the kit gives to a backend that it opens.

    Args:
        namespace: Opens every key, table or file of this opening: letters, digits, `-` and `_`.
        servers: The running servers that the backend asked for, by kind.
        policy: When to compress and what to keep: a `CountPolicy` or a `TokenWatermarkPolicy`.
        summarizer: Writes the summaries; `None` for a store that has none.
        summarizer_timeout: Seconds that a summary may take.
        trace: Gets `memcore.CompressionEnded` for every attempt to compress.
        ttl_seconds: Time to live of a session.
        now: The clock for stores without a server's, in seconds since the epoch.
        model: Name of the embedding model.
        dimension: Its dimension.
        llm_url: Where a backend with `calls_model` finds models: an OpenAI-compatible API with
            `/chat/completions`, `/embeddings` and `/models`, ending in `/v1`, any key; else empty. What a
            client prefers by itself, such as `HTTP_PROXY` for this address, is the backend's to switch off.
        again: Whether the namespace is open already, by another store object of this backend, which removes
            what is in it when it is closed; this one must not.
    """

    namespace: str
    servers: dict[str, Server] = field(default_factory=dict)
    policy: Policy = field(default_factory=CountPolicy)
    summarizer: Summarizer | None = None
    summarizer_timeout: float = SUMMARIZER_TIMEOUT_SECONDS
    trace: Trace = log_event
    ttl_seconds: float = SESSION_TTL_SECONDS
    now: Callable[[], float] = time.time
    model: str = "conformance-embedding"
    dimension: int = 8
    llm_url: str = ""
    again: bool = False

    @property
    def count_tokens(self) -> TokenCounter:
        """Counts the tokens of a text, as the policy does."""
        counter: TokenCounter = getattr(self.policy, "count_tokens", estimate_tokens)
        return counter

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Vectors of length 1 and of `dimension`: equal for equal texts, unrelated for different ones."""
        return [embed(text, self.dimension) for text in texts]

    def compressor(self) -> Compressor:
        """All that compression needs, for a store that leaves it to memcore."""
        return Compressor(self.policy, self.summarizer, timeout=self.summarizer_timeout, trace=self.trace)


class TtlHooks(Protocol):
    """How the kit sees and causes expiry, on the test side of a backend."""

    async def remaining_ttl(self, session_id: str) -> float | None:
        """Seconds until the session expires; `None` if it does not, or is not there."""

    async def expire_now(self, session_id: str) -> None:
        """Let the time of this session run out, in the way in which it would by itself."""

    async def residue(self) -> Sequence[str]:
        """Names of whatever is stored in this namespace, expired or not."""


def classify_memcore(error: BaseException) -> ErrorClass:
    """How the errors of memcore are to be read."""
    if isinstance(error, InvalidArgument):
        return "refused"
    if isinstance(error, TurnConflict):
        return "conflict"
    return "unavailable" if isinstance(error, StoreUnavailable) else "fail"


async def _at_rest() -> None:
    """A backend that compresses within the append has nothing to wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """What a backend yields once it is open: any of the three stores, and hooks that unlock checks.

    Args:
        sessions, preferences, episodes: The stores.
        ttl: Sees and causes expiry; without it the clauses of the TTL cannot be evaluated.
        residue: Places in the raw storage of this namespace where a text still stands, such as names of
            tables and keys; forms of it that indexes hold count too.
        classify: Reads the exceptions of the backend.
        quiesce: Returns once compressions that were triggered have ended.
    """

    sessions: SessionStore | None = None
    preferences: PreferenceStore | None = None
    episodes: EpisodicStore | None = None
    ttl: TtlHooks | None = None
    residue: Callable[[str], Awaitable[Sequence[str]]] | None = None
    classify: Callable[[BaseException], ErrorClass] = classify_memcore
    quiesce: Callable[[], object] = _at_rest


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend under test.

    Args:
        name: Its column in the report.
        claims: What it promises.
        servers: Kinds of servers that the kit shall provide.
        open: Opens the stores for the time of a context.
        calls_model: It calls a model itself, at `Context.llm_url`.
    """

    name: str
    claims: Claims
    servers: tuple[str, ...]
    open: Callable[[Context], AbstractAsyncContextManager[Stores]]
    calls_model: bool = False


def backend(
    name: str, claims: Claims, *, servers: Sequence[str] = (), calls_model: bool = False
) -> Callable[[Callable[[Context], AsyncIterator[Stores]]], Backend]:
    """Turn an async generator that yields `Stores` once into a `Backend`.

    Args:
        name: Its column in the report.
        claims: What it promises.
        servers: Kinds of servers that the kit shall provide.
        calls_model: It calls a model itself, so the kit shall answer at `Context.llm_url`. What a backend
            needs, as `servers`; it promises nothing by it.

    Raises:
        BadBackend: It is no async generator.
    """

    def decorate(generator: Callable[[Context], AsyncIterator[Stores]]) -> Backend:
        if not inspect.isasyncgenfunction(generator):
            raise BadBackend(f"{name}: decorate an async generator: async def, and one yield")
        return Backend(name, claims, tuple(servers), asynccontextmanager(generator), calls_model)

    return decorate


class BadBackend(Exception):
    """A backend does not keep to the form that the kit needs; the message tells its author what to do."""


def check_stores(backend: Backend, stores: object) -> None:
    """Refuse what was yielded if it is not what the backend claims, layer by layer.

    Raises:
        BadBackend: It is no `Stores`, lacks a layer or a method, or has a layer that is not claimed.
    """
    name = backend.name
    if not isinstance(stores, Stores):
        raise BadBackend(f"{name} yields {type(stores).__name__}; yield conformance.backend.Stores(…)")
    for layer in LAYERS:
        store, claimed = getattr(stores, layer), layer in backend.claims.layers
        if (store is not None) != claimed:
            what = f"claims {layer} and yields none" if claimed else f"yields {layer} and does not claim them"
            raise BadBackend(f"{name} {what}; name in Claims(layers=…) what Stores(…) has")
        lacking = [
            method for method in METHODS[layer] if claimed and not callable(getattr(store, method, None))
        ]
        if lacking:
            raise BadBackend(f"{name}: its {layer} store has no method {', '.join(lacking)}")


class UnknownBackend(Exception):
    """There is no backend of this name, or at this place."""


def resolve(name: str) -> Backend:
    """The backend called `memory`, `redis` or `pgvector`, or the one at `package.module:OBJECT`.

    Another name without a colon is that of an entry point in the group `memcore.backends`.

    Raises:
        UnknownBackend: Nothing is there; the message says what was looked for.
    """
    module, _, attribute = _place(name).partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        # Whatever a module of somebody else raises while it is imported.
        raise UnknownBackend(f"no backend {name!r}: {type(error).__name__}: {error}") from error
    if not isinstance(found, Backend):
        raise UnknownBackend(f"no backend {name!r}: {attribute} is not decorated with @backend")
    return found


def _place(name: str) -> str:
    """Module and object of a backend."""
    if ":" in name:
        return name
    if name in BUILT_IN:
        return f"conformance.backends.{name}:BACKEND"
    installed = {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}
    if name not in installed:
        known = ", ".join([*BUILT_IN, *sorted(installed)])
        raise UnknownBackend(f"no backend {name!r}: give one of {known}, or package.module:OBJECT")
    return installed[name]
