"""A server in a container by Testcontainers, and the removal of containers whose run was killed.

Testcontainers removes the containers of a killed run by one of its own, Ryuk, which may be disabled or not
to be had. So each container says by labels which process it is for, and a run that starts a container first
removes those whose process is gone.
"""

from __future__ import annotations

import os
import platform
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.services.server import NoAnswer, Server
from conformance.services.watch import StartFailed

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

MACHINE, PROCESS, STARTED = "memcore.machine", "memcore.pid", "memcore.pid-started"
_ENGINE_SECONDS = 1
_REMOVE_SECONDS = 30
_START_SECONDS = 60.0
_PAUSE_SECONDS = 0.05
_ASK_SECONDS = 2.0
_LINES_OF_LOG = 5
# PostgreSQL's workers share memory there while they build an index; the usual 64 MB are soon full.
_SHARED_MEMORY = "256m"


class NoEngine(Exception):
    """No engine for containers is there; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Image:
    """What a container is made of; in its texts `{password}` stands for a random one.

    Attributes:
        variable: Names another image to use.
        default: The image that is used otherwise.
        port: Where the server listens inside.
        url: The URL of the server, with `{address}` for host and port.
        command: Arguments for the image.
        environment: Variables for the image.
    """

    variable: str
    default: str
    port: int
    url: str
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def container(
    kind: str,
    image: Image,
    ask: Callable[[str, float], str],
    environ: Mapping[str, str],
    find_spec: Callable[[str], ModuleSpec | None],
) -> Iterator[Server]:
    """A server in a container that is removed after the block.

    Args:
        kind: What the server is to the tests.
        image: What the container is made of.
        ask: Asks the server at a URL, waiting that many seconds, for its version; raises `NoAnswer`.
        environ: Where the name of another image is read from. Where the engine is comes from the process's
            own environment, for Testcontainers knows no other.
        find_spec: How an installed package is found.

    Raises:
        NoEngine: If no engine answers.
        StartFailed: If one answers, but there is no server.
    """
    with _engine(find_spec) as engine:
        _sweep(engine)
    name = environ.get(image.variable, "").strip() or image.default
    with ExitStack() as stack:
        try:
            url, version = _start(name, image, ask, stack)
        except StartFailed:
            raise
        except Exception as error:
            # Whatever Testcontainers, docker and requests raise: the next way is open.
            text = _one_line(error)
            hint = "; TESTCONTAINERS_RYUK_DISABLED=true does without Ryuk" if "ryuk" in text else ""
            raise StartFailed(f"{name}: {text}{hint}") from error
        yield Server(kind, url, version, f"container: {name}")


@contextmanager
def _engine(find_spec: Callable[[str], ModuleSpec | None]) -> Iterator[Any]:
    if find_spec("testcontainers") is None:
        raise NoEngine("the package testcontainers is not installed")
    try:
        from testcontainers.core.docker_client import DockerClient, get_docker_host

        _probe(get_docker_host() or "unix:///var/run/docker.sock")
        engine = DockerClient(timeout=_ENGINE_SECONDS).client
        engine.ping()
    except Exception as error:
        raise NoEngine(f"no engine for containers answers: {_one_line(error)}") from error
    try:
        yield engine
    finally:
        engine.close()


def _probe(host: str) -> None:
    """Raises `OSError` if nobody listens at the socket of the engine, as on most machines without one."""
    # Docker's own client forgets the socket that it could not connect, and Python warns of that later on,
    # which fails the tests of those who turn warnings into errors.
    scheme, _, path = host.partition("://")
    if scheme == "unix":
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_ENGINE_SECONDS)
            probe.connect(path)


def _sweep(engine: Any) -> None:
    """Removes the containers of runs that are gone."""
    engine.api.timeout = _REMOVE_SECONDS
    # Another run may be sweeping, so any of them may be gone by now; what fails is left to a later run.
    with suppress(Exception):
        for found in engine.containers.list(all=True, filters={"label": MACHINE}, ignore_removed=True):
            if _abandoned(found.labels, found.status):
                with suppress(Exception):
                    found.remove(force=True, v=True)


def _abandoned(labels: Mapping[str, str], status: str) -> bool:
    """Whether nobody needs the container: its process is gone, and the one that has its id now is another."""
    if labels.get(MACHINE) != _machine():
        # Not for us to judge, unless it ended: with its machine, if that was started anew.
        return status == "exited"
    return _started(int(labels[PROCESS])) != labels[STARTED]


def _machine() -> str:
    """Inside of what process ids are unique: this boot of this kernel, and the namespace of the ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return platform.node()


def _started(pid: int) -> str | None:
    """When the process started, in ticks since the boot; None if it has ended, empty if it cannot be told."""
    try:
        # The name of the program comes second, in brackets, and may hold anything.
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        with suppress(OSError):
            if not Path("/proc/self").exists():
                os.kill(pid, 0)
                return ""
        return None
    return None if fields[0] in "ZX" else fields[19]


def _start(name: str, image: Image, ask: Callable[[str, float], str], stack: ExitStack) -> tuple[str, str]:
    from testcontainers.core.container import DockerContainer

    password = secrets.token_hex(16)
    pid = os.getpid()
    labels = {MACHINE: _machine(), PROCESS: str(pid), STARTED: _started(pid) or ""}
    box = DockerContainer(name).with_kwargs(labels=labels, shm_size=_SHARED_MEMORY)
    stack.callback(_remove, box)
    box.with_envs(**{key: text.format(password=password) for key, text in image.environment.items()})
    box.with_command([part.format(password=password) for part in image.command])
    _publish(box, image.port)
    box.start()
    url = image.url.format(password=password, address="{address}")
    return _own_answer(box, name, image.port, url, ask)


def _publish(box: DockerContainer, port: int) -> None:
    """Lets the engine choose a port; on a machine of one's own nobody else reaches it."""
    box.with_exposed_ports(f"{port}/tcp")
    if box.get_docker_client().host() in {"localhost", "127.0.0.1"}:
        # Docker takes an address as well, which the types of Testcontainers do not know.
        ports: dict[str, Any] = box.ports
        ports[f"{port}/tcp"] = ("127.0.0.1", None)


def _own_answer(
    box: DockerContainer, name: str, port: int, url: str, ask: Callable[[str, float], str]
) -> tuple[str, str]:
    """URL and version; the random password is the proof that it is the container which answers."""
    problem: object = "nothing was tried"
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        container = box.get_wrapped_container()
        container.reload()
        if container.status not in {"created", "running"}:
            raise StartFailed(
                f"{name} {container.status} before it answered; its log ends with: {_tail(container)}"
            )
        try:
            return _answer_at_any(_addresses(box, port), url, ask)
        except Exception as error:
            # No answer, or no port because the container has ended since: the next round tells.
            problem = error
        time.sleep(_PAUSE_SECONDS)
    raise StartFailed(f"{name}: no answer in {_START_SECONDS:g} s ({problem})")


def _answer_at_any(addresses: Sequence[str], url: str, ask: Callable[[str, float], str]) -> tuple[str, str]:
    problem = NoAnswer("no address")
    for address in addresses:
        try:
            return url.format(address=address), ask(url.format(address=address), _ASK_SECONDS)
        except NoAnswer as error:
            problem = error
    raise problem


def _addresses(box: DockerContainer, port: int) -> list[str]:
    """Where the server may be: here, if engine and run share a network, or where Testcontainers says."""
    mapped = box.get_docker_client().port(box.get_container_id(), port)
    host = box.get_container_host_ip().replace("localhost", "127.0.0.1")
    addresses = [f"127.0.0.1:{mapped}", f"{host}:{box.get_exposed_port(port)}"]
    return list(dict.fromkeys(addresses))


def _tail(container: Any) -> str:
    text: str = container.logs(tail=_LINES_OF_LOG).decode(errors="replace")
    return " | ".join(line.strip() for line in text.splitlines() if line.strip()) or "nothing"


def _remove(box: DockerContainer) -> None:
    # An engine that was stopped meanwhile is no failure of the tests; a later run removes what is left.
    with suppress(Exception):
        box.stop()


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
