"""The kit as one uses it: commands, exit statuses, records, and being no trouble to others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import conformance

BACKENDS = """
from collections.abc import AsyncIterator
from dataclasses import replace
from conformance.backend import Claims, Context, Stores, backend
from memcore import InMemoryPreferenceStore

CLAIMS = Claims(layers=frozenset({"preferences"}), snapshot=True)

class Wrong(InMemoryPreferenceStore):
    async def forget(self, user_id):
        return await super().forget(user_id) + 1

class Broken(InMemoryPreferenceStore):
    async def set(self, user_id, key, value):
        raise OSError("no disk")

def made(kind, **claims):
    @backend(kind.__name__, replace(CLAIMS, **claims))
    async def opened(ctx: Context) -> AsyncIterator[Stores]:
        async with kind() as store:
            yield Stores(preferences=store)
    return opened

GOOD, WRONG, BROKEN = made(InMemoryPreferenceStore), made(Wrong), made(Broken)
NOTHING = made(InMemoryPreferenceStore, layers=frozenset())
UNPROVED = made(InMemoryPreferenceStore, layers=frozenset({"sessions"}), ttl=1.0)

@backend("unopened", CLAIMS)
async def UNOPENED(ctx: Context) -> AsyncIterator[Stores]:
    raise OSError("cannot open")
    yield

@backend("needy", CLAIMS, servers=["redis"])
async def NEEDY(ctx: Context) -> AsyncIterator[Stores]:
    yield Stores()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of somebody who has backends in a module `mine`."""
    (tmp_path / "mine.py").write_text(BACKENDS, encoding="utf-8")
    return tmp_path


def run(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """`python -m conformance` in that folder."""
    command = [sys.executable, "-m", "conformance", "--seed", "1", *arguments]
    env = {**os.environ, "PYTHONPATH": str(folder), **environ}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def record(folder: Path) -> list[dict[str, Any]]:
    """The record that a run left."""
    (path,) = (folder / "reports").glob("*.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def verdicts(folder: Path) -> dict[str, str]:
    """Verdict of each clause in the record."""
    return {event["clause"]: event["verdict"] for event in record(folder) if event["event"] == "verdict"}


def test_a_backend_that_holds_exits_with_0(folder: Path) -> None:
    """A sentence, a table, a record with header and footer, all layers that it has not as not claimed."""
    done = run(folder, "--backend", "mine:GOOD", "--level", "1")
    assert done.returncode == 0, done.stdout
    assert "InMemoryPreferenceStore: all 17 clauses hold" in done.stdout
    assert "seed 1" in done.stdout
    events = record(folder)
    assert [events[0]["event"], events[-1]["event"]] == ["header", "footer"]
    assert events[0]["seed"] == 1
    assert events[0]["versions"]["memcore-conformance"]
    assert events[-1]["exit_status"] == 0
    assert events[-1]["operations_succeeded"]["InMemoryPreferenceStore"]["preferences.set"] >= 20
    by_clause = verdicts(folder)
    assert by_clause["PRE-001"] == "pass"
    assert by_clause["SES-001"] == by_clause["EPI-001"] == "not_claimed"


def test_a_failure_exits_with_1_and_is_shown(folder: Path) -> None:
    """The clause, its promise, expected and got, the calls, and the command that shows it again."""
    done = run(folder, "--backend", "mine:WRONG", "--level", "1")
    assert done.returncode == 1
    assert "Wrong: 2 of 17 clauses fail" in done.stdout
    for part in (
        "PRE-010 forget: FAIL",
        "promised: `forget` removes everything of its user",
        "expected: 2",
        "got:      3",
        "preferences.forget('u')  → 3",
        "again: python -m conformance --backend mine:WRONG --level 1 --seed 1 -k test_forget_removes_a_user",
    ):
        assert part in done.stdout
    failed = {clause for clause, verdict in verdicts(folder).items() if verdict == "fail"}
    assert failed == {"PRE-010", "PRE-014"}


def test_the_command_that_is_printed_shows_the_failure_again(folder: Path) -> None:
    """Typed as it stands it fails in the same way."""
    first = run(folder, "--backend", "mine:WRONG", "-k", "test_any_sequence_on_preferences")
    command = first.stdout.partition("again: ")[2].splitlines()[0].split()
    again = run(folder, *command[3:])
    assert first.returncode == again.returncode == 1

    def shown(done: subprocess.CompletedProcess[str]) -> str:
        return done.stdout.partition("PRE-014 any sequence: FAIL")[2].partition("again:")[0]

    assert shown(first)
    assert shown(first) == shown(again)


def test_a_store_that_always_raises_fails(folder: Path) -> None:
    """Errors of the store are failures of the clause, not of the kit."""
    done = run(folder, "--backend", "mine:BROKEN", "-k", "test_the_last_set_wins")
    assert done.returncode == 1
    assert "OSError: no disk" in done.stdout


@pytest.mark.parametrize(
    ("name", "check", "words"),
    [
        ("UNOPENED", "test_the_last_set_wins", "cannot open"),
        ("GOOD", "test_the_last_set_wins", "no check ran of"),
        ("NOTHING", "test_namespaces", "nothing was asked"),
    ],
)
def test_what_could_not_be_judged_exits_with_2(folder: Path, name: str, check: str, words: str) -> None:
    """A store that does not open, checks left out, and a backend that claims nothing are not green."""
    done = run(folder, "--backend", f"mine:{name}", "-k", check)
    assert done.returncode == 2, done.stdout
    assert words in done.stdout


def test_a_server_that_cannot_be_had_exits_with_3(folder: Path) -> None:
    """One sentence with what was tried, no traceback, no secret, and no record that looks whole."""
    url = "redis://user:secret@127.0.0.1:1/0"
    done = run(folder, "--backend", "mine:NEEDY", MEMCORE_REDIS_URL=url)
    assert done.returncode == 3
    assert "MEMCORE_REDIS_URL" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert "secret" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["nosuch", "mine:NOSUCH", "nosuch:X", "mine:CLAIMS"])
def test_an_unknown_backend_exits_with_4(folder: Path, name: str) -> None:
    """One sentence that names it."""
    done = run(folder, "--backend", name)
    assert done.returncode == 4
    assert f"no backend '{name}'" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("options", [["--level", "9"], ["--seed", "abc"], ["-n", "2", "--dist", "each"]])
def test_wrong_options_exit_with_4(folder: Path, options: list[str]) -> None:
    """As all wrong usage does, and never with what says that something was judged."""
    assert run(folder, "--backend", "mine:GOOD", *options).returncode == 4


def test_a_module_that_breaks_exits_with_4(folder: Path) -> None:
    """What it raises while it is imported stands in one sentence."""
    (folder / "broken.py").write_text("raise RuntimeError('half written')", encoding="utf-8")
    done = run(folder, "--backend", "broken:BACKEND")
    assert done.returncode == 4
    assert "half written" in done.stderr
    assert "Traceback" not in done.stderr


def test_claims_that_protect_nobody_are_refused(folder: Path) -> None:
    """A retry window of 5 cannot be checked, and the claim says so."""
    (folder / "small.py").write_text(
        f"{BACKENDS}\nTINY = made(InMemoryPreferenceStore, idempotent=5)", encoding="utf-8"
    )
    done = run(folder, "--backend", "small:TINY")
    assert done.returncode == 4
    assert "idempotent=5 is below 100" in done.stderr


def test_a_dimension_that_is_not_opened_is_a_broken_promise(folder: Path) -> None:
    """Where a plain opening works, refusing what is claimed fails the clause, and is not unknown."""
    source = """
from memcore import InMemoryEpisodicStore

@backend("low", Claims(layers=frozenset({"episodes"})))
async def LOW(ctx):
    if ctx.dimension > 2000:
        raise OSError("too many")
    async with InMemoryEpisodicStore(model=ctx.model, dimension=ctx.dimension) as store:
        yield Stores(episodes=store)
"""
    (folder / "low.py").write_text(BACKENDS + source, encoding="utf-8")
    done = run(folder, "--backend", "low:LOW", "-k", "dimensions_up_to")
    assert done.returncode == 1
    assert "EPI-016 dimensions: FAIL" in done.stdout


def test_a_backend_that_hangs_is_given_up(folder: Path) -> None:
    """Calls and openings that do not return are failures or unknown, and after some no more are made."""
    source = """
import asyncio
from conformance import recorder
recorder.HANG_SECONDS = 0.2

class Hanging(InMemoryPreferenceStore):
    async def set(self, user_id, key, value):
        await asyncio.Event().wait()

HANGS = made(Hanging)

@backend("never", CLAIMS)
async def NEVER(ctx):
    await asyncio.Event().wait()
    yield Stores()
"""
    (folder / "hang.py").write_text(BACKENDS + source, encoding="utf-8")
    done = run(folder, "--backend", "hang:HANGS", "--backend", "hang:NEVER", "--level", "1")
    assert done.returncode == 1
    assert "did not return within 0.2 s" in done.stdout
    assert "3 calls of this backend hung before" in done.stdout
    assert "never: nothing fails, but 17 of 17 clauses could not be judged" in done.stdout


def test_stopping_at_the_first_failure_leaves_no_footer(folder: Path) -> None:
    """`-x` cuts a run short."""
    done = run(folder, "--backend", "mine:WRONG", "-x")
    assert done.returncode == 1
    assert "footer" not in {event["event"] for event in record(folder)}


def test_a_run_that_is_interrupted_has_no_footer(folder: Path) -> None:
    """Ctrl-C ends it with 2, and what was recorded cannot be taken for a whole run."""
    command = [sys.executable, "-m", "conformance", "--backend", "mine:GOOD", "--backend", "redis"]
    env = {**os.environ, "PYTHONPATH": str(folder), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if line.startswith("seed"):
                break
        # The checks run now: the first dots have been printed once a line of the record is there.
        running.send_signal(signal.SIGINT)
        running.stdout.read()
    assert running.returncode == 2
    assert "footer" not in {event["event"] for event in record(folder)}


def test_help_says_what_to_do() -> None:
    """Options, exit statuses and examples."""
    command = [sys.executable, "-m", "conformance", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for part in ("--backend", "--level", "--seed", "--report", "exit status", "examples"):
        assert part in done.stdout


def test_pytest_alone_is_enough(pytester: pytest.Pytester) -> None:
    """`pytest --backend` without a path checks the backend and not the tests of the folder."""
    pytester.makepyfile(mine=BACKENDS, test_own="def test_own(): raise AssertionError")
    done = pytester.runpytest_subprocess("--backend", "mine:GOOD", "--level", "1", "-p", "no:valkey")
    assert done.ret == 0
    done.stdout.fnmatch_lines(["*InMemoryPreferenceStore: all 17 clauses hold*", "record: *reports*.jsonl"])


def test_tests_beside_the_checks_keep_their_say(pytester: pytest.Pytester) -> None:
    """A test of the project that fails in the same session is not covered up."""
    pytester.makepyfile(mine=BACKENDS, test_own="def test_own(): raise AssertionError")
    checks = str(Path(conformance.__file__).with_name("clauses"))
    arguments = ("test_own.py", checks, "--backend", "mine:GOOD", "--level", "1", "-p", "no:valkey")
    assert pytester.runpytest_subprocess(*arguments).ret == 1


def test_a_fixture_of_the_same_name_is_left_alone(pytester: pytest.Pytester) -> None:
    """A project may call a fixture `world` without meaning ours."""
    pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.fixture
        def world():
            return "hello"

        def test_own(world):
            assert world == "hello"
        """
    )
    done = pytester.runpytest_subprocess("-p", "no:valkey")
    done.assert_outcomes(passed=1)
    assert not (pytester.path / "reports").exists()


def test_a_project_that_does_not_ask_notices_nothing(pytester: pytest.Pytester) -> None:
    """With the plugin installed its own tests run as ever, and no report is written."""
    pytester.makepyfile(test_own="def test_own(): pass")
    done = pytester.runpytest_subprocess("-p", "no:valkey")
    done.assert_outcomes(passed=1)
    done.stdout.no_fnmatch_line("*conformance ==*")
    assert not (pytester.path / "reports").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [([], 0, "1 passed"), (["--backend", "memory"], 4, "pip install 'memcore-conformance[conformance]'")],
)
def test_without_its_packages_it_is_no_trouble(
    folder: Path, arguments: list[str], status: int, words: str
) -> None:
    """Where only the core is installed pytest works as ever, and asking for the kit says what to install."""
    (folder / "test_own.py").write_text("def test_own(): pass", encoding="utf-8")
    hidden = "import sys; sys.modules.update(redis=None); import pytest; "
    start = f"{hidden}sys.exit(pytest.main(['-p', 'no:valkey', *sys.argv[1:]]))"
    command = [sys.executable, "-c", start, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    assert words in done.stdout + done.stderr


def test_collecting_alone_starts_nothing(folder: Path) -> None:
    """`--collect-only` lists the checks, starts no server and writes no record."""
    done = run(folder, "--backend", "redis", "--collect-only", MEMCORE_REDIS_URL="redis://127.0.0.1:1")
    assert done.returncode == 0, done.stdout
    assert "test_session_content.py" in done.stdout
    assert not (folder / "reports").exists()
