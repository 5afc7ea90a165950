"""How a check says that a promise was broken: which one, what was promised, what was seen."""

from __future__ import annotations

import unicodedata
from collections.abc import Awaitable, Callable
from typing import NoReturn

import pytest

from conformance.backend import ErrorClass
from memcore.errors import shown

_ACCIDENTS = (AssertionError, AttributeError, NameError)


class Violation(AssertionError):
    """A clause that does not hold.

    Args:
        clause: Its id.
        what: What was looked at, in words.
        expected: What the contract promises.
        got: What the store did.
    """

    def __init__(self, clause: str, what: str, expected: object, got: object) -> None:
        shown, seen = _told_apart(_long(expected), _long(got))
        super().__init__(f"{clause}: {what}\n  expected: {shown}\n  got:      {seen}")
        self.clause = clause


def expect(clause: str, what: str, got: object, expected: object) -> None:
    """Hold `got` against what the clause promises."""
    if got != expected:
        raise Violation(clause, what, expected, got)


def expect_that(clause: str, what: str, holds: bool, *, expected: object, got: object) -> None:
    """Hold a condition against what the clause promises."""
    if not holds:
        raise Violation(clause, what, expected, got)


async def expect_error(
    clause: str,
    what: str,
    call: Callable[[], Awaitable[object]],
    classify: Callable[[BaseException], ErrorClass],
    expected: ErrorClass,
) -> None:
    """Make a call that has to fail with an error of this class."""
    try:
        result = await call()
    except _ACCIDENTS:
        # Not a refusal, whatever `classify` makes of it.
        raise
    except Exception as error:
        found = classify(error)
        if found != expected:
            seen = f"{type(error).__name__} ({found}): {error}"
            raise Violation(clause, what, f"an error that is {expected}", seen) from error
    else:
        raise Violation(clause, what, f"an error that is {expected}", f"no error, but {shown(result)}")


def not_evaluable(reason: str) -> NoReturn:
    """Say that this check cannot tell, and why; the verdict is neither pass nor fail."""
    pytest.skip(reason)


def violations(error: BaseException | None) -> list[Violation]:
    """Every violation in an error or a group of errors; Hypothesis reports several as a group."""
    if isinstance(error, Violation):
        return [error]
    if isinstance(error, BaseExceptionGroup):
        return [violation for inner in error.exceptions for violation in violations(inner)]
    # What a backend raises while it closes must not hide why it was closed.
    return violations(error.__context__) if error is not None else []


def _told_apart(expected: str, got: str) -> tuple[str, str]:
    """Texts that look the same, in escapes."""
    if unicodedata.normalize("NFC", expected) != unicodedata.normalize("NFC", got):
        return expected, got
    return ascii(expected), ascii(got)


def _long(value: object) -> str:
    """`repr`, printable, cut where it gets out of hand, which the text then says."""
    text = repr(value).encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= 2000 else f"{text[:2000]}… ({len(text)} characters in all)"
