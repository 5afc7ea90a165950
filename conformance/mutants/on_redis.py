"""Session stores on Redis as tutorials build them, each with the fault that comes with the design."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from conformance.backend import Context, Stores, backend
from conformance.backends import redis as reference
from conformance.mutants.making import capitals, claimed, parted, said_of
from memcore import ChatTurn, SessionSummary, guards
from memcore.lifetime import Closable
from memcore.policy import Size
from memcore.sessions.defaults import shape_window
from memcore.types import new_id

PLAIN = {
    "ttl": None,
    "idempotent": None,
    "compresses": False,
    "watermark": False,
    "traces": False,
    "durable": False,
}
"""What these stores do not promise, unless one says so."""
LEASE_MS = 30_000
Store = TypeVar("Store", bound="Callable[[Context], OnRedis]")


def on_redis(*clauses: str, **said: Any) -> Callable[[Store], Store]:
    """Enter a store that takes its context."""
    about, claims = parted({**PLAIN, **said})

    def register(kind: Store) -> Store:
        @backend(capitals(kind.__name__), claimed(reference.CLAIMS, "sessions", claims), servers=["redis"])
        async def opened(ctx: Context) -> AsyncIterator[Stores]:
            async with kind(ctx) as store:
                try:
                    yield Stores(sessions=store, ttl=store if claims["ttl"] else None)
                finally:
                    if not ctx.again:
                        await store.remove_all()

        globals()[opened.name] = opened
        said_of(opened, kind, clauses, **about)
        return kind

    return register


def _encoded(turn: ChatTurn) -> str:
    return json.dumps([turn.role, turn.content, turn.tool_name, turn.turn_id, turn.kind])


def _decoded(text: bytes | str) -> ChatTurn:
    role, content, tool_name, turn_id, kind = json.loads(text)
    return ChatTurn(role, content, tool_name, turn_id=turn_id, kind=kind)


class OnRedis(Closable):
    """What they share: a client, and a key for each session under a prefix. It is its own TTL hooks."""

    def __init__(self, ctx: Context) -> None:
        super().__init__()
        self.client: Any = Redis.from_url(ctx.servers["redis"].url, **self.options())
        self.prefix = f"{ctx.namespace}:chat:"
        self.compressor = ctx.compressor()
        self.ttl_ms = int(ctx.ttl_seconds * 1000)

    def options(self) -> dict[str, Any]:
        return {}

    def key(self, session_id: str) -> str:
        return f"{self.prefix}s:{session_id}"

    async def append(self, session_id: str, *turns: ChatTurn) -> None:
        self._check_open("append")
        name = guards.identifier("append", "session_id", session_id)
        await self.add(name, guards.turns("append", turns))

    async def get_window(self, session_id: str, limit: int | None = 20) -> list[ChatTurn]:
        self._check_open("get_window")
        name = guards.identifier("get_window", "session_id", session_id)
        return shape_window(await self.turns(name), guards.limit("get_window", limit))

    async def get_history(self, session_id: str) -> list[ChatTurn]:
        return await self.get_window(session_id, None)

    async def clear(self, session_id: str) -> None:
        self._check_open("clear")
        await self.remove(guards.identifier("clear", "session_id", session_id))

    async def list_sessions(self) -> list[SessionSummary]:
        self._check_open("list_sessions")
        rows = [
            SessionSummary(name, turns, datetime.fromtimestamp(stamp, UTC))
            for name, turns, stamp in await self.rows()
            if turns
        ]
        return sorted(rows, key=lambda row: (-row.updated_at.timestamp(), row.session_id))

    async def aclose(self) -> None:
        await super().aclose()
        await self.client.aclose()

    async def add(self, name: str, turns: Sequence[ChatTurn]) -> None:
        raise NotImplementedError

    async def turns(self, name: str) -> list[ChatTurn]:
        raise NotImplementedError

    async def remove(self, name: str) -> None:
        await self.client.delete(self.key(name))

    async def rows(self) -> list[tuple[str, int, float]]:
        raise NotImplementedError

    async def remaining_ttl(self, session_id: str) -> float | None:
        milliseconds = await self.client.pttl(self.key(session_id))
        return milliseconds / 1000 if milliseconds >= 0 else None

    async def expire_now(self, session_id: str) -> None:
        await self.client.pexpireat(self.key(session_id), 1)

    async def residue(self) -> list[str]:
        return [key.decode() async for key in self.client.scan_iter(match=f"{self.prefix}*", count=1000)]

    async def remove_all(self) -> None:
        """Leave nothing in a server that is not ours."""
        for name in await self.residue():
            await self.client.delete(name)


class _Blob(OnRedis):
    """One JSON document for each session."""

    async def document(self, name: str) -> dict[str, Any]:
        text = await self.client.get(self.key(name))
        return dict(json.loads(text)) if text else {"updated_at": 0.0, "turns": []}

    async def add(self, name: str, turns: Sequence[ChatTurn]) -> None:
        document = await self.document(name)
        document["turns"] += map(_encoded, turns)
        document["updated_at"] = max(document["updated_at"], time.time())
        await self.client.set(self.key(name), json.dumps(document))

    async def turns(self, name: str) -> list[ChatTurn]:
        return [_decoded(text) for text in (await self.document(name))["turns"]]

    async def rows(self) -> list[tuple[str, int, float]]:
        keys = await self.residue()
        texts = await self.client.mget(keys) if keys else []
        found = [(key, json.loads(text)) for key, text in zip(keys, texts, strict=True) if text]
        start = len(self.key(""))
        return [(key[start:], len(known["turns"]), known["updated_at"]) for key, known in found]


@on_redis(killable_at=2, report="agno-agi/agno#7479, agno-agi/agno#9450")
class JsonBlob(_Blob):
    """A session is one JSON text, which is read, extended and written back."""


@on_redis(killable_at=3, report="a lock in the process for data on a server")
class JsonBlobUnderALock(_Blob):
    """A session is one JSON text, written under a lock that other processes do not see."""

    def __init__(self, ctx: Context) -> None:
        super().__init__(ctx)
        self.lock = asyncio.Lock()

    async def add(self, name: str, turns: Sequence[ChatTurn]) -> None:
        async with self.lock:
            await super().add(name, turns)


@on_redis(
    "SES-022",
    fragment="remaining time after a later append",
    report="valkey-io/valkey-admin#488, redis/ioredis#1094",
    ttl=0.001,
)
class SetWipesTheTtl(_Blob):
    """A session gets its time to live when it begins, and loses it when it is written again."""

    async def add(self, name: str, turns: Sequence[ChatTurn]) -> None:
        begins = not await self.client.exists(self.key(name))
        await super().add(name, turns)
        if begins:
            await self.client.pexpire(self.key(name), self.ttl_ms)


class _List(OnRedis):
    """A list for each session, and a sorted set of the sessions."""

    @property
    def index(self) -> str:
        return f"{self.prefix}index"

    async def add(self, name: str, turns: Sequence[ChatTurn]) -> None:
        async with self.client.pipeline(transaction=True) as pipe:
            pipe.rpush(self.key(name), *map(_encoded, turns))
            pipe.zadd(self.index, {name: time.time()}, gt=True)
            await pipe.execute()

    async def turns(self, name: str) -> list[ChatTurn]:
        return [_decoded(text) for text in await self.client.lrange(self.key(name), 0, -1)]

    async def remove(self, name: str) -> None:
        await self.client.delete(self.key(name))
        await self.client.zrem(self.index, name)

    async def rows(self) -> list[tuple[str, int, float]]:
        scored = [
            (name.decode(), score)
            for name, score in await self.client.zrange(self.index, 0, -1, withscores=True)
        ]
        async with self.client.pipeline(transaction=False) as pipe:
            for name, _ in scored:
                pipe.llen(self.key(name))
            lengths = await pipe.execute()
        return [(name, length, score) for (name, score), length in zip(scored, lengths, strict=True)]


@on_redis(role="benign")
class PlainList(_List):
    """A list for each session, appended to in one transaction."""


@on_redis(
    "SES-015", fragment="listed after clear of", report="vinikjkkj/zapo#21, better-auth/better-auth#10507"
)
class ClearByKeys(_List):
    """What to clear is looked up with a pattern that is made of the id."""

    async def remove(self, name: str) -> None:
        await super().remove(name)
        for key in await self.client.keys(f"{self.key(name)}*"):
            await super().remove(key.decode()[len(self.key("")) :])


@on_redis(
    "SES-026",
    fragment="what is left in storage",
    report="redis/agent-memory-server#121, redis-developer/langgraph-redis#137",
    ttl=0.001,
)
class IndexIsNeverPruned(_List):
    """Sessions expire, and their ids stay in the index for ever."""

    async def add(self, name: str, turns: Sequence[ChatTurn]) -> None:
        await super().add(name, turns)
        await self.client.pexpire(self.key(name), self.ttl_ms)


@on_redis(
    "SES-005",
    fragment="got:      ['t10', 't9', 't8', 't7', 't6', 't5'",
    report="langchain-ai/langchain#2167",
    may="INF-008 SES",
)
class PushedLeft(_List):
    """Turns are pushed to the left of a list that is read from the left."""

    async def add(self, name: str, turns: Sequence[ChatTurn]) -> None:
        await self.client.lpush(self.key(name), *map(_encoded, turns))
        await self.client.zadd(self.index, {name: time.time()}, gt=True)


@on_redis(
    "CMP-020",
    "SES-017",
    fragment="got:      [ChatTurn(role='system', content='[会",
    report="openai/openai-agents-python#4679, run-llama/llama_index#23183",
    compresses=True,
    may="CMP-019",
)
class DeletedAndPushedAgain(_List):
    """A compression reads the list, waits for its summary, deletes the list, and pushes what shall stay."""

    async def add(self, name: str, turns: Sequence[ChatTurn]) -> None:
        await super().add(name, turns)
        if self.compressor.policy.due(Size(await self.client.llen(self.key(name)), 0)):
            await self.compress(name)

    async def compress(self, name: str) -> None:
        history = await self.turns(name)
        rest = await self.compressor.compress(history, session_id=name)
        await self.client.delete(self.key(name))
        await self.client.rpush(self.key(name), *map(_encoded, rest))

    async def aclose(self) -> None:
        await super().aclose()
        await self.compressor.aclose()


@on_redis(
    "CMP-020",
    fragment="got:      [ChatTurn(role='system', content='[会",
    report="redis/redis-py#3532, NousResearch/hermes-agent#98722",
    compresses=True,
    may="SES-017",
)
class CommittedByLease(DeletedAndPushedAgain):
    """Who holds the lease commits, whatever has become of the turns that were read."""

    async def compress(self, name: str) -> None:
        lease, owner = f"{self.prefix}lease:{name}", new_id()
        if not await self.client.set(lease, owner, nx=True, px=LEASE_MS):
            return
        try:
            history = await self.turns(name)
            rest = await self.compressor.compress(history, session_id=name)
            if await self.client.get(lease) == owner.encode():
                await self._commit(name, history, rest)
        finally:
            await self.client.delete(lease)

    async def _commit(self, name: str, history: Sequence[ChatTurn], rest: Sequence[ChatTurn]) -> None:
        head = [turn for turn in rest[:1] if turn.kind == "summary"]
        async with self.client.pipeline(transaction=True) as pipe:
            pipe.ltrim(self.key(name), len(history) - (len(rest) - len(head)), -1)
            if head:
                pipe.lpush(self.key(name), _encoded(head[0]))
            await pipe.execute()


@on_redis(killable_at=2, report="langchain-ai/langchain-redis#169")
class OneRoundTripATurn(_List):
    """The turns of a batch are pushed one by one."""

    async def add(self, name: str, turns: Sequence[ChatTurn]) -> None:
        for turn in turns:
            await super().add(name, [turn])


@on_redis(killable_at=4, report="anthropics/anthropic-sdk-java#370, EverMind-AI/EverOS#274")
class SentAgainBlindly(_List):
    """A push whose reply is lost is sent again by the client."""

    def options(self) -> dict[str, Any]:
        return {"retry": Retry(NoBackoff(), 3), "retry_on_error": [RedisConnectionError]}


@on_redis(killable_at=4, report="xorbitsai/xagent#2047")
class AnErrorIsNothing(_List):
    """A server that is away has no turns."""

    async def turns(self, name: str) -> list[ChatTurn]:
        try:
            return await super().turns(name)
        except RedisError:
            return []
