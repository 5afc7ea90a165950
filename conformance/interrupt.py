"""Ctrl-C ends a run, whatever a store or an event loop makes of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from types import FrameType

import pytest


class Interrupt:
    """The hooks that see to it.

    An event loop turns the signal into the cancellation of a task, which a store may swallow, and Python
    ignores an exception in a finalizer. So the signal is remembered, and the run ends after the check at the
    latest. It ends by an exception without a traceback: where a signal interrupts, there may be none to show.
    """

    def __init__(self) -> None:
        self._came = False
        self._installed = False

    def pytest_sessionstart(self) -> None:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._interrupted)
            self._installed = True

    def pytest_unconfigure(self) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        return (yield from self._until_it_came())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        # It may come between two checks, or before the first.
        return (yield from self._until_it_came())

    def _until_it_came(self) -> Generator[None, object, object]:
        try:
            result = yield
        except KeyboardInterrupt:
            self._came = True
        if self._came:
            raise pytest.exit.Exception("interrupted", returncode=pytest.ExitCode.INTERRUPTED) from None
        return result

    def _interrupted(self, _: int, __: FrameType | None) -> None:
        self._came = True
        raise KeyboardInterrupt
