"""The kit is a suspect: what is said of the mutants is whole, and some of them are killed as it says.

All of them are the business of `nox -s mutants`, which takes some minutes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.backend import resolve
from conformance.catalogue import by_id, checked
from conformance.mutants import MODULES, every, judging, matrix, strength
from conformance.mutants.__main__ import main
from conformance.mutants.mutant import Mutant
from conformance.mutants.observing import EXAMPLES, Failure, Seen, observe
from conformance.mutants.track_record import updated

ROOT = Path(__file__).resolve().parent.parent
MUTANTS = every()
SOME = (
    "TOOL_NAME_IS_LOST",
    "KEEPS_TWO",
    "COMMIT_BY_THE_HEAD",
    "KEYS_ARE_LOWER_CASE",
    "EQUAL_WRITES_ARE_SKIPPED",
    "SCORE_IS_DISTANCE",
    "LAST_VECTOR_OF_AN_ID",
    "NO_PREFERENCES",
    "SMALL_PREFERENCES",
    "COARSE_SCORES",
    "ALL_IN_TWO_STEPS",
)
"""Quick ones of every kind, benign ones among them, and one that waits for checks of concurrency."""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """What the kit says of some."""
    return observe([MUTANTS[name] for name in SOME], tmp_path_factory.mktemp("mutants"))


@pytest.mark.parametrize("name", SOME)
def test_the_kit_says_what_was_announced(name: str, seen: dict[str, Seen]) -> None:
    """Every clause that has to fail does, in the words that were given, and no other that may not."""
    assert list(judging.complaints(MUTANTS[name], seen[name])) == []


def test_they_are_killed_as_strongly_as_before(seen: dict[str, Seen]) -> None:
    """By as many checks as strength.toml says."""
    now = strength.measured([MUTANTS[name] for name in SOME], seen)
    assert list(strength.weaker(now, strength.read())) == []


def test_explorations_say_how_many_examples_they_needed(seen: dict[str, Seen]) -> None:
    """They stop at the first that fails, and do not look for a smaller one."""
    (found,) = seen["EQUAL_WRITES_ARE_SKIPPED"].failures["PRE-014"]
    assert 1 <= found.examples <= EXAMPLES


def test_there_are_enough_of_every_kind() -> None:
    """Faults in process and on servers, benign stores, cheaters; each module has some."""
    faults = [mutant for mutant in MUTANTS.values() if mutant.role == "fault"]
    assert sum(mutant.kind == "in process" and bool(mutant.clauses) for mutant in faults) >= 45
    assert {mutant.kind for mutant in faults} == {"in process", "redis", "postgres"}
    assert sum(mutant.role == "benign" for mutant in MUTANTS.values()) >= 10
    assert sum(mutant.role == "cheater" for mutant in MUTANTS.values()) >= 3
    places = {mutant.place.partition(":")[0] for mutant in MUTANTS.values()}
    assert places == {f"conformance.mutants.{module}" for module in MODULES}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_what_is_said_of_a_mutant_is_whole(mutant: Mutant) -> None:
    """It is where it says, is described, and fails clauses that have a check, or says why it fails none."""
    assert resolve(mutant.place).name == mutant.name
    assert mutant.note.endswith(".")
    assert {*mutant.clauses, *mutant.may} <= checked()
    assert all(by_id()[clause].claimed_by(resolve(mutant.place).claims) for clause in mutant.clauses)
    if mutant.role == "benign":
        assert (mutant.clauses, mutant.blind, mutant.killable_at) == ((), "", 1)
    else:
        assert mutant.report
        assert bool(mutant.clauses) == bool(mutant.fragment)
        assert bool(mutant.clauses) != bool(mutant.blind or mutant.killable_at > 1)


def test_every_check_is_proved_or_says_why_not() -> None:
    """Each clause that has a check has to be failed by a mutant, or stands among the excused."""
    assert judging.unproved(list(MUTANTS.values())) == set()
    named = {clause for mutant in MUTANTS.values() for clause in mutant.clauses}
    assert not judging.EXCUSED.keys() & named


def test_every_mutant_has_a_strength() -> None:
    """strength.toml has those that have to be killed, and no others."""
    assert strength.read().keys() == {mutant.name for mutant in MUTANTS.values() if mutant.clauses}


def test_the_track_record_is_current() -> None:
    """docs/track-record.md is what `python -m conformance.mutants.track_record` writes."""
    document = (ROOT / "docs" / "track-record.md").read_text(encoding="utf-8")
    assert document == updated(document)


MUTANT = Mutant(
    name="M", place="m:M", kind="in process", note="Loses.", clauses=("SES-004",), fragment="contents"
)


def _failing(*clauses: str, message: str = "contents") -> Seen:
    return Seen({clause: [Failure(check="test_x", message=message)] for clause in clauses})


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (_failing("SES-004", "SES-030"), ""),
        (_failing(), "M survives SES-004"),
        (_failing("SES-004", "SES-008"), "M fails SES-008 too"),
        (_failing("SES-004", "CMP-019"), ""),
        (_failing("SES-004", message="else"), "M fails SES-004 without 'contents'"),
    ],
)
def test_complaints(said: Seen, complaint: str) -> None:
    """A mutant that survives, that fails elsewhere or with other words is complained about."""
    found = list(judging.complaints(MUTANT, said))
    assert [text.startswith(complaint) for text in found] == ([True] if complaint else [])


def test_doubt_counts_as_a_failure() -> None:
    """What could not be judged is no pass; what the backend cannot show is none of its faults."""
    doubtful = Seen(_failing("SES-004").failures, {"SES-008": "unknown: x", "SES-018": "not_evaluable: x"})
    assert judging.strays(MUTANT, doubtful) == {"SES-008"}


def test_strength_that_shrinks_is_seen() -> None:
    """Fewer checks that kill, a clause that does not fail any more, and a mutant that nobody measured."""
    now = strength.measured([MUTANT], {"M": _failing("SES-004")})
    assert now == {"M": {"SES-004": {"checks": 1}}}
    assert not list(strength.weaker(now, now))
    before = {"M": {"SES-004": {"checks": 2}, "SES-030": {"checks": 1}}}
    assert len(list(strength.weaker(now, before))) == 2
    assert len(list(strength.weaker(now, {}))) == 1


def test_strength_is_written_as_it_is_read(tmp_path: Path) -> None:
    """What was measured of others stays."""
    path = tmp_path / "strength.toml"
    strength.write({"A": {"SES-004": {"checks": 2, "examples": 7}}}, path)
    strength.write({"B": {"SES-004": {"checks": 1}}}, path)
    assert strength.read(path) == {
        "A": {"SES-004": {"checks": 2, "examples": 7}},
        "B": {"SES-004": {"checks": 1}},
    }


def test_the_matrix_has_everybody(seen: dict[str, Seen], tmp_path: Path) -> None:
    """As JSON and as Markdown."""
    mutants = [MUTANTS[name] for name in SOME]
    for path in matrix.write(mutants, seen, ["something"], tmp_path):
        text = path.read_text(encoding="utf-8")
        assert all(name in text for name in SOME)
        assert "something" in text


def test_an_unknown_name_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """The command says which there are."""
    with pytest.raises(SystemExit) as ended:
        main(["--id", "NOBODY"])
    assert ended.value.code == 4
    assert "OLDEST_WINDOW" in capsys.readouterr().err
