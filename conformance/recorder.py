"""Stores as the checks see them: every call is written down, counted, and may not hang."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from memcore import ChatTurn, Episode
from memcore.errors import shown

T = TypeVar("T")
HANG_SECONDS = 30.0
"""A call that takes longer has failed: far above the 10 s after which a store has to give up."""
MAX_HANGS = 3
"""A backend of which so many calls hung is not called any more."""


class Hang(AssertionError):
    """A call of a store that did not return."""


class Program:
    """The calls of a check, in order, and what came of them.

    Args:
        lines: One call each, as one would write it.
        succeeded: How often each kind of operation, such as `sessions.append`, returned without an error
            and was not counted yet.
        hangs: How many calls did not return.
        begun: How often it was begun anew: once for a check, and once for each example of one that explores.
        unopened: Why the backend could not be opened, if that is where the check ended.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.hangs = 0
        self.begun = 0
        self.unopened: BaseException | None = None
        self.succeeded: Counter[str] = Counter()

    def counted(self) -> dict[str, int]:
        """How often each kind of operation succeeded since this was last asked."""
        counts, self.succeeded = dict(self.succeeded), Counter()
        return counts

    def begin(self) -> None:
        """Forget the calls of an earlier example."""
        self.lines.clear()
        self.begun += 1

    async def in_time(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call that may not hang; after some that did none is made any more.

        Raises:
            Hang: It did not return, or was not made.
        """
        if self.hangs >= MAX_HANGS:
            raise Hang(f"{what} was not tried: {MAX_HANGS} calls of this backend hung before")
        try:
            async with asyncio.timeout(HANG_SECONDS) as limit:
                return await call()
        except Exception as error:
            if not limit.expired():
                raise
            self.hangs += 1
            raise Hang(f"{what} did not return within {HANG_SECONDS:g} s") from error


class Recorder:
    """Stands before a store and has its methods.

    Args:
        name: `sessions`, `preferences` or `episodes`.
        store: The store.
        program: Where calls are written down.
    """

    def __init__(self, name: str, store: object, program: Program) -> None:
        self._name = name
        self._store = store
        self._program = program

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        original = getattr(self._store, method)

        async def call(*args: object, **kwargs: object) -> object:
            text = f"{self._name}.{method}({_arguments(args, kwargs)})"
            self._program.lines.append(text)
            at = len(self._program.lines) - 1
            try:
                result = await self._program.in_time(text, partial(original, *args, **kwargs))
            except Exception as error:
                self._note(at, text, f"raised {type(error).__name__}: {error}")
                raise
            self._program.succeeded[f"{self._name}.{method}"] += 1
            self._note(at, text, f"→ {_shown(result)}" if result is not None else "")
            return result

        return call

    def _note(self, at: int, text: str, outcome: str) -> None:
        # A call that a new example has overtaken is not its own any more.
        if at < len(self._program.lines) and self._program.lines[at] == text:
            self._program.lines[at] = f"{text}  {outcome}".rstrip()


def _arguments(args: tuple[object, ...], kwargs: dict[str, object]) -> str:
    named = [f"{name}={_shown(value)}" for name, value in kwargs.items()]
    return ", ".join([*(_shown(value) for value in args), *named])


def _shown(value: object) -> str:
    if isinstance(value, ChatTurn):
        tool = f", tool {value.tool_name!r}" if value.tool_name is not None else ""
        return f"{value.kind if value.kind == 'summary' else value.role}({shown(value.content)}{tool})"
    if isinstance(value, Episode):
        return f"Episode({shown(value.user_id)}, {shown(value.summary)}, {shown(value.episode_id)})"
    if isinstance(value, list) and len(value) <= 12:
        return f"[{', '.join(_shown(item) for item in value)}]"
    if isinstance(value, list):
        return f"[{_shown(value[0])}, … {len(value)} in all …, {_shown(value[-1])}]"
    return shown(value)
