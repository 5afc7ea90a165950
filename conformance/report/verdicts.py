"""How results of checks become one verdict for each clause and backend, and an exit status for the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from conformance.backend import Backend
from conformance.catalogue import Clause, checked


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
    """

    backend: str
    clause: str
    verdict: Verdict
    check: str
    message: str = ""
    program: tuple[str, ...] = ()
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on one clause of one backend, and the results on which it rests."""

    backend: str
    clause: str
    verdict: Verdict
    results: tuple[Result, ...] = ()

    @property
    def message(self) -> str:
        """Why it is not a pass, by the first result that says so."""
        return next((result.message for result in self.results if result.verdict is self.verdict), "")


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The one that counts: a failure before doubt before a pass; nothing at all is unknown."""
    seen = set(verdicts)
    return next((verdict for verdict in _WORST_FIRST if verdict in seen), Verdict.UNKNOWN)


def judge(clause: Clause, backend: Backend, results: Sequence[Result]) -> Judgement:
    """One verdict for one clause and backend."""
    if not clause.claimed_by(backend.claims):
        verdict = Verdict.NOT_CLAIMED
    elif clause.id not in checked():
        verdict = Verdict.UNTESTED
    else:
        verdict = worst(result.verdict for result in results)
    return Judgement(backend=backend.name, clause=clause.id, verdict=verdict, results=tuple(results))


def judge_all(
    clauses: Sequence[Clause],
    backends: Sequence[Backend],
    results: Mapping[tuple[str, str], Sequence[Result]],
) -> list[Judgement]:
    """Every clause of every backend, by clause; `results` are keyed by names of backend and clause."""
    return [
        judge(clause, backend, results.get((backend.name, clause.id), ()))
        for clause in clauses
        for backend in backends
    ]


def exit_status(judgements: Iterable[Judgement]) -> int:
    """0: all that is claimed and checked passes; 1: something fails; 2: not everything could be judged."""
    verdicts = {judgement.verdict for judgement in judgements}
    if Verdict.FAIL in verdicts:
        return 1
    doubtful = verdicts & {Verdict.UNKNOWN, Verdict.NOT_EVALUABLE}
    return 2 if doubtful or Verdict.PASS not in verdicts else 0
