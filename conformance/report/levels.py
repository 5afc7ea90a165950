"""Which level a backend has earned, layer by layer: what was promised holds, and enough of it was seen.

A level needs every required and claimed clause of it and of those below. A clause that has no check yet, or
could not be judged, is not one that holds. Nothing is earned by promising nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from conformance.backend import LAYERS, METHODS, Backend, Layer
from conformance.catalogue import LEVELS, Clause
from conformance.report.verdicts import Judgement, Verdict

FLOOR = 20
"""Each kind of operation of a layer has to succeed so often before its sequential clauses count as seen."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Level:
    """What one layer of a backend has earned.

    Args:
        backend, layer: Names.
        earned: 1 to 4; 0 for none.
        missing: Why it is not more.
        seen: Whether there was evidence enough to judge the lowest level.
    """

    backend: str
    layer: Layer
    earned: int
    missing: str
    seen: bool


def levels(
    clauses: Sequence[Clause],
    backends: Sequence[Backend],
    judgements: Sequence[Judgement],
    operations: Mapping[str, Mapping[str, int]],
    *,
    asked: int = max(LEVELS),
) -> list[Level]:
    """The level of each claimed layer.

    Args:
        clauses, backends, judgements: Of the run.
        operations: How often each succeeded, by backend and `layer.operation`.
        asked: The highest level that the run was to look at.
    """
    found = {(judgement.backend, judgement.clause): judgement for judgement in judgements}
    return [
        _level(backend, layer, clauses, found, operations.get(backend.name, {}), asked)
        for backend in backends
        for layer in LAYERS
        if layer in backend.claims.layers
    ]


def _level(
    backend: Backend,
    layer: Layer,
    clauses: Sequence[Clause],
    found: Mapping[tuple[str, str], Judgement],
    operations: Mapping[str, int],
    asked: int,
) -> Level:
    short = [
        f"{name} {operations.get(f'{layer}.{name}', 0)} times"
        for name in METHODS[layer]
        if operations.get(f"{layer}.{name}", 0) < FLOOR
    ]
    earned = 0
    for level in LEVELS:
        if level > asked:
            return Level(backend.name, layer, earned, f"level {level} was not asked for", True)
        of_level = [
            found[backend.name, clause.id]
            for clause in clauses
            if clause.level == level and clause.layer in (layer, None)
        ]
        missing = _missing(of_level, short)
        if missing:
            return Level(backend.name, layer, earned, f"level {level}: {missing}", not short)
        earned = level
    return Level(backend.name, layer, earned, "", True)


def _missing(judgements: Sequence[Judgement], short: Sequence[str]) -> str:
    """Why a level is not earned; empty if it is."""
    if short:
        return f"too little was seen: {', '.join(short)} succeeded, {FLOOR} are needed"
    asked = [judgement for judgement in judgements if judgement.verdict is not Verdict.NOT_CLAIMED]
    if not asked:
        return "nothing of it is claimed"
    return "; ".join(_lacking(asked))


def _lacking(asked: Sequence[Judgement]) -> Iterator[str]:
    words = {
        Verdict.FAIL: "fail",
        Verdict.UNKNOWN: "not judged",
        Verdict.NOT_EVALUABLE: "not evaluable",
        Verdict.UNTESTED: "untested",
    }
    for verdict, word in words.items():
        names = [judgement.clause for judgement in asked if judgement.verdict is verdict]
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            yield f"{', '.join(names[:_NAMED])}{more} {word}"
