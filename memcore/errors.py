"""Everything a store raises on purpose.

MemcoreError
├── InvalidArgument (also ValueError)   refused before anything was written
├── TurnConflict                        this turn id is already stored with other content
├── ModelMismatch                       the store holds vectors of another model or dimension
├── StoreUnavailable                    the server is away, or the outcome of the call is unknown
├── StoreClosed                         called after `aclose`, or from another event loop
├── StoreCorrupt                        what is stored is not in the layout of this version
└── ConfigurationError                  the environment asks for something that cannot be had
    └── MissingDriver (also ImportError) …because a package is not installed
"""

from __future__ import annotations

import reprlib

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60  # Its constructor takes these from Python 3.12 on.


class MemcoreError(Exception):
    """Base of every error that memcore raises on purpose."""


class InvalidArgument(MemcoreError, ValueError):
    """An argument that no backend accepts; nothing was written.

    Args:
        operation: The call, such as `append`.
        argument: The name of the argument, such as `session_id`.
        value: What was given; long values are shortened in the message.
        reason: What is wrong and what is accepted.
    """

    def __init__(self, operation: str, argument: str, value: object, reason: str) -> None:
        super().__init__(f"{operation}: {argument} {shown(value)} {reason}")
        self.operation = operation
        self.argument = argument
        self.value = value


class TurnConflict(MemcoreError):
    """A turn id that the session holds already with another role, content or tool name; nothing was written.

    Args:
        session_id: The session.
        turn_id: The id that was used for two different turns.
    """

    def __init__(self, session_id: str, turn_id: str) -> None:
        super().__init__(
            f"append: turn_id {shown(turn_id)} is already in session {shown(session_id)} with other content; "
            "give each turn an id of its own"
        )
        self.session_id = session_id
        self.turn_id = turn_id


class ModelMismatch(MemcoreError):
    """The vectors that are stored come from another embedding model, or have another dimension."""


class StoreUnavailable(MemcoreError):
    """The server did not answer, or not in time. A write may have taken effect or not."""


class StoreClosed(MemcoreError):
    """The store was closed, or belongs to another event loop."""


class StoreCorrupt(MemcoreError):
    """What is stored under this id was not written by this version of the store."""


class ConfigurationError(MemcoreError):
    """The environment asks for something that this installation cannot give."""


class MissingDriver(ConfigurationError, ImportError):
    """A backend was chosen whose driver is not installed.

    Args:
        chosen: What was asked for, such as `SESSION_STORE=redis`.
        extra: The extra of this distribution that brings the driver.
    """

    def __init__(self, chosen: str, extra: str) -> None:
        super().__init__(
            f"{chosen} needs a driver that is not installed: pip install 'memcore-conformance[{extra}]'"
        )
        self.extra = extra


def shown(value: object) -> str:
    """`repr` of a value, shortened, with lone surrogates escaped so that it can always be printed."""
    return _short.repr(value).encode("utf-8", "backslashreplace").decode("utf-8")
