"""Deviations that are known: a file that says which clauses a backend breaks, why, and where that is tracked.

```toml
[[known]]
backend = "mine"
clause = "SES-022"
reason = "reads renew the expiry until version 3"
link = "https://…"
```

A known failure does not fail the run, but no level is earned over it. An entry whose clause holds is stale
and does fail the run, so that the list cannot outlive what it lists.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from conformance.catalogue import by_id
from conformance.report.verdicts import Judgement


class BadKnownFile(Exception):
    """The file cannot be used; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One entry.

    Args:
        backend, clause: Names.
        reason: Why the clause does not hold.
        link: Where that is tracked.
    """

    backend: str
    clause: str
    reason: str
    link: str


def read_known(path: Path) -> tuple[Known, ...]:
    """The entries of a file.

    Raises:
        BadKnownFile: It cannot be read, or an entry is none; names the entry.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadKnownFile(f"{path}: {error}") from error
    entries = content.pop("known", [])
    if content or not isinstance(entries, list):
        raise BadKnownFile(f"{path}: expected [[known]] tables and nothing else")
    return tuple(_entry(path, number, entry) for number, entry in enumerate(entries, 1))


def with_known(judgements: Iterable[Judgement], known: Sequence[Known]) -> list[Judgement]:
    """The judgements, with the reason where a deviation is known."""
    reasons = {(entry.backend, entry.clause): f"{entry.reason} ({entry.link})" for entry in known}
    return [
        replace(judgement, known=reasons.get((judgement.backend, judgement.clause), ""))
        for judgement in judgements
    ]


def _entry(path: Path, number: int, entry: Mapping[str, object]) -> Known:
    names = [field.name for field in fields(Known)]
    texts = {name: value for name, value in entry.items() if isinstance(value, str) and value.strip()}
    if sorted(entry) != sorted(names) or len(texts) < len(names):
        raise BadKnownFile(f"{path}, entry {number}: needs the texts {', '.join(names)}, and nothing else")
    found = Known(**texts)
    clause = by_id().get(found.clause)
    if clause is None:
        raise BadKnownFile(f"{path}, entry {number}: there is no clause {found.clause}")
    if clause.kind == "stochastic":
        raise BadKnownFile(
            f"{path}, entry {number}: {found.clause} is judged by statistics, so a run can pass by chance; "
            "claim less instead"
        )
    return found
