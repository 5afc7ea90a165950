"""HTTP for the models: connections, requests and routes."""

from __future__ import annotations

import itertools
import json
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from conformance.llm import wire
from conformance.llm.opening import HungUp, NoModel, Opening

MAX_BODY_BYTES = 16 * 1024 * 1024
"""Largest body of a request: some of the largest turns, quoted."""
_END_SECONDS = 5.0


class Http(ThreadingHTTPServer):
    """Knows its connections, so that it can end them."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        self.openings: dict[str, Opening] = {}
        self.completions = itertools.count()
        self._connections: dict[threading.Thread, socket.socket] = {}
        super().__init__(("127.0.0.1", 0), _Handler)

    def server_bind(self) -> None:
        # That of HTTPServer asks a name server for our name.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[0], self.server_address[1]  # type: ignore[assignment]

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(target=self._serve, args=(request, client_address), daemon=True)
        self._connections[thread] = request
        thread.start()

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        try:
            self.process_request_thread(request, client_address)
        finally:
            del self._connections[threading.current_thread()]

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def hang_up(self) -> None:
        """End every connection."""
        for thread, connection in list(self._connections.items()):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            thread.join(_END_SECONDS)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "memcore"
    disable_nagle_algorithm = True
    # Head and body leave together.
    wbufsize = -1

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (theirs)
        """Say nothing: the output belongs to the run."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Refuse what is no request, as http.server does it, in OpenAI's form."""
        self.close_connection = True
        # Where no version could be read it would be 0.9, which has no heads.
        self.request_version = self.protocol_version
        self._json(code, wire.error(message or HTTPStatus(code).phrase, code))

    def _answer(self, method: str) -> None:
        try:
            body = self._body()
            opened, route = self._found(method)
            _ROUTES[method, route](self, opened, body)
        except wire.BadRequest as problem:
            self._json(problem.status, wire.error(str(problem), problem.status, problem.param))
        except NoModel as problem:
            self._json(503, wire.error(str(problem), 503))
        except HungUp:
            self.close_connection = True
        except ConnectionError:
            raise
        except Exception as problem:
            self._json(500, wire.error(f"{type(problem).__name__}: {problem}", 500))

    def _body(self) -> bytes:
        self.close_connection, keep = True, self.close_connection
        if "Transfer-Encoding" in self.headers:
            raise wire.BadRequest("a body needs a Content-Length", status=411)
        given = self.headers.get("Content-Length", "0")
        if not (given.isascii() and given.isdecimal()):
            raise wire.BadRequest(f"Content-Length {given!r} is no length")
        if len(given) > 12 or int(given) > MAX_BODY_BYTES:
            raise wire.BadRequest(f"a body has at most {MAX_BODY_BYTES} bytes", status=413)
        body = self.rfile.read(int(given))
        if len(body) < int(given):
            raise HungUp
        # Only now it is known where the next request begins.
        self.close_connection = keep
        return body

    def _found(self, method: str) -> tuple[Opening, str]:
        _, _, rest = self.path.partition("?")[0].partition("/o/")
        name, _, route = rest.partition("/v1/")
        opened = cast(Http, self.server).openings.get(name)
        if opened is None:
            raise wire.BadRequest(f"no backend is open at {self.path[:200]!r}", status=404)
        if (method, route) not in _ROUTES:
            known = any(route == other for _, other in _ROUTES)
            raise wire.BadRequest(f"no {method} of {route[:200]!r}", status=405 if known else 404)
        return opened, route

    def _chat(self, opened: Opening, body: bytes) -> None:
        chat = wire.chat_of(wire.parsed(body))
        content = opened.complete(chat.prompt, self._gone)
        number = next(cast(Http, self.server).completions)
        if isinstance(content, bytes):
            # What is not text cannot stand in JSON, so the answer is none.
            self._send(200, "application/octet-stream", content)
        elif chat.stream:
            self._stream(wire.chunks(chat, number, content))
        else:
            self._json(200, wire.completion(chat, number, content))

    def _embeddings(self, opened: Opening, body: bytes) -> None:
        self._json(200, wire.embeddings(wire.parsed(body), opened.dimension))

    def _models(self, opened: Opening, body: bytes) -> None:  # noqa: ARG002 (there is none)
        self._json(200, wire.models(wire.CHAT_MODEL, opened.model))

    def _gone(self) -> bool:
        """Whether the client has closed its connection."""
        try:
            peeked: bytes = self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return not peeked

    def _json(self, status: int, value: object) -> None:
        self._send(status, "application/json", json.dumps(value).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self._head(status, kind, "Content-Length", str(len(body)))
        self.wfile.write(body)

    def _stream(self, events: Iterable[bytes]) -> None:
        self._head(200, "text/event-stream", "Transfer-Encoding", "chunked")
        for event in events:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _head(self, status: int, kind: str, framing: str, value: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header(framing, value)
        if status >= 500:
            # Libraries of OpenAI heed it; that of others who try again is seen to where the answer is made.
            self.send_header("x-should-retry", "false")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()


_ROUTES: dict[tuple[str, str], Callable[[_Handler, Opening, bytes], None]] = {
    ("POST", "chat/completions"): _Handler._chat,
    ("POST", "embeddings"): _Handler._embeddings,
    ("GET", "models"): _Handler._models,
}
