"""How results of checks become one verdict for each clause and backend, and an exit status for the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from conformance.backend import Backend, Layer
from conformance.catalogue import Clause, by_id, checked


class Verdict(StrEnum):
    """What can be said of one clause on one backend."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"
    """It should have been judged and was not: the check did not run, or broke before it could tell."""
    NOT_EVALUABLE = "not_evaluable"
    """The check cannot tell on this backend, for want of a hook or of evidence."""
    NOT_CLAIMED = "not_claimed"
    UNTESTED = "untested"
    """Promised, and there is no check yet."""


COULD_NOT_BEGIN = "the check could not begin or end"
"""How the message of a result opens that says nothing about the clause."""
_WORST_FIRST = (Verdict.FAIL, Verdict.UNKNOWN, Verdict.NOT_EVALUABLE, Verdict.PASS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one check says of one clause on one backend.

    Args:
        backend, clause: Names.
        verdict: One of the first four.
        check: Node id of the check.
        message: Why it is not a pass.
        program: The calls that the check made, where it is not a pass.
        command: How to see it again.
        basic: Whether the check is one on which the others of its layer rest.
    """

    backend: str
    clause: str
    verdict: Verdict
    check: str
    message: str = ""
    program: tuple[str, ...] = ()
    command: str = ""
    basic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on one clause of one backend, and the results on which it rests.

    Args:
        backend, clause: Names.
        verdict: What can be said.
        results: What the checks said.
        blocked_by: The clause without which nothing can be said of this one.
        known: Why this deviation is known, and need not be reported again.
    """

    backend: str
    clause: str
    verdict: Verdict
    results: tuple[Result, ...] = ()
    blocked_by: str = ""
    known: str = ""

    @property
    def message(self) -> str:
        """Why it is not a pass, by the first result that says so."""
        return next((result.message for result in self.results if result.verdict is self.verdict), "")


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The one that counts: a failure before doubt before a pass; nothing at all is unknown."""
    seen = set(verdicts)
    return next((verdict for verdict in _WORST_FIRST if verdict in seen), Verdict.UNKNOWN)


def judge(
    clause: Clause, backend: Backend, results: Sequence[Result], broken: Mapping[Layer | None, str]
) -> Judgement:
    """One verdict for one clause and backend; `broken` has the basic clause that fails, by its layer."""
    blocked_by = ""
    if not clause.claimed_by(backend.claims):
        verdict = Verdict.NOT_CLAIMED
    elif clause.id not in checked():
        verdict = Verdict.UNTESTED
    else:
        verdict = worst(result.verdict for result in results)
        basis = broken.get(clause.layer) or broken.get(None, "")
        if verdict is not Verdict.PASS and basis not in ("", clause.id):
            # What it shows is most likely that the basic one fails, once more.
            verdict, blocked_by = Verdict.UNKNOWN, basis
    return Judgement(
        backend=backend.name,
        clause=clause.id,
        verdict=verdict,
        results=tuple(results),
        blocked_by=blocked_by,
    )


def judge_all(
    clauses: Sequence[Clause],
    backends: Sequence[Backend],
    results: Mapping[tuple[str, str], Sequence[Result]],
) -> list[Judgement]:
    """Every clause of every backend, by clause; `results` are keyed by names of backend and clause."""
    broken = {backend.name: _broken(backend.name, results) for backend in backends}
    return [
        judge(clause, backend, results.get((backend.name, clause.id), ()), broken[backend.name])
        for clause in clauses
        for backend in backends
    ]


def _broken(backend: str, results: Mapping[tuple[str, str], Sequence[Result]]) -> dict[Layer | None, str]:
    """The clauses whose basic check fails, by layer; by `None` where all layers rest on it."""
    return {
        by_id()[clause].layer: clause
        for (name, clause), found in results.items()
        if name == backend and any(result.basic and result.verdict is Verdict.FAIL for result in found)
    }


def exit_status(judgements: Iterable[Judgement], *, enough_seen: bool = True) -> int:
    """0: all that is claimed and checked passes; 1: something fails; 2: not everything could be judged.

    A failure that is known does not count; one that is known and passes does: its entry is stale.
    """
    judgements = list(judgements)
    if any(
        (judgement.verdict is Verdict.FAIL) != bool(judgement.known)
        for judgement in judgements
        if _said(judgement)
    ):
        return 1
    verdicts = {judgement.verdict for judgement in judgements}
    doubtful = verdicts & {Verdict.UNKNOWN, Verdict.NOT_EVALUABLE}
    return 2 if doubtful or Verdict.PASS not in verdicts or not enough_seen else 0


def _said(judgement: Judgement) -> bool:
    return judgement.verdict in (Verdict.PASS, Verdict.FAIL)
