"""The kit is a suspect: backends that are wrong on purpose turn red, at the clause that names the fault."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.catalogue import checked
from tests.wrong import (
    WRONG,
    careless_stores,
    compressing_stores,
    other_stores,
    server_stores,
    session_stores,
)

MODULES = (session_stores, compressing_stores, careless_stores, other_stores, server_stores)
ROOT = Path(__file__).resolve().parent.parent


def test_all_of_them_are_there() -> None:
    """Every module has registered its backends, each at the place where the kit will look for it."""
    places = {wrong.place.partition(":")[0] for wrong in WRONG.values()}
    assert places == {module.__name__ for module in MODULES}
    assert len(WRONG) >= 50


NOT_PROVED = {
    "CMP-003": "every wrong store here leaves the algorithm to memcore, which waits",
    "CMP-018": "memcore hands out a tuple, whatever a store does",
    "EPI-015": "explorations are left out here: they take too long to shrink",
    "PRE-014": "explorations are left out here: they take too long to shrink",
    "SES-030": "explorations are left out here: they take too long to shrink",
}
"""Clauses whose check no wrong backend has to fail yet, and why."""


def test_every_check_is_proved_or_says_why_not() -> None:
    """Each clause that has a check is named by a wrong backend, or stands in the list above."""
    named = {clause for wrong in WRONG.values() for clause in wrong.clauses}
    assert checked() - named == set(NOT_PROVED)


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], str]:
    """Verdict for each name and clause, of one run of all of them."""
    report = tmp_path_factory.mktemp("wrong") / "record.jsonl"
    chosen = [part for wrong in WRONG.values() for part in ("--backend", wrong.place)]
    command = [sys.executable, "-m", "conformance", "--seed", "1", "--report", str(report), *chosen]
    # Without the long explorations: a fault that is named has an example of its own.
    done = subprocess.run(
        [*command, "-n", "2", "-k", "not any_sequence and not any_turns and not any_conversation"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr
    events = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
    return {
        (event["backend"], event["clause"]): event["verdict"]
        for event in events
        if event["event"] == "verdict"
    }


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_backend_fails_where_it_is_wrong(name: str, verdicts: dict[tuple[str, str], str]) -> None:
    """Every clause that names its fault fails."""
    seen = {clause: verdicts[name, clause] for clause in WRONG[name].clauses}
    assert seen == dict.fromkeys(WRONG[name].clauses, "fail")


@pytest.mark.parametrize("name", [name for name in WRONG if not name.startswith(("NO_", "ONE_"))])
def test_a_wrong_backend_is_right_elsewhere(name: str, verdicts: dict[tuple[str, str], str]) -> None:
    """One fault does not turn everything red: most clauses hold, so a failure says something."""
    of_name = [verdict for (backend, _), verdict in verdicts.items() if backend == name]
    assert of_name.count("pass") > of_name.count("fail")
