"""How strongly mutants are killed: a committed file, which a run holds itself against.

For each mutant and clause: how many checks fail, and, where one of them explores, after how many examples the
first did. A run fails where fewer checks kill a mutant than the file says.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from conformance.mutants.mutant import ANY_SEQUENCE, Mutant
from conformance.mutants.observing import EXAMPLES, Seen

EARLY = EXAMPLES // 2
"""What an exploration finds within so many examples it will find with another version of Hypothesis too."""
FILE = Path(__file__).with_name("strength.toml")
Strength: TypeAlias = dict[str, dict[str, dict[str, int]]]
_HEAD = """\
# How many checks kill a mutant, and after how many examples those that explore do.
# Written by `python -m conformance.mutants --write-strength`.

"""


def measured(mutants: Sequence[Mutant], seen: Mapping[str, Seen]) -> Strength:
    """By mutant and clause."""
    return {
        mutant.name: {
            clause: _of(seen[mutant.name], clause) for clause in _counted(mutant, seen[mutant.name])
        }
        for mutant in mutants
        if mutant.clauses
    }


def read(path: Path = FILE) -> Strength:
    """What the file says."""
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(strength: Strength, path: Path = FILE) -> None:
    """Replace what the file says of these mutants."""
    merged = {**read(path), **strength}
    path.write_text(_HEAD + "\n".join(_lines(merged)) + "\n", encoding="utf-8")


def weaker(now: Strength, before: Strength) -> Iterator[str]:
    """Where a mutant is killed by fewer checks than before, or is new."""
    for name, clauses in now.items():
        if name not in before:
            yield f"{name} has no entry in {FILE.name}: run with --write-strength"
        for clause, entry in before.get(name, {}).items():
            checks = clauses.get(clause, {}).get("checks", 0)
            if checks < entry["checks"]:
                yield f"{name}: {clause} is failed by {checks} checks, and was by {entry['checks']}"


def _counted(mutant: Mutant, seen: Seen) -> list[str]:
    """The clauses that have to fail, and those of any sequence that fail early; later ones are luck."""
    any_sequence = [clause for clause in sorted(set(ANY_SEQUENCE.values())) if _early(seen, clause)]
    return list(dict.fromkeys([*mutant.clauses, *any_sequence]))


def _early(seen: Seen, clause: str) -> bool:
    return any(failure.examples <= EARLY for failure in seen.failures.get(clause, ()))


def _of(seen: Seen, clause: str) -> dict[str, int]:
    failures = seen.failures.get(clause, [])
    needed = [failure.examples for failure in failures if failure.examples]
    return {"checks": len(failures), **({"examples": min(needed)} if needed else {})}


def _lines(strength: Strength) -> Iterator[str]:
    for name, clauses in sorted(strength.items()):
        yield f"[{name}]"
        for clause, entry in clauses.items():
            yield f"{clause} = {{ {', '.join(f'{key} = {value}' for key, value in entry.items())} }}"
        yield ""
