"""The example of an outside backend, as somebody has it who installed the wheels and owns no source."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "sqlite_backend"
BACKEND = "sqlite_memory.testing:BACKEND"


def done(*command: str | Path, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """A command that has ended, run without what the environment of these tests adds to Python's path."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | environ
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )


def succeeded(*command: str | Path, cwd: Path) -> str:
    """What a command printed that has to succeed."""
    ended = done(*command, cwd=cwd)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    return ended.stdout


def verdicts(record: Path) -> dict[str, str]:
    """Verdict of each clause in a record."""
    events = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    return {event["clause"]: event["verdict"] for event in events if event["event"] == "verdict"}


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that holds the two wheels and what they need, and nothing else."""
    folder = tmp_path_factory.mktemp("wheels")
    build: list[str | Path] = ["-m", "pip", "wheel", "-q", "--no-deps", "-w", folder]
    succeeded(sys.executable, *build, ROOT, EXAMPLE, cwd=folder)
    (kit,) = folder.glob("memcore_conformance-*.whl")
    (example,) = folder.glob("sqlite_memory-*.whl")
    succeeded(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    made = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    succeeded(made, "-m", "pip", "install", "-q", kit, f"{example}[test]", cwd=folder)
    return made


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder for databases: in memory where there is such a one, for syncs are most of the time else."""
    shared_memory = Path("/dev/shm")
    with TemporaryDirectory(dir=shared_memory if os.access(shared_memory, os.W_OK) else None) as folder:
        yield Path(folder)


def test_the_installed_example_holds(python: Path, tmp_path: Path, scratch: Path) -> None:
    """From an empty folder every clause that it claims holds, and no file of the run is left."""
    here = tmp_path / "here"
    here.mkdir()
    ran = done(
        python, "-m", "conformance", "--backend", BACKEND, "--seed", "1", cwd=here, TMPDIR=str(scratch)
    )
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-5000:]
    record = here / "reports" / "conformance-sqlite.jsonl"
    found = list(verdicts(record).values())
    assert f"sqlite: all {found.count('pass')} clauses hold" in ran.stdout
    assert found.count("pass") >= 88
    assert list(scratch.iterdir()) == []


def test_the_installed_example_is_announced(python: Path, tmp_path: Path) -> None:
    """Its entry point leads to the backend, by which `--backend sqlite` finds it."""
    code = (
        "from importlib.metadata import entry_points\n"
        "(found,) = entry_points(group='memcore.backends', name='sqlite')\n"
        "print(found.value, found.load().name)"
    )
    assert succeeded(python, "-c", code, cwd=tmp_path) == f"{BACKEND} sqlite\n"


def test_a_folder_of_the_same_name_is_not_taken_for_the_kit(python: Path, tmp_path: Path) -> None:
    """The installed kit runs beside a folder `conformance`."""
    (tmp_path / "conformance").mkdir()
    (tmp_path / "conformance" / "notes.txt").write_text("of somebody else", encoding="utf-8")
    command = ["-m", "conformance", "--backend", "sqlite", "-k", "test_the_last_set_wins"]
    ran = done(python, *command, cwd=tmp_path)
    assert "no check ran of" in ran.stdout, ran.stdout + ran.stderr
    assert verdicts(tmp_path / "reports" / "conformance-sqlite.jsonl")["PRE-002"] == "pass"


@pytest.mark.parametrize("name", ["conformance.py", "conformance/__init__.py", "memcore/__init__.py"])
def test_the_command_is_not_shadowed(name: str, python: Path, tmp_path: Path) -> None:
    """`memcore-conformance` runs the installed kit, whatever is called like it in the folder one is in."""
    shadow = tmp_path / name
    shadow.parent.mkdir(exist_ok=True)
    shadow.write_text("raise SystemExit('of somebody else')", encoding="utf-8")
    options = ["--backend", "sqlite", "-k", "test_the_last_set_wins"]
    ran = done(python.with_name("memcore-conformance"), *options, cwd=tmp_path)
    assert "no check ran of" in ran.stdout, ran.stdout + ran.stderr
    assert verdicts(tmp_path / "reports" / "conformance-sqlite.jsonl")["PRE-002"] == "pass"


def test_a_package_of_the_same_name_is_named(python: Path, tmp_path: Path) -> None:
    """Python prefers a package `conformance` of the folder; the one sentence that it prints says so."""
    (tmp_path / "conformance").mkdir()
    (tmp_path / "conformance" / "__init__.py").write_text("", encoding="utf-8")
    ran = done(python, "-m", "conformance", "--backend", BACKEND, cwd=tmp_path)
    assert ran.returncode == 1
    (sentence,) = ran.stderr.splitlines()
    assert "'conformance' is a package and cannot be directly executed" in sentence


CHECKS = {
    "test_compression_keeps_the_ttl": "SES-024",
    "test_another_model_is_refused": "EPI-017",
    "test_forgetting_leaves_nothing_in_storage": "EPI-018",
    "test_nothing_is_left_running": "INF-001",
}


def test_the_example_holds_from_its_source(tmp_path: Path) -> None:
    """A few clauses, without building anything."""
    record = tmp_path / "record.jsonl"
    command = ["-m", "conformance", "--backend", BACKEND, "--report", str(record), "-k", " or ".join(CHECKS)]
    ran = done(sys.executable, *command, cwd=tmp_path, PYTHONPATH=str(EXAMPLE / "src"))
    assert {clause: verdicts(record)[clause] for clause in CHECKS.values()} == dict.fromkeys(
        CHECKS.values(), "pass"
    ), ran.stdout


def test_the_example_keeps_promises_of_its_own(tmp_path: Path) -> None:
    """Its own tests pass, on the source that is here."""
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'tests'}"]
    ran = done(sys.executable, *command, cwd=EXAMPLE)
    assert ran.returncode == 0, ran.stdout[-5000:]
