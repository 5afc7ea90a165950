"""What the kit's models accept and refuse over HTTP, and the embeddings that they give."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import socket
import struct
from functools import partial
from typing import Any

import numpy as np
import pytest

from conformance.backend import Context
from conformance.llm.connections import MAX_BODY_BYTES
from conformance.llm.embedding import embed
from conformance.provenance import Ledger
from memcore import TokenWatermarkPolicy
from memcore.tokens import estimate_tokens
from tests.model_help import Line, line

BAD = [
    pytest.param(b"not json", 400, id="no JSON"),
    pytest.param(b"\xff{}", 400, id="no UTF-8"),
    pytest.param(b"[" * 100_000, 400, id="too deep"),
    pytest.param(b"[]", 400, id="no object"),
    pytest.param(b"{}", 400, id="nothing"),
    pytest.param(b'{"model": "m", "messages": []}', 400, id="no message"),
    pytest.param(b'{"model": "m", "messages": [7]}', 400, id="a message that is none"),
    pytest.param(b'{"model": "m", "messages": [{"content": [{"type": "image_url"}]}]}', 400, id="an image"),
    pytest.param(b'{"messages": [{"content": "x"}]}', 400, id="no model"),
    pytest.param(b'{"model": "m", "n": 2, "messages": [{"content": "x"}]}', 400, id="two choices"),
]


def raw(at: Line, request: bytes) -> tuple[int, Any]:
    """Status and body of the answer to these bytes; blocks."""
    with socket.create_connection((at.host, at.port), 10) as connection:
        connection.sendall(request)
        answer = http.client.HTTPResponse(connection)
        with answer:
            answer.begin()
            return answer.status, json.load(answer)


def post(at: Line, route: str, body: bytes, *headers: str) -> bytes:
    """A request in bytes."""
    length = headers or (f"Content-Length: {len(body)}",)
    lines = (f"POST {at.path}/{route} HTTP/1.1", "Host: x", *length, "", "")
    return "\r\n".join(lines).encode() + body


@pytest.mark.asyncio
@pytest.mark.parametrize(("body", "status"), BAD)
async def test_bad_completions_are_refused(body: bytes, status: int) -> None:
    """What is no request is refused with OpenAI's error, and asks no summarizer."""
    ledger = Ledger()
    async with line(ledger) as at:
        got, answer = await asyncio.to_thread(raw, at, post(at, "chat/completions", body))
        assert got == status
        assert answer["error"]["message"]
        assert answer["error"]["type"] == "invalid_request_error"
    assert ledger.calls == []


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "fields",
    [
        {"input": []},
        {"input": [1, 2]},
        {"input": ["x"] * 2049},
        {"input": "x", "dimensions": 0},
        {"input": "x", "dimensions": True},
        {"input": "x", "dimensions": 4001},
        {"input": "x", "encoding_format": "hex"},
    ],
)
async def test_bad_embeddings_are_refused(fields: dict[str, Any]) -> None:
    """So are embeddings of what is not text, and of a size that no store takes."""
    async with line() as at:
        body = json.dumps({"model": "e", **fields}).encode()
        status, answer = await asyncio.to_thread(raw, at, post(at, "embeddings", body))
        assert status == 400
        assert answer["error"]["param"] in fields


@pytest.mark.asyncio
async def test_bad_http_is_refused() -> None:
    """A body too large, of no or a wrong length, other routes, methods and openings, and what is no HTTP."""
    async with line() as at:
        sent = {
            413: post(at, "embeddings", b"", f"Content-Length: {MAX_BODY_BYTES + 1}"),
            411: post(at, "embeddings", b"0\r\n\r\n", "Transfer-Encoding: chunked"),
            400: post(at, "embeddings", b"", "Content-Length: -1"),
            404: post(at, "completions", b""),
            405: f"GET {at.path}/embeddings HTTP/1.1\r\n\r\n".encode(),
            501: f"PUT {at.path}/models HTTP/1.1\r\n\r\n".encode(),
        }
        got = {status: await asyncio.to_thread(raw, at, request) for status, request in sent.items()}
        assert [status for status, _ in got.values()] == list(sent)
        assert all(answer["error"]["message"] for _, answer in got.values())
        elsewhere = await asyncio.to_thread(raw, at, b"GET /o/other/v1/models HTTP/1.1\r\n\r\n")
        assert elsewhere[0] == 404
        assert (await asyncio.to_thread(raw, at, b"\0\0\0\r\n\r\n"))[0] == 400


def texts_of(at: Line, **fields: object) -> list[Any]:
    """Embeddings of two texts; blocks."""
    answer = at.post("embeddings", {"model": "e", "input": ["a", "b"], **fields})
    return [item["embedding"] for item in answer["data"]]


@pytest.mark.asyncio
async def test_embeddings_are_those_of_the_context() -> None:
    """The same as floats, in base64 and in the process, and of the size that is asked for."""
    async with line() as at:
        expected = await Context(namespace="n").embed(["a", "b"])
        assert await asyncio.to_thread(texts_of, at) == expected
        encoded = await asyncio.to_thread(partial(texts_of, at, encoding_format="base64"))
        decoded = [struct.unpack("<8f", base64.b64decode(text)) for text in encoded]
        assert decoded == [pytest.approx(vector, abs=1e-7) for vector in expected]
        large = await asyncio.to_thread(partial(texts_of, at, dimensions=1536))
        assert [len(vector) for vector in large] == [1536, 1536]


def test_embeddings_tell_texts_apart() -> None:
    """Of length 1, never equal for two texts, in 1536 dimensions nearly orthogonal; any text has one."""
    vectors = np.array([embed(text, 1536) for text in ["", " ", "a", "A", "\ud83d", *map(str, range(40))]])
    cosines = vectors @ vectors.T
    assert np.allclose(np.diag(cosines), 1.0)
    assert np.abs(cosines - np.eye(len(vectors))).max() < 0.15
    assert embed("a", 8) == embed("a", 8)


def test_the_context_counts_as_its_policy() -> None:
    """The counter of the context is that of the policy."""
    assert Context(namespace="n").count_tokens is estimate_tokens
    assert Context(namespace="n", policy=TokenWatermarkPolicy(100, count_tokens=len)).count_tokens is len
