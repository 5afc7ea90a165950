"""The requests and answers of OpenAI's API, as far as the kit serves it: read strictly, written in full."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.llm.embedding import base64_of, embed
from memcore.guards import MAX_DIMENSION
from memcore.tokens import estimate_tokens

CHAT_MODEL = "conformance-chat"
MAX_INPUTS = 2048
"""Most texts of one request for embeddings."""


class BadRequest(Exception):
    """A request that cannot be served.

    Args:
        message: What is wrong.
        status: Of the answer.
        param: The field that is wrong, if it is one.
    """

    def __init__(self, message: str, *, status: int = 400, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param


@dataclass(frozen=True, slots=True)
class Chat:
    """A request for a completion: the texts of its messages, and how it is to be answered."""

    model: str
    prompt: tuple[str, ...]
    stream: bool


def error(message: str, status: int, param: str | None = None) -> dict[str, Any]:
    """An error as OpenAI reports it."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": None}}


def parsed(body: bytes) -> dict[str, Any]:
    """The object in the body of a request."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise BadRequest(f"the body is not JSON: {problem}") from problem
    if not isinstance(value, dict):
        raise BadRequest("the body is not a JSON object")
    return value


def chat_of(request: dict[str, Any]) -> Chat:
    """Read a request for a completion."""
    messages, stream = request.get("messages"), request.get("stream") or False
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages is not a list of messages", param="messages")
    if not isinstance(stream, bool):
        raise BadRequest("stream is not a boolean", param="stream")
    if request.get("n") not in (None, 1):
        raise BadRequest("only one choice is given", param="n")
    prompt = tuple(text for message in messages for text in _texts(message))
    return Chat(_model(request), prompt, stream)


def _texts(message: object) -> list[str]:
    content = message.get("content") if isinstance(message, dict) else message
    if isinstance(message, dict) and (content is None or isinstance(content, str)):
        return [content or ""]
    if isinstance(message, dict) and isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        found = [text for text in texts if isinstance(text, str)]
        if len(found) == len(content):
            return found
    raise BadRequest("a message is no object whose content is text", param="messages")


def _model(request: dict[str, Any]) -> str:
    model = request.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequest("model is not a name", param="model")
    return model


def completion(chat: Chat, number: int, content: object) -> dict[str, Any]:
    """The answer to a request for a completion."""
    message = {"role": "assistant", "content": content, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    used = _usage(chat.prompt, content if isinstance(content, str) else "")
    return {**_head(chat, number, "chat.completion"), "choices": [choice], "usage": used}


def chunks(chat: Chat, number: int, content: object) -> Iterator[bytes]:
    """The same as a stream of server-sent events, in several pieces where there is something to part."""
    head = _head(chat, number, "chat.completion.chunk")
    pieces = [content[:1], content[1:]] if isinstance(content, str) and len(content) > 1 else [content]
    deltas = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in pieces), {}]
    for at, delta in enumerate(deltas):
        end = "stop" if at == len(deltas) - 1 else None
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": end}
        yield f"data: {json.dumps({**head, 'choices': [choice]})}\n\n".encode()
    yield b"data: [DONE]\n\n"


def _head(chat: Chat, number: int, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": int(time.time()), "model": chat.model}


def _usage(prompt: Sequence[str], completed: str | None = None) -> dict[str, int]:
    given = sum(map(estimate_tokens, prompt))
    made = estimate_tokens(completed or "")
    more = {} if completed is None else {"completion_tokens": made}
    return {"prompt_tokens": given, **more, "total_tokens": given + made}


def embeddings(request: dict[str, Any], dimension: int) -> dict[str, Any]:
    """The answer to a request for embeddings, of this dimension unless it names another."""
    texts, model = _inputs(request), _model(request)
    wanted = request.get("dimensions")
    size = dimension if wanted is None else wanted
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= MAX_DIMENSION:
        raise BadRequest(f"dimensions is not from 1 to {MAX_DIMENSION}", param="dimensions")
    encoding = request.get("encoding_format") or "float"
    if encoding not in ("float", "base64"):
        raise BadRequest("encoding_format is neither float nor base64", param="encoding_format")
    vectors = [embed(text, size) for text in texts]
    data = [
        {"object": "embedding", "index": at, "embedding": base64_of(v) if encoding == "base64" else v}
        for at, v in enumerate(vectors)
    ]
    return {"object": "list", "data": data, "model": model, "usage": _usage(texts)}


def _inputs(request: dict[str, Any]) -> list[str]:
    given = request.get("input")
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not 1 <= len(texts) <= MAX_INPUTS:
        raise BadRequest(f"input is neither a text nor 1 to {MAX_INPUTS} texts", param="input")
    if not all(isinstance(text, str) for text in texts):
        raise BadRequest("input has to be text: the kit knows no token numbers", param="input")
    return texts


def models(*names: str) -> dict[str, Any]:
    """The list of models."""
    listed = [{"id": name, "object": "model", "created": 0, "owned_by": "memcore"} for name in names]
    return {"object": "list", "data": listed}
