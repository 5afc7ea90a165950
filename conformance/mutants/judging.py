"""What is to be said of a run on mutants: who was killed by what, and what is not as it should be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from conformance.catalogue import by_id, checked
from conformance.mutants.mutant import Mutant
from conformance.mutants.observing import Seen

EXCUSED: dict[str, str] = {}
"""Clauses whose check no mutant has to fail, and why that is impossible."""


def complaints(mutant: Mutant, seen: Seen) -> Iterator[str]:
    """What is not as it should be."""
    missed = [clause for clause in mutant.clauses if clause not in seen.failures]
    if missed:
        yield f"{mutant.name} survives {', '.join(missed)}"
    for clause in sorted(strays(mutant, seen)):
        yield f"{mutant.name} fails {clause} too: {_why(seen, clause)}"
    first = mutant.clauses[0] if mutant.clauses else ""
    messages = [failure.message for failure in seen.failures.get(first, ())]
    if messages and not any(mutant.fragment in message for message in messages):
        yield f"{mutant.name} fails {first} without {mutant.fragment!r}: {_why(seen, first)}"


def strays(mutant: Mutant, seen: Seen) -> set[str]:
    """Clauses that fail, or of which nothing can be said, though nobody announced it."""
    unknown = {clause for clause, why in seen.doubtful.items() if why.startswith("unknown")}
    strict = mutant.role == "benign" or bool(mutant.blind)
    judged = {
        clause for clause in {*seen.failures, *unknown} if strict or by_id()[clause].level <= mutant.level
    }
    return judged - mutant.allowed()


def killers(mutants: Sequence[Mutant], seen: Mapping[str, Seen]) -> dict[str, list[str]]:
    """Mutants that fail a clause that they have to fail, by clause."""
    found: dict[str, list[str]] = {clause: [] for clause in sorted(checked())}
    for mutant in mutants:
        for clause in mutant.clauses:
            if clause in seen[mutant.name].failures:
                found[clause].append(mutant.name)
    return found


def unproved(mutants: Sequence[Mutant]) -> set[str]:
    """Clauses that have a check, which no mutant has to fail, and of which nobody says why."""
    named = {clause for mutant in mutants for clause in mutant.clauses}
    return set(checked()) - EXCUSED.keys() - named


def _why(seen: Seen, clause: str) -> str:
    found = seen.failures.get(clause)
    text = found[0].message if found else seen.doubtful[clause]
    return " ".join(text.split())[:300]
