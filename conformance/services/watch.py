"""A process that ends a server with the run that started it, however the run ends; and the run's side of it.

The run starts this file as a process of its own and holds the write end of its stdin. The kernel closes
that end when the run dies, `kill -9` included, so the watcher cannot miss it. The watcher is the server's
parent, so it waits for the very process it started and never signals a reused pid.

What the watcher writes to stdout, a line each: `started PID` or `failed REASON`, and later `exited with
code N` if the server ends by itself. The directory stays until the run lets go, so that the log of a
server that died can be read.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

LOG = "server.log"
GRACE = 5.0
_REMOVALS, _PAUSE = 50, 0.02
_PR_SET_PDEATHSIG = 1


class StartFailed(Exception):
    """The server did not come up; the message says why."""


class Watched:
    """A server of this run, in a directory of its own; both are gone after `close`, or after the run.

    Args:
        kind: What the server is, for the name of its directory.
        command: The program and its arguments; it runs with that directory as the current one.
        stop: The signal that asks the program to end.
        parent: Where the directory is made; the folder for temporary files if None.

    Raises:
        StartFailed: If the program cannot be executed.
    """

    def __init__(
        self,
        kind: str,
        command: Sequence[str],
        *,
        stop: signal.Signals = signal.SIGTERM,
        parent: Path | None = None,
    ) -> None:
        # The watcher makes the directory, not the run: a run killed in between would leave it.
        name = f"memcore-{kind}-{secrets.token_hex(8)}"
        self.directory = Path(tempfile.gettempdir() if parent is None else parent, name)
        # By path and isolated: a folder of the user may be named `conformance`, and this folder has a
        # `redis.py`. A session of its own keeps the terminal's Ctrl-C for the run alone.
        watcher = [sys.executable, "-I", "-S", str(Path(__file__).resolve())]
        self._watcher = subprocess.Popen(
            [*watcher, "--dir", str(self.directory), "--stop", str(int(stop)), "--", *command],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            self.pid = self._started()
        except BaseException:
            self.close()
            raise

    def _started(self) -> int:
        line = self._line(2 * GRACE)
        word, _, rest = (line or "").partition(" ")
        if word == "started":
            return int(rest)
        raise StartFailed(rest if word == "failed" else f"its watcher said {line!r} instead of a process id")

    def _line(self, seconds: float) -> str | None:
        """The next line of the watcher, empty after its last one; None if there is none for that long."""
        out = self._watcher.stdout
        assert out is not None
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            return out.readline().decode(errors="replace").strip() if selector.select(seconds) else None

    def ended(self, seconds: float) -> str | None:
        """Waits that long for the server to end by itself; says how it ended, None while it runs."""
        line = self._line(seconds)
        return "its watcher was killed" if line == "" else line

    def log_tail(self, lines: int = 5) -> str:
        """The last lines of what the server wrote, as one line."""
        try:
            text = (self.directory / LOG).read_text(errors="replace")
        except OSError:
            return ""
        return " | ".join(line.strip() for line in text.splitlines()[-lines:] if line.strip())

    def close(self) -> None:
        """Ends the server and removes its directory; nothing happens the second time."""
        if self._watcher.returncode is not None:
            return
        # A byte and not only the end of the pipe: a process forked from the run holds that end too.
        try:
            self._watcher.communicate(b"\n", timeout=2 * GRACE)
        except subprocess.TimeoutExpired:
            self._watcher.kill()
            self._watcher.communicate()
        # A watcher that was killed has removed nothing.
        _remove(self.directory)

    def __enter__(self) -> Watched:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """The watcher: runs a command in a new directory until stdin says stop or ends, then removes both."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="a directory that does not exist yet")
    parser.add_argument("--stop", type=int, default=signal.SIGTERM, help="number of the signal to stop with")
    parser.add_argument("command", nargs="+", help="the server and its arguments, after --")
    options = parser.parse_args(arguments)
    wake = _signals_to_pipe()
    try:
        options.dir.mkdir(mode=0o700)
        try:
            _serve(options.dir, options.command, options.stop, wake)
        finally:
            _remove(options.dir)
    except OSError as error:
        _say(f"failed {error}")
        return 1
    return 0


def _signals_to_pipe() -> int:
    """Turns the signals into bytes of a pipe, which select can wait for together with stdin."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return read


def _serve(directory: Path, command: Sequence[str], stop: int, wake: int) -> None:
    with open(directory / LOG, "ab") as log:
        # preexec_fn is unsafe where other threads hold locks at the fork; this process has one thread.
        server = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=dies_with(os.getpid()),
        )
    try:
        _say(f"started {server.pid}")
        _wait(server, wake)
    finally:
        _end(server, stop)


def _wait(server: subprocess.Popen[bytes], wake: int) -> None:
    """Returns when stdin is readable (a byte or its end), the run is gone, or a signal asks to end."""
    with selectors.DefaultSelector() as selector:
        for source in (sys.stdin.fileno(), wake, *_run()):
            selector.register(source, selectors.EVENT_READ)
        told = False
        while all(key.fd == wake for key, _ in selector.select()):
            if set(os.read(wake, 64)) - {signal.SIGCHLD}:
                return
            if not told and server.poll() is not None:
                _say(f"exited with code {server.returncode}")
                told = True


def _run() -> list[int]:
    """A pidfd of the run where there is one: it tells its end even if a fork of it holds the pipe open."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return [os.pidfd_open(os.getppid())]
    return []


def _end(server: subprocess.Popen[bytes], stop: int) -> None:
    server.send_signal(stop)
    try:
        server.wait(GRACE)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def dies_with(parent: int) -> Callable[[], None] | None:
    """What a child of that process calls so that it outlives no `kill -9` of its parent.

    It calls it after it has changed its user, for that takes the effect away, and before it executes the
    program. Only Linux has this, and only a Python with ctypes; elsewhere a killed watcher leaves the server.
    """
    if sys.platform != "linux":
        return None
    try:
        # Loaded here, before the fork: the child makes two calls and imports nothing.
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return None
    death = ctypes.c_ulong(signal.SIGKILL)

    def prepare() -> None:
        prctl(_PR_SET_PDEATHSIG, death, 0, 0, 0)
        # The parent may have died before the call; nobody would send the signal then.
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def _remove(directory: Path) -> None:
    """Removes the directory, also if children of a killed server go on writing into it for a moment."""
    for _ in range(_REMOVALS):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(_PAUSE)


def _say(line: str) -> None:
    # The run may be gone; that the pipe is broken is then no news.
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), f"{line}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
