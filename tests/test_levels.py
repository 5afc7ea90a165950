"""What a backend has earned: levels by layer, the evidence they need, blocked and known deviations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.backend import METHODS, Backend, Layer
from conformance.backends.memory import BACKEND
from conformance.catalogue import Clause, checked, clauses
from conformance.known import BadKnownFile, Known, read_known, with_known
from conformance.report import table
from conformance.report.levels import FLOOR, Level, levels
from conformance.report.verdicts import Judgement, Result, Verdict, exit_status, judge_all

CLAUSES = tuple(clause for clause in clauses() if clause.scope == "backend")
ENOUGH = {f"{layer}.{name}": FLOOR for layer, names in METHODS.items() for name in names}


def backend(*layers: Layer) -> Backend:
    """The reference in memory, as if it had only these layers."""
    return replace(BACKEND, claims=replace(BACKEND.claims, layers=frozenset(layers)))


def result(clause: str, verdict: Verdict, *, basic: bool = False) -> Result:
    """What some check says."""
    return Result(backend="memory", clause=clause, verdict=verdict, check=f"of {clause}", basic=basic)


def judged(tested: Backend, *said: Result) -> list[Judgement]:
    """Judgements of all clauses; where nothing else is said, checks pass."""
    results: dict[tuple[str, str], list[Result]] = {}
    for one in said:
        results.setdefault((one.backend, one.clause), []).append(one)
    for clause in CLAUSES:
        results.setdefault(("memory", clause.id), [result(clause.id, Verdict.PASS)])
    return judge_all(CLAUSES, [tested], results)


def earned(
    tested: Backend,
    *said: Result,
    operations: Mapping[str, int] = ENOUGH,
    among: tuple[Clause, ...] = CLAUSES,
) -> list[Level]:
    """The levels that follow."""
    return levels(among, [tested], judged(tested, *said), {"memory": operations})


def test_all_that_is_checked_holds() -> None:
    """Every claimed layer earns level 1, and the reason why it is not more names untested clauses."""
    found = earned(backend("sessions", "preferences", "episodes"))
    assert [(level.layer, level.earned) for level in found] == [
        ("sessions", 1),
        ("preferences", 1),
        ("episodes", 1),
    ]
    assert all(
        level.missing.startswith("level 2: ") and level.missing.endswith("untested") for level in found
    )


def test_a_layer_that_is_not_claimed_earns_nothing() -> None:
    """It has no level at all, not even none."""
    assert [level.layer for level in earned(backend("episodes"))] == ["episodes"]
    assert earned(backend()) == []


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.UNKNOWN, Verdict.NOT_EVALUABLE])
def test_one_clause_that_does_not_hold_costs_the_level(verdict: Verdict) -> None:
    """Of its layer alone, be it that it fails or that nobody can tell."""
    found = earned(backend("sessions", "preferences"), result("PRE-008", verdict))
    assert [(level.layer, level.earned) for level in found] == [("sessions", 1), ("preferences", 0)]
    assert "PRE-008" in found[1].missing


def test_what_concerns_all_layers_costs_all_of_them() -> None:
    """Tasks that are left running say something of each."""
    found = earned(backend("sessions", "preferences"), result("INF-001", Verdict.FAIL))
    assert [level.earned for level in found] == [0, 0]


def test_too_little_evidence() -> None:
    """Nineteen successes of one operation are not enough: no level, and the run is not green."""
    tested = backend("preferences")
    (level,) = earned(tested, operations={**ENOUGH, "preferences.delete": FLOOR - 1})
    assert (level.earned, level.seen) == (0, False)
    assert "delete 19 times succeeded, 20 are needed" in level.missing
    assert exit_status(judged(tested), enough_seen=level.seen) == 2
    assert exit_status(judged(tested)) == 0


def test_a_level_that_was_not_asked_for() -> None:
    """A run of the first level says nothing about the second, and so."""
    tested = backend("episodes")
    found = levels(CLAUSES, [tested], judged(tested), {"memory": ENOUGH}, asked=1)
    assert [(level.earned, level.missing) for level in found] == [(1, "level 2 was not asked for")]


def test_a_higher_level_needs_the_lower_one() -> None:
    """With level 2 all in order and one clause of level 1 broken, nothing is earned."""
    among = tuple(clause for clause in CLAUSES if clause.level == 1 or clause.id in checked())
    (level,) = earned(backend("episodes"), result("EPI-008", Verdict.FAIL), among=among)
    assert level.earned == 0


def test_a_basic_failure_blocks_what_rests_on_it() -> None:
    """Of its layer everything that does not pass is unknown instead of failed; what passes does."""
    tested = backend("sessions", "preferences")
    said = [
        result("SES-001", Verdict.FAIL, basic=True),
        result("SES-004", Verdict.FAIL),
        result("CMP-002", Verdict.NOT_EVALUABLE),
        result("PRE-002", Verdict.FAIL),
    ]
    found = {judgement.clause: judgement for judgement in judged(tested, *said)}
    assert found["SES-001"].verdict is Verdict.FAIL
    assert found["SES-004"].verdict is found["CMP-002"].verdict is Verdict.UNKNOWN
    assert found["SES-004"].blocked_by == found["CMP-002"].blocked_by == "SES-001"
    assert found["SES-005"].verdict is Verdict.PASS
    assert found["PRE-002"].verdict is Verdict.FAIL
    text = "\n".join(table.failures(list(found.values())))
    assert "memory: nothing can be said while SES-001 fails, of SES-004, CMP-002" in text


def test_namespaces_that_are_not_apart_block_everything() -> None:
    """Then no check knows what it sees."""
    tested = backend("sessions", "preferences")
    said = [result("INF-002", Verdict.FAIL, basic=True), result("PRE-002", Verdict.FAIL)]
    found = {judgement.clause: judgement for judgement in judged(tested, *said)}
    assert found["PRE-002"].blocked_by == "INF-002"


def test_a_failure_of_an_ordinary_check_blocks_nothing() -> None:
    """A text that does not come back exactly is no reason not to look at the order."""
    said = [result("SES-001", Verdict.FAIL), result("SES-005", Verdict.FAIL)]
    found = {judgement.clause: judgement for judgement in judged(backend("sessions"), *said)}
    assert found["SES-005"].verdict is Verdict.FAIL


def test_a_known_failure_does_not_fail_the_run() -> None:
    """But no level is earned over it, and it is shown."""
    tested = backend("preferences")
    known = [Known(backend="memory", clause="PRE-008", reason="by locale", link="#1")]
    found = with_known(judged(tested, result("PRE-008", Verdict.FAIL)), known)
    assert exit_status(found) == 0
    assert "memory: known, by locale (#1): PRE-008" in "\n".join(table.failures(found))
    assert levels(CLAUSES, [tested], found, {"memory": ENOUGH})[0].earned == 0


def test_a_stale_entry_fails_the_run() -> None:
    """What holds does not belong on the list."""
    known = [Known(backend="memory", clause="PRE-008", reason="by locale", link="#1")]
    found = with_known(judged(backend("preferences")), known)
    assert exit_status(found) == 1
    assert "known.toml lists what holds, so remove it: PRE-008" in "\n".join(table.failures(found))


def test_an_unknown_failure_beside_a_known_one_fails_the_run() -> None:
    """The list excuses what it names and nothing else."""
    known = [Known(backend="memory", clause="PRE-008", reason="by locale", link="#1")]
    said = [result("PRE-008", Verdict.FAIL), result("PRE-009", Verdict.FAIL)]
    assert exit_status(with_known(judged(backend("preferences"), *said), known)) == 1


GOOD = '[[known]]\nbackend = "m"\nclause = "PRE-008"\nreason = "r"\nlink = "l"\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("known = 1", "expected"),
        ("[[known]]\n", "entry 1: needs the texts backend, clause, reason, link"),
        (GOOD.replace('reason = "r"\n', ""), "entry 1: needs the texts"),
        (GOOD.replace('"r"', '" "'), "entry 1: needs the texts"),
        (GOOD + GOOD.replace("PRE-008", "PRE-999"), "entry 2: there is no clause PRE-999"),
        (GOOD.replace("PRE-008", "EPI-019"), "EPI-019 is judged by statistics"),
        (GOOD + "extra = 1", "entry 1: needs"),
        ("[other]", "expected"),
        ("no toml", "known.toml: "),
    ],
)
def test_a_file_that_is_none(text: str, problem: str, tmp_path: Path) -> None:
    """The sentence names the file, the entry and what is wrong with it."""
    path = tmp_path / "known.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadKnownFile, match=problem) as caught:
        read_known(path)
    assert str(path) in str(caught.value)


def test_a_file_is_read(tmp_path: Path) -> None:
    """Every entry, in order."""
    path = tmp_path / "known.toml"
    path.write_text(GOOD + GOOD.replace("PRE-008", "SES-022"), encoding="utf-8")
    assert [entry.clause for entry in read_known(path)] == ["PRE-008", "SES-022"]
