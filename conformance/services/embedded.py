"""What starting a server takes, whatever it is: a port, patience, and doubt about who answers."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from conformance.services.server import NoAnswer, Server
from conformance.services.watch import StartFailed, Watched

Answer = TypeVar("Answer")
Started = tuple[Watched, Server]
_PAUSE_SECONDS = 0.02
_PORTS_TO_TRY = 5
_LINES_OF_A_FAILED_BIND = 10


class PortTaken(StartFailed):
    """Someone took the port between the choice and the start."""


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens at; somebody else may take it at any time."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def at_a_free_port(start: Callable[[int], Started]) -> Started:
    """What `start` makes of a free port; it gets another one when that port was taken meanwhile."""
    for _ in range(_PORTS_TO_TRY - 1):
        with suppress(PortTaken):
            return start(free_port())
    return start(free_port())


def own_answer(watched: Watched, ask: Callable[[], Answer], address: str, seconds: float) -> Answer:
    """The first answer of the server that `watched` runs.

    Args:
        watched: If it ends, there is no point in waiting.
        ask: Raises `NoAnswer` as long as there is none, or if another server answers at the address.
        address: Where it is asked, for the error.
        seconds: How long to go on asking.

    Raises:
        StartFailed: If there is no answer.
    """
    problem: object = "nothing was tried"
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended = watched.ended(_PAUSE_SECONDS)
        if ended:
            raise _failure(watched, f"{ended} before it answered at {address}")
        try:
            return ask()
        except NoAnswer as error:
            problem = error
    raise _failure(watched, f"no answer at {address} in {seconds:g} s ({problem})")


def _failure(watched: Watched, reason: str) -> StartFailed:
    # The system's text for EADDRINUSE; the exit code is 1 for every failure.
    taken = "Address already in use" in watched.log_tail(_LINES_OF_A_FAILED_BIND)
    tail = watched.log_tail() or "nothing"
    return (PortTaken if taken else StartFailed)(f"{reason}; its log ends with: {tail}")
