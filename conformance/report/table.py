"""The verdicts as text: a row for each clause, a column for each backend, then what failed and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from conformance.catalogue import CHAPTERS, LEVELS, Clause, by_id
from conformance.report.levels import Level
from conformance.report.verdicts import COULD_NOT_BEGIN, Judgement, Result, Verdict

_WORDS = {
    Verdict.PASS: "pass",
    Verdict.FAIL: "FAIL",
    Verdict.UNKNOWN: "UNKNOWN",
    Verdict.NOT_EVALUABLE: "not evaluable",
    Verdict.NOT_CLAIMED: "not claimed",
    Verdict.UNTESTED: "untested",
}
_WIDTH = max(len(word) for word in _WORDS.values())
_SHOWN_CALLS = 30
_SHOWN_RESULTS = 2


def table(clauses: Sequence[Clause], backends: Sequence[str], judgements: Sequence[Judgement]) -> list[str]:
    """The matrix of clauses and backends."""
    found = {(judgement.clause, judgement.backend): _word(judgement) for judgement in judgements}
    width = max(len(clause.title) for clause in clauses)
    lines = [" ".join(["clause ", "L", " " * width, *(f"{name:<{_WIDTH}}" for name in backends)]).rstrip()]
    chapter = ""
    for clause in clauses:
        if clause.chapter != chapter:
            chapter = clause.chapter
            lines.append(CHAPTERS[chapter])
        words = [f"{found[clause.id, name]:<{_WIDTH}}" for name in backends]
        lines.append(" ".join([clause.id, str(clause.level), f"{clause.title:<{width}}", *words]).rstrip())
    return lines


def summary(backends: Sequence[str], judgements: Sequence[Judgement], levels: Sequence[Level]) -> list[str]:
    """One sentence for each backend, and one for each of its layers."""
    lines = []
    for name in backends:
        lines.append(_sentence(name, [judgement for judgement in judgements if judgement.backend == name]))
        lines += [_earned(level) for level in levels if level.backend == name]
    return lines


def failures(judgements: Sequence[Judgement]) -> Iterator[str]:
    """Every clause that does not pass although it should, with the promise and what was seen."""
    in_short: dict[str, list[str]] = {}
    for judgement in judgements:
        short = _in_short(judgement)
        if short:
            in_short.setdefault(short, []).append(judgement.clause)
        elif judgement.verdict in (Verdict.FAIL, Verdict.UNKNOWN, Verdict.NOT_EVALUABLE):
            yield from _failure(judgement)
    for short, clauses in in_short.items():
        yield ""
        yield f"{short} {', '.join(clauses)}"


def _word(judgement: Judgement) -> str:
    if judgement.known:
        return "stale" if judgement.verdict is Verdict.PASS else "known"
    return "blocked" if judgement.blocked_by else _WORDS[judgement.verdict]


def _in_short(judgement: Judgement) -> str:
    """What is said of this clause and others together; empty if there is more to say."""
    name = judgement.backend
    if judgement.known and judgement.verdict is Verdict.PASS:
        return f"{name}: known.toml lists what holds, so remove it:"
    if judgement.known and judgement.verdict is Verdict.FAIL:
        return f"{name}: known, {judgement.known}:"
    if judgement.blocked_by:
        return f"{name}: nothing can be said while {judgement.blocked_by} fails, of"
    if judgement.verdict is Verdict.UNKNOWN and not judgement.results:
        return f"{name}: no check ran of"
    if judgement.verdict is Verdict.UNKNOWN and judgement.message.startswith(COULD_NOT_BEGIN):
        return f"{name}: {judgement.message}; so nothing is known of"
    return ""


def _earned(level: Level) -> str:
    earned = f"level {level.earned}, {LEVELS[level.earned]}" if level.earned else "no level"
    return f"  {level.layer}: {earned}" + (f" ({level.missing})" if level.missing else "")


def _sentence(name: str, judgements: Sequence[Judgement]) -> str:
    counts = Counter(judgement.verdict for judgement in judgements)
    judged = sum(counts[verdict] for verdict in (Verdict.PASS, Verdict.FAIL))
    asked = judged + counts[Verdict.UNKNOWN] + counts[Verdict.NOT_EVALUABLE]
    known = sum(judgement.verdict is Verdict.FAIL and bool(judgement.known) for judgement in judgements)
    if counts[Verdict.FAIL]:
        verdict = f"{counts[Verdict.FAIL]} of {asked} clauses fail" + (
            f", {known} of them known" if known else ""
        )
    elif asked == 0:
        verdict = "nothing was asked, so nothing is known"
    elif judged < asked:
        verdict = f"nothing fails, but {asked - judged} of {asked} clauses could not be judged"
    else:
        verdict = f"all {asked} clauses hold"
    rest = f"{counts[Verdict.NOT_CLAIMED]} not claimed, {counts[Verdict.UNTESTED]} untested"
    return f"{name}: {verdict} ({rest})"


def _failure(judgement: Judgement) -> Iterator[str]:
    clause = by_id()[judgement.clause]
    yield ""
    yield f"{judgement.backend}: {clause.id} {clause.title}: {_WORDS[judgement.verdict]}"
    yield f"  promised: {clause.text}"
    results = [result for result in judgement.results if result.verdict is judgement.verdict]
    for result in results[:_SHOWN_RESULTS]:
        yield from _result(result)
    if len(results) > _SHOWN_RESULTS:
        yield f"  … {len(results) - _SHOWN_RESULTS} more checks say the same; they are in the report file"


def _result(result: Result) -> Iterator[str]:
    yield from (f"  {line}" for line in result.message.splitlines())
    if result.program:
        yield "  the calls:"
        cut = len(result.program) - _SHOWN_CALLS
        if cut > 0:
            yield f"    … {cut} earlier calls are in the report file"
        yield from (f"    {line}" for line in result.program[-_SHOWN_CALLS:])
    yield f"  again: {result.command}"
