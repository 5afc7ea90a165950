"""The kill matrix: which mutant is killed by which clause, as JSON and as Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from conformance.mutants.judging import EXCUSED, killers
from conformance.mutants.mutant import Mutant
from conformance.mutants.observing import Seen

_LONG = 400


def write(
    mutants: Sequence[Mutant], seen: Mapping[str, Seen], complaints: Sequence[str], folder: Path
) -> tuple[Path, Path]:
    """Write both; where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    data, text = folder / "mutants.json", folder / "mutants.md"
    rows = {mutant.name: _row(mutant, seen[mutant.name]) for mutant in mutants}
    whole = {"complaints": list(complaints), "mutants": rows, "clauses": killers(mutants, seen)}
    data.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    text.write_text("\n".join(_markdown(mutants, seen, complaints)) + "\n", encoding="utf-8")
    return data, text


def summary(mutants: Sequence[Mutant], seen: Mapping[str, Seen]) -> Iterator[str]:
    """A few lines."""
    have_to = [mutant for mutant in mutants if mutant.clauses]
    killed = sum(all(clause in seen[m.name].failures for clause in m.clauses) for m in have_to)
    yield f"{killed} of {len(have_to)} mutants fail at every clause that names their fault"
    benign = [mutant for mutant in mutants if mutant.role == "benign"]
    yield f"{sum(not seen[m.name].failures for m in benign)} of {len(benign)} benign stores fail nothing"
    proved = killers(mutants, seen)
    yield f"{sum(map(bool, proved.values()))} of {len(proved)} clauses that have a check kill somebody"
    later = [mutant for mutant in mutants if not mutant.clauses and mutant.role != "benign"]
    yield f"{len(later)} more cannot be told from right ones by the checks of today; mutants.md says why"


def details(mutants: Sequence[Mutant], seen: Mapping[str, Seen]) -> Iterator[str]:
    """Each failure, with the calls that led to it."""
    for mutant in mutants:
        yield f"{mutant.name}: {mutant.note}"
        yield f"  {mutant.report or mutant.role}"
        named, found = mutant.clauses, seen[mutant.name].failures
        for clause, failures in sorted(found.items(), key=lambda item: (item[0] not in named, item[0])):
            kind = "has to fail" if clause in named else "fails too"
            yield f"\n  {clause} {kind}, in {len(failures)} checks, the first of which is {failures[0].check}"
            yield from (f"    {line}" for line in failures[0].message.splitlines())
            yield from (f"      {line}" for line in failures[0].program[-12:])
        if not found:
            yield f"  nothing fails. {_why_not(mutant)}"
        yield f"\n  see it again: python -m conformance --backend {mutant.place} --seed 1\n"


def _why_not(mutant: Mutant) -> str:
    if mutant.role == "benign":
        return "It is odd, and right."
    return mutant.blind or f"Only checks of level {mutant.killable_at} can tell."


def _row(mutant: Mutant, seen: Seen) -> dict[str, object]:
    return {
        "kind": mutant.kind,
        "role": mutant.role,
        "note": mutant.note,
        "report": mutant.report,
        "has to fail": list(mutant.clauses),
        "killable at level": mutant.killable_at,
        "cannot be seen": mutant.blind,
        "not evaluable": {clause: why[:_LONG] for clause, why in seen.doubtful.items()},
        "fails": {
            clause: [
                {"check": one.check, "message": one.message[:_LONG], "examples": one.examples}
                for one in failures
            ]
            for clause, failures in sorted(seen.failures.items())
        },
    }


def _markdown(
    mutants: Sequence[Mutant], seen: Mapping[str, Seen], complaints: Sequence[str]
) -> Iterator[str]:
    yield "# Kill matrix\n"
    yield from (f"- {line}" for line in summary(mutants, seen))
    if complaints:
        yield from ["", "## What is not as it should be", "", *(f"- {text}" for text in complaints)]
    yield from ["", "## Killed", "", "| mutant | what it does | has to fail | fails too | first failure |"]
    yield "|---|---|---|---|---|"
    yield from (_killed(mutant, seen[mutant.name]) for mutant in mutants if mutant.clauses)
    yield from ["", "## By clause", "", "| clause | kills |", "|---|---|"]
    for clause, names in killers(mutants, seen).items():
        yield f"| {clause} | {', '.join(names) or EXCUSED.get(clause, 'nobody')} |"
    yield from ["", "## Not to be seen by sequential checks", "", "| mutant | what it does | why | fails |"]
    yield "|---|---|---|---|"
    yield from (_later(m, seen[m.name]) for m in mutants if not m.clauses and m.role != "benign")
    yield from ["", "## Benign", "", "| store | what it does | fails | not evaluable |", "|---|---|---|---|"]
    for mutant in mutants:
        if mutant.role == "benign":
            fails, doubtful = (", ".join(sorted(found)) or "nothing" for found in _both(seen[mutant.name]))
            yield f"| {mutant.name} | {mutant.note} | {fails} | {doubtful} |"


def _both(seen: Seen) -> tuple[Sequence[str], Sequence[str]]:
    return list(seen.failures), list(seen.doubtful)


def _killed(mutant: Mutant, seen: Seen) -> str:
    others = sorted(seen.failures.keys() - set(mutant.clauses))
    first = seen.failures.get(mutant.clauses[0])
    text = " ".join(first[0].message.split())[:160].replace("|", "\\|") if first else "survives"
    return (
        f"| {mutant.name} | {mutant.note} | {', '.join(mutant.clauses)} | {', '.join(others)} "
        f"| `{text.replace('`', '')}` |"
    )


def _later(mutant: Mutant, seen: Seen) -> str:
    why = mutant.blind or f"L{mutant.killable_at}"
    return f"| {mutant.name} | {mutant.note} | {why} | {', '.join(sorted(seen.failures)) or 'nothing'} |"
