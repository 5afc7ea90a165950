"""What is said of a store that is wrong on purpose, or odd, or that cheats; and the list of all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from conformance.catalogue import by_id

Kind: TypeAlias = Literal["in process", "redis", "postgres"]
Role: TypeAlias = Literal["fault", "benign", "cheater"]

ANY_SEQUENCE = {"SES": "SES-030", "CMP": "SES-030", "PRE": "PRE-014", "EPI": "EPI-015"}
"""The clauses that restate their whole chapter: whatever breaks another clause may break them too."""
PUBLIC = re.compile(r"[\w.-]+/[\w.-]+#\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One store, and what the kit has to say of it.

    Args:
        name: Its name, in capitals.
        place: Where the backend is, as `--backend` takes it.
        kind: What it runs on.
        role: `fault`: wrong in one way. `benign`: odd and right. `cheater`: made to look right to this kit.
        note: What it does, in a sentence.
        clauses: Those that have to fail.
        may: Others that fail with them, the clauses of any sequence apart.
        fragment: Stands in a message with which the first of `clauses` fails.
        report: Public reports of this kind of fault, such as `owner/repo#12`; else its class in words.
        killable_at: The level whose checks can tell; above 1 nothing has to fail yet.
        blind: Why the kit cannot tell, for what it will never see.
    """

    name: str
    place: str
    kind: Kind
    role: Role = "fault"
    note: str = ""
    clauses: tuple[str, ...] = ()
    may: frozenset[str] = field(default_factory=frozenset)
    fragment: str = ""
    report: str = ""
    killable_at: int = 1
    blind: str = ""

    @property
    def reports(self) -> list[str]:
        """The public ones."""
        return PUBLIC.findall(self.report)

    @property
    def level(self) -> int:
        """Up to which level a failure that nobody announced counts against it."""
        return max((by_id()[clause].level for clause in self.clauses), default=1)

    def allowed(self) -> set[str]:
        """Clauses that may fail."""
        if self.role == "benign" or self.blind:
            return set(self.clauses)
        named = {*self.clauses, *self.may}
        return named | {ANY_SEQUENCE[clause[:3]] for clause in named if clause[:3] in ANY_SEQUENCE}


MUTANTS: dict[str, Mutant] = {}
"""All of them, by name; those of a module are there once it is imported."""


def enter(mutant: Mutant) -> None:
    """Put it on the list.

    Raises:
        ValueError: The name is taken.
    """
    if mutant.name in MUTANTS:
        raise ValueError(f"two mutants are called {mutant.name}")
    MUTANTS[mutant.name] = mutant


def faults() -> Iterator[Mutant]:
    """Those that have to be killed by checks of today."""
    return (mutant for mutant in MUTANTS.values() if mutant.clauses)
