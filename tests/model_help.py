"""Session stores that call a language model themselves, and a client, for the tests of the kit's models."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from conformance.backend import Backend, Claims, Context, Stores, backend
from conformance.llm.opening import Opening
from conformance.llm.server import ModelServer
from memcore import RETRY_WINDOW, ChatTurn, InMemorySessionStore, Summarizer

CLAIMS = Claims(
    layers=frozenset({"sessions"}),
    idempotent=RETRY_WINDOW,
    atomic_batches=True,
    compresses=True,
    watermark=True,
    traces=True,
    injected_clock=True,
)
Client: TypeAlias = Callable[[Context, dict[str, Any]], Awaitable[Any]]
Prompt: TypeAlias = Callable[[Sequence[ChatTurn], int], list[dict[str, str]]]
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def as_lines(turns: Sequence[ChatTurn], max_chars: int) -> list[dict[str, str]]:
    """Instructions, then a line for each turn, in one message."""
    lines = "\n".join(f"{turn.role}: {turn.content}" for turn in turns)
    text = f"Write a summary of a chat, in at most {max_chars} characters.\n\n{lines}\n\nSummary:"
    return [{"role": "user", "content": text}]


def as_messages(turns: Sequence[ChatTurn], max_chars: int) -> list[dict[str, str]]:
    """Instructions in Chinese, then the turns as the messages that they are."""
    system = {"role": "system", "content": f"用一句话总结以下对话,不超过{max_chars}字。"}
    return [system, *({"role": turn.role, "content": turn.content} for turn in turns)]


def as_json(turns: Sequence[ChatTurn], max_chars: int) -> list[dict[str, str]]:
    """Instructions, then the turns in JSON."""
    told = [{"role": turn.role, "content": turn.content} for turn in turns]
    return [
        {"role": "system", "content": f"Summarize the chat. max_chars={max_chars}"},
        {"role": "user", "content": json.dumps(told)},
    ]


async def blocking(ctx: Context, body: dict[str, Any]) -> Any:
    """The content of a completion, by a client that blocks, in a thread."""

    def call() -> Any:
        request = urllib.request.Request(
            f"{ctx.llm_url}/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json", "Authorization": "Bearer any"},
        )
        with DIRECT.open(request, timeout=ctx.summarizer_timeout) as answer:
            return json.load(answer)["choices"][0]["message"]["content"]

    return await asyncio.to_thread(call)


async def in_loop(ctx: Context, body: dict[str, Any]) -> Any:
    """The content of a completion, streamed, by a client of the event loop; one connection a call."""
    url = urlsplit(ctx.llm_url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    try:
        payload = json.dumps({**body, "stream": True}).encode()
        head = f"POST {url.path}/chat/completions HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Length: {len(payload)}\r\n\r\n".encode() + payload)
        answer = (await reader.read()).decode()
    finally:
        writer.close()
    if " 200 " not in answer.partition("\r\n")[0]:
        raise OSError(f"no answer: {answer[:200]!r}")
    return _streamed(answer)


def _streamed(answer: str) -> Any:
    events = [line.removeprefix("data: ") for line in answer.split("\n") if line.startswith("data: ")]
    if events[-1:] != ["[DONE]"]:
        raise OSError(f"the stream has no end: {answer[-200:]!r}")
    deltas = [json.loads(event)["choices"][0]["delta"] for event in events[:-1]]
    pieces = [delta["content"] for delta in deltas if "content" in delta]
    return None if None in pieces else "".join(pieces)


def made(
    name: str, client: Client, prompt: Prompt, leave_out: Callable[[Sequence[ChatTurn]], Sequence[ChatTurn]]
) -> Backend:
    """A store in memory that has its summaries from the model at `ctx.llm_url`."""

    @backend(name, CLAIMS, calls_model=True)
    async def opened(ctx: Context) -> AsyncIterator[Stores]:
        async def summarize(turns: Sequence[ChatTurn], /, *, max_chars: int) -> str:
            messages = prompt(leave_out(turns), max_chars)
            content: str = await client(ctx, {"model": "any", "messages": messages})
            return content

        compressor = replace(ctx, summarizer=summarize).compressor()
        async with InMemorySessionStore(compressor, ttl_seconds=ctx.ttl_seconds, now=ctx.now) as store:
            yield Stores(sessions=store)

    return opened


BLOCKING = made("blocking", blocking, as_lines, lambda turns: turns)
IN_LOOP = made("in-loop", in_loop, as_messages, lambda turns: turns)
JSON = made("json", blocking, as_json, lambda turns: turns)
FORGETS_THE_FIRST = made("forgets-the-first", blocking, as_lines, lambda turns: turns[1:])
TWICE = made("twice", blocking, as_lines, lambda turns: [*turns, *turns])


def asking(*texts: str) -> dict[str, Any]:
    """A request for a completion."""
    return {"model": "m", "messages": [{"role": "user", "content": text} for text in texts]}


@dataclass(frozen=True, slots=True)
class Line:
    """A server with one opening."""

    server: ModelServer
    url: str
    opening: Opening

    @property
    def host(self) -> str:
        """Where the server listens."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """Its port."""
        return urlsplit(self.url).port or 0

    @property
    def path(self) -> str:
        """Of the opening, at the server."""
        return urlsplit(self.url).path

    def post(self, route: str, body: object) -> Any:
        """The answer to a request, in JSON; blocks."""
        request = urllib.request.Request(f"{self.url}/{route}", json.dumps(body).encode())
        with DIRECT.open(request, timeout=10) as answer:
            return json.load(answer)

    def ask(self, *texts: str) -> Any:
        """The content of a completion; blocks."""
        answer = self.post("chat/completions", asking(*texts))
        return answer["choices"][0]["message"]["content"]


@asynccontextmanager
async def line(summarizer: Summarizer | None = None) -> AsyncIterator[Line]:
    """A server with one opening, gone afterwards."""
    server = ModelServer()
    try:
        async with server.opening("n", summarizer, dimension=8, model="e") as (url, opened):
            yield Line(server, url, opened)
    finally:
        server.close()
