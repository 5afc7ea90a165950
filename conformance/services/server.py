"""What the run knows about a server, and the error when there is none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_SECRET_PARAMETER = re.compile(r"([?&][^=&#]*(?:pass|pwd|secret|token)[^=&#]*=)[^&#]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answered, and where it comes from.

    Attributes:
        kind: What it is to the tests, such as `redis`.
        url: Where it listens, with the password if it has one; `str` and `repr` do not show that.
        version: What it says it is, such as `Valkey 9.1.2`.
        way: How it was found: the name of the variable, `container: ` and the image, or `embedded: ` and
            the program, with the reason if a container was to be had and failed.
        pid: The process that this run started; None for a container and for a server that was there before.
    """

    kind: str
    url: str = field(repr=False)
    version: str
    way: str
    pid: int | None = None

    def __str__(self) -> str:
        return f"{self.kind}: {self.version} at {masked(self.url)} ({self.way})"


class NoAnswer(Exception):
    """A server does not answer, or not as it should; the text says why and shows no password."""


class ServerUnavailable(Exception):
    """No way leads to a server; the message says what was tried and what to do.

    Args:
        kind: What was wanted, such as `redis`.
        tried: Each way and why it failed.
        remedy: What to do about it.
    """

    def __init__(self, kind: str, tried: Sequence[str], remedy: str) -> None:
        # All arguments go to the base, so that the error can be pickled (pytest-xdist does).
        super().__init__(kind, tuple(tried), remedy)
        self.kind = kind
        self.tried = tuple(tried)
        self.remedy = remedy

    def __str__(self) -> str:
        return f"no {self.kind} server for the tests ({'; '.join(self.tried)}): {self.remedy}"


def masked(url: str) -> str:
    """The URL with `***` where a password stands, also when it is no valid URL.

    Args:
        url: Any text; a password with an unescaped `@`, `/` or `?` is masked too.
    """
    # By hand and not by urlsplit: that one cuts at the first `/`, `?` or `#`, so it would show half of a
    # password that someone forgot to escape.
    scheme, separator, rest = url.partition("://") if "://" in url else ("", "", url)
    userinfo, at, address = rest.rpartition("@")
    if "?" in userinfo:
        return f"{scheme}{separator}***"
    if at:
        user, colon, _ = userinfo.partition(":")
        rest = f"{user}:***@{address}" if colon else f"***@{address}"
    return _SECRET_PARAMETER.sub(r"\1***", f"{scheme}{separator}{rest}")
