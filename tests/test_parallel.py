"""The kit under pytest-xdist: one server, one seed and one record for all workers, and no check lost."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import execnet
import pytest

import conformance
from conformance.services import Server, masked
from conformance.workers import Assignment, assign, assignment, plain
from conformance.world import run_name
from tests.test_plugin import BACKENDS, record, run

STORES = """
import json, os, warnings
from pathlib import Path
from hypothesis import core

HOSTILE = "half \\ud83d, none \\x00"

class Hostile(InMemoryPreferenceStore):
    async def forget(self, user_id):
        print(HOSTILE)
        warnings.warn(HOSTILE)
        raise OSError(HOSTILE)

class Crashing(InMemoryPreferenceStore):
    async def set(self, user_id, key, value):
        os._exit(0)

HOSTILES, CRASHES = made(Hostile), made(Crashing)

@backend("seen", CLAIMS, servers=["redis"])
async def SEEN(ctx: Context) -> AsyncIterator[Stores]:
    seen = [ctx.namespace, ctx.servers["redis"].url, core.global_force_seed]
    with Path("seen.jsonl").open("a") as file:
        file.write(json.dumps(seen) + "\\n")
    async with InMemoryPreferenceStore() as store:
        yield Stores(preferences=store)
"""
QUICK = "not any_sequence and not any_turns and not any_conversation"


def placed(folder: Path) -> Path:
    """The folder, with the backends in a module `mine`."""
    (folder / "mine.py").write_text(BACKENDS + STORES, encoding="utf-8")
    return folder


def lines(path: Path) -> list[Any]:
    """What a file of JSON Lines holds."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """Records of the same run without workers and with two."""
    folder = placed(tmp_path_factory.mktemp("twice"))
    chosen = ["memory", "mine:HOSTILES"]
    backends = [part for name in chosen for part in ("--backend", name)]
    for name, more in (("one", []), ("two", ["-n", "2"])):
        done = run(folder, *backends, "-k", QUICK, "--report", f"{name}.jsonl", *more)
        assert done.returncode == 1, done.stdout + done.stderr
    return [lines(folder / name) for name in ("one.jsonl", "two.jsonl")]


def test_workers_say_what_one_process_says(runs: list[list[dict[str, Any]]]) -> None:
    """The record holds the same results, verdicts and counts of operations, in whatever order."""
    one, two = (sorted(json.dumps(event) for event in events[1:]) for events in runs)
    assert one == two


def test_hostile_text_comes_through(runs: list[list[dict[str, Any]]]) -> None:
    """Half a surrogate pair and a NUL in an error end up in the record as they were."""
    messages = {
        event["message"] for event in runs[1] if event.get("backend") == "Hostile" if "message" in event
    }
    assert "OSError: half \ud83d, none \x00" in messages


def test_commands_do_without_workers(runs: list[list[dict[str, Any]]]) -> None:
    """What shows a failure again is the same command, wherever it was seen."""
    commands = {event["command"] for event in runs[1] if event["event"] in ("header", "result")}
    assert len(commands) > 3
    assert not [command for command in commands if " -n" in command]


Watched = tuple[subprocess.CompletedProcess[str], list[Any]]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """A run of pytest with two workers and a test of the project that fails, and what backends saw in it."""
    folder = placed(tmp_path_factory.mktemp("watched"))
    (folder / "test_own.py").write_text("def test_own(): raise AssertionError", encoding="utf-8")
    checks = str(Path(conformance.__file__).with_name("clauses"))
    options = ["--backend", "mine:SEEN", "--level", "1", "-n", "2", "-p", "no:valkey", "--rootdir", "."]
    env = {name: value for name, value in os.environ.items() if name != "MEMCORE_REDIS_URL"}
    command = [sys.executable, "-m", "pytest", "test_own.py", checks, *options]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done, lines(folder / "seen.jsonl")


def test_workers_share_a_server(watched: Watched) -> None:
    """All get the one that the controller started, and it is gone after the run."""
    done, seen = watched
    (url,) = {url for _, url, _ in seen}
    assert done.stdout.count(f"at {masked(url)} (") == 1
    assert not answers(int(url.rpartition(":")[2]))


def test_workers_share_a_seed(watched: Watched) -> None:
    """The controller chooses and prints it, and Hypothesis gets it in each worker."""
    done, seen = watched
    (seed,) = {seed for _, _, seed in seen}
    assert re.findall(r"^seed (\d+)$", done.stdout, re.MULTILINE) == [str(seed)]


def test_workers_do_not_share_namespaces(watched: Watched) -> None:
    """Each has names of its own, in which one reads which worker it was."""
    namespaces = [namespace for namespace, _, _ in watched[1]]
    assert len(namespaces) == len(set(namespaces))
    by_worker = {namespace.rpartition("-")[0] for namespace in namespaces}
    assert sorted(name[:12] for name in by_worker) == ["memcore-gw0-", "memcore-gw1-"]


def test_runs_do_not_share_namespaces() -> None:
    """Two workers of one name, on one server, do not meet; any name of a worker makes a namespace."""
    names = {run_name("gw0") for _ in range(20)} | {run_name(), run_name("at home.ü")}
    assert len(names) == 22
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)


def test_tests_beside_the_checks_keep_their_say(watched: Watched) -> None:
    """A test of the project that fails in a worker is not covered up by a backend that holds."""
    assert "seen: all 17 clauses hold" in watched[0].stdout
    assert watched[0].returncode == 1


def test_a_worker_that_crashes_leaves_no_verdict(tmp_path: Path) -> None:
    """Checks in which the process ended, and those that nobody ran then, are named, and nothing is green."""
    options = ["-n", "1", "--max-worker-restart", "0", "-k", "test_users_are or test_forget or last_set"]
    done = run(placed(tmp_path), "--backend", "mine:CRASHES", *options)
    assert done.returncode == 3, done.stdout
    assert "incomplete, so nothing is judged" in done.stdout
    assert re.search(r"workers that crashed: 1, in \S*test_preference.py::test_", done.stdout)
    assert re.search(r"checks that did not run: [1-9].*, such as \S*test_preference.py::test_", done.stdout)
    assert "footer" not in {event["event"] for event in record(tmp_path)}


def test_stopping_at_the_first_failure_leaves_no_footer(tmp_path: Path) -> None:
    """`-x` cuts a run with workers short, too."""
    done = run(placed(tmp_path), "--backend", "mine:WRONG", "-x", "-n", "1", "-k", "test_forget")
    assert done.returncode == 2
    assert "footer" not in {event["event"] for event in record(tmp_path)}


def test_a_server_that_cannot_be_had_exits_with_3(tmp_path: Path) -> None:
    """One sentence of the controller, before any worker begins, and no secret in it."""
    url = "redis://user:secret@127.0.0.1:1/0"
    done = run(placed(tmp_path), "--backend", "mine:NEEDY", "-n", "2", MEMCORE_REDIS_URL=url)
    assert done.returncode == 3
    assert "MEMCORE_REDIS_URL" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert "secret" not in done.stdout + done.stderr


def test_collecting_alone_starts_nothing(tmp_path: Path) -> None:
    """`--collect-only` lists the checks without workers, server and record."""
    options = ["--backend", "redis", "--collect-only", "-n", "2"]
    done = run(tmp_path, *options, MEMCORE_REDIS_URL="redis://127.0.0.1:1")
    assert done.returncode == 0, done.stdout
    assert not (tmp_path / "reports").exists()


def test_an_interrupt_stops_the_server(tmp_path: Path) -> None:
    """Ctrl-C, which workers get too, ends the run with 2, without footer and without a server left."""
    command = [sys.executable, "-m", "conformance", "--backend", "redis", "-n", "1", "-vv"]
    env = {**os.environ, "PYTHONUNBUFFERED": "1", "MEMCORE_REDIS_URL": ""}
    with subprocess.Popen(
        command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        assert running.stdout is not None
        before = ""
        while "PASSED" not in before:
            before += running.stdout.readline()
        os.killpg(running.pid, signal.SIGINT)
        running.stdout.read()
    assert running.returncode == 2
    assert "footer" not in {event["event"] for event in record(tmp_path)}
    port = re.search(r"at redis://(?:.*@)?127.0.0.1:(\d+) ", before)
    assert port is not None
    assert not answers(int(port[1]))


def test_a_worker_gets_what_the_controller_has() -> None:
    """Seed and servers, passwords with them, arrive as they were, and are nothing that is printed."""
    servers = {"redis": Server("redis", "redis://:secret@host", "Valkey 9 \ud83d", "embedded: it", 7)}
    workerinput: dict[str, Any] = {"workerid": "gw3"}
    assign(workerinput, 2**70, servers.values())
    execnet.dumps(workerinput)
    config: Any = SimpleNamespace(workerinput=workerinput)
    assert assignment(config) == Assignment("gw3", 2**70, servers)
    assert "secret" not in repr(assignment(config))


def test_a_report_can_be_sent_whatever_is_in_it() -> None:
    """Text is UTF-8 and plain, at any depth, and reads as before where it was."""

    class Text(str):
        pass

    hostile = {
        "longrepr": ("path", 3, Text("half \ud83d")),
        "sections": [("stdout", "ü\x00")],
        "duration": 0.5,
    }
    sent = {"longrepr": ("path", 3, "half \\ud83d"), "sections": [("stdout", "ü\x00")], "duration": 0.5}
    assert plain(hostile) == sent
    assert execnet.loads(execnet.dumps(plain(hostile))) == sent


def answers(port: int) -> bool:
    """Whether something listens there."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
