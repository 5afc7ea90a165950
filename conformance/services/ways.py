"""In which order a server is looked for: the one that a variable names, a container, an embedded one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec

from conformance.services.containers import Image, NoEngine, container
from conformance.services.embedded import Started
from conformance.services.server import NoAnswer, Server, ServerUnavailable, masked
from conformance.services.watch import StartFailed

SERVERS = "MEMCORE_SERVERS"
CONTAINERS, EMBEDDED = "containers", "embedded"
FindSpec = Callable[[str], ModuleSpec | None]
_GIVEN_SECONDS = 4.5


@dataclass(frozen=True, slots=True)
class Service:
    """A kind of server, and how each way leads to one.

    Attributes:
        kind: What it is to the tests, such as `redis`.
        variable: Names the server that is used as it is, if it is set.
        ask: Asks the server at a URL, waiting that many seconds, for its version; raises `NoAnswer`.
        image: What a container is made of.
        embedded: Starts one, or adds to the list why it cannot.
        program: What may be installed for `embedded`.
    """

    kind: str
    variable: str
    ask: Callable[[str, float], str]
    image: Image
    embedded: Callable[[Mapping[str, str], FindSpec, list[str]], Started | None]
    program: str


@contextmanager
def served(service: Service, environ: Mapping[str, str], find_spec: FindSpec) -> Iterator[Server]:
    """A server that answers; one that was started for this is gone after the block.

    Raises:
        ServerUnavailable: If there is no server, with what was tried and what to do.
    """
    only = environ.get(SERVERS, "").strip()
    if only not in ("", CONTAINERS, EMBEDDED):
        remedy = f"set it to {CONTAINERS} or {EMBEDDED}, or unset it and what is there is used"
        raise ServerUnavailable(service.kind, [f"{SERVERS}={only} is no way to a server"], remedy)
    url = environ.get(service.variable, "").strip()
    with ExitStack() as stack:
        if url:
            yield _given(service, url)
        else:
            yield _started(service, environ, find_spec, only, stack)


def _given(service: Service, url: str) -> Server:
    try:
        version = _bounded(lambda: service.ask(url, _GIVEN_SECONDS / 2))
    except NoAnswer as error:
        problem = str(error)
    else:
        return Server(service.kind, url, version, service.variable)
    remedy = f"start that server, correct {service.variable}, or unset it and a server is started for the run"
    # Outside of the except block: a driver's error, which may quote the password, is no context of this one.
    raise ServerUnavailable(service.kind, [f"{service.variable}={masked(url)}: {problem}"], remedy)


def _bounded(ask: Callable[[], str]) -> str:
    """What `ask` returns or raises; a look-up of the name, which has no time limit, is not waited for."""
    answers: list[str | NoAnswer] = [NoAnswer(f"no answer in {_GIVEN_SECONDS:g} s")]

    def run() -> None:
        try:
            answers.append(ask())
        except NoAnswer as error:
            answers.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_GIVEN_SECONDS)
    answer = answers[-1]
    if isinstance(answer, NoAnswer):
        raise answer
    return answer


def _started(
    service: Service, environ: Mapping[str, str], find_spec: FindSpec, only: str, stack: ExitStack
) -> Server:
    tried = [f"{service.variable} is not set"]
    note = ""
    if only != EMBEDDED:
        try:
            start = container(service.kind, service.image, service.ask, environ, find_spec)
            return stack.enter_context(start)
        except NoEngine as error:
            tried.append(str(error))
        except StartFailed as error:
            tried.append(f"no container: {error}")
            note = f" ({tried[-1]})"
    if only != CONTAINERS:
        started = service.embedded(environ, find_spec, tried)
        if started is not None:
            stack.enter_context(started[0])
            return replace(started[1], way=started[1].way + note)
    raise ServerUnavailable(service.kind, tried, _remedy(service, only))


def _remedy(service: Service, only: str) -> str:
    remedy = f"set {service.variable} to the URL of a running server"
    if only != EMBEDDED:
        remedy += f", start Docker, set {service.image.variable} to an image that it has"
    if only != CONTAINERS:
        remedy += f", install {service.program}"
    if only:
        remedy += f", unset {SERVERS}"
    return f"{remedy}, or run: pip install 'memcore-conformance[conformance]'"
