"""Backends that call a model themselves, under the whole kit: right ones pass, wrong ones are caught."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RIGHT, WRONG = ("blocking", "in-loop", "json"), ("forgets-the-first", "twice")


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], str]:
    """Verdict for each backend above and clause, of one run of all of them."""
    report = tmp_path_factory.mktemp("models") / "record.jsonl"
    names = ("BLOCKING", "IN_LOOP", "JSON", "FORGETS_THE_FIRST", "TWICE")
    chosen = [part for name in names for part in ("--backend", f"tests.model_help:{name}")]
    command = [sys.executable, "-W", "error", "-m", "conformance", "--seed", "1", "--report", str(report)]
    # By two workers, each with a server of its own; the long explorations on one backend alone.
    done = subprocess.run(
        [*command, *chosen, "-n", "2", "-k", "not any_sequence and not any_conversation or blocking"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr
    events = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
    found = [event for event in events if event["event"] == "verdict"]
    return {(event["backend"], event["clause"]): event["verdict"] for event in found}


@pytest.mark.parametrize("name", RIGHT)
def test_a_backend_that_calls_a_model_can_be_right(name: str, verdicts: dict[tuple[str, str], str]) -> None:
    """Whatever its client and the form of its prompts, all that is checked of it passes."""
    of_name = {clause: verdict for (backend, clause), verdict in verdicts.items() if backend == name}
    other = {clause for clause in of_name if of_name[clause] not in ("pass", "untested", "not_claimed")}
    assert other == (set() if name == "blocking" else {"SES-030"})
    assert [of_name[f"CMP-{n:03}"] for n in range(1, 23)] == ["pass"] * 22


def test_a_turn_that_the_model_did_not_get_is_missed(verdicts: dict[tuple[str, str], str]) -> None:
    """A store that leaves out the first turn breaks conservation, and is right where nothing is covered."""
    assert verdicts["forgets-the-first", "CMP-011"] == "fail"
    assert verdicts["forgets-the-first", "CMP-015"] == verdicts["forgets-the-first", "SES-001"] == "pass"


def test_what_cannot_be_read_is_not_judged(verdicts: dict[tuple[str, str], str]) -> None:
    """A store that gives every turn twice is neither right nor wrong."""
    assert verdicts["twice", "CMP-011"] == "not_evaluable"
    assert "fail" not in {verdict for (backend, _), verdict in verdicts.items() if backend == "twice"}
