"""Backends that do not keep to the form: a sentence for their author, in time, and nothing green."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BACKENDS = """
import asyncio
from conformance.backend import Claims, Stores, backend
from memcore import InMemoryEpisodicStore, InMemoryPreferenceStore

CLAIMS = Claims(layers=frozenset({"preferences"}), snapshot=True)

def stores(**more):
    return Stores(preferences=InMemoryPreferenceStore(), **more)

@backend("raises", CLAIMS)
async def RAISES(ctx):
    raise OSError("cannot open")
    yield

@backend("other", CLAIMS)
async def OTHER(ctx):
    yield InMemoryPreferenceStore()

@backend("lacks", CLAIMS)
async def LACKS(ctx):
    yield Stores()

@backend("more", CLAIMS)
async def MORE(ctx):
    yield stores(episodes=InMemoryEpisodicStore(model="m", dimension=8))

class Half:
    async def get(self, user_id, key):
        return None

@backend("half", CLAIMS)
async def HALF(ctx):
    yield Stores(preferences=Half())

@backend("silent", CLAIMS)
async def SILENT(ctx):
    return
    yield

@backend("twice", CLAIMS)
async def TWICE(ctx):
    yield stores()
    yield stores()

@backend("closes", CLAIMS)
async def CLOSES(ctx):
    yield stores()
    raise OSError("cannot close")

@backend("hooked", CLAIMS)
async def HOOKED(ctx):
    async def residue(text):
        return []
    yield stores(residue=residue)

class Raises:
    def __getattr__(self, name):
        async def method(*args, **kwargs):
            raise NotImplementedError(name)
        return method

@backend("nothing", CLAIMS)
async def NOTHING(ctx):
    yield Stores(preferences=Raises())

@backend("leaks", CLAIMS)
async def LEAKS(ctx):
    asyncio.create_task(asyncio.Event().wait())
    yield stores()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of somebody who has backends in a module `mine`."""
    made = tmp_path_factory.mktemp("bad")
    (made / "mine.py").write_text(BACKENDS, encoding="utf-8")
    return made


def run(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    """The checks of this backend, without the explorations."""
    command = [sys.executable, "-m", "conformance", "--backend", f"mine:{name}", "--seed", "1"]
    options = ["--level", "1", "-k", "not any_sequence"]
    env = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [*command, *options], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("RAISES", "OSError('cannot open'); so nothing is known of PRE-001"),
        ("OTHER", "other yields InMemoryPreferenceStore; yield conformance.backend.Stores(…)"),
        ("LACKS", "lacks claims preferences and yields none"),
        ("MORE", "more yields episodes and does not claim them"),
        ("HALF", "half: its preferences store has no method set, all, delete, forget"),
        ("SILENT", "generator didn't yield"),
        ("TWICE", "closing twice raised RuntimeError: generator didn't stop; yield once"),
        ("CLOSES", "closing closes raised OSError: cannot close"),
    ],
)
def test_what_cannot_be_used_is_said_once(name: str, sentence: str, folder: Path) -> None:
    """One sentence for all clauses, no traceback, and exit status 2: nothing was judged."""
    done = run(folder, name)
    assert done.returncode == 2, done.stdout
    assert done.stdout.count(sentence) == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert f"{name.lower()}: nothing fails, but " in done.stdout
    assert "preferences: no level" in done.stdout


@pytest.mark.parametrize(
    ("name", "clause"), [("HOOKED", "INF-008"), ("LEAKS", "INF-001"), ("NOTHING", "PRE-001")]
)
def test_what_is_wrong_fails_where_it_is(name: str, clause: str, folder: Path) -> None:
    """A hook that is not claimed, a task that is left, methods that are not implemented: no level."""
    done = run(folder, name)
    assert done.returncode == 1, done.stdout
    assert f"{name.lower()}: {clause} " in done.stdout
    assert "preferences: no level" in done.stdout


def test_what_is_no_generator_is_refused_at_once(tmp_path: Path) -> None:
    """When the module is imported, with the name of the backend and what it has to be."""
    text = BACKENDS + '\n@backend("plain", CLAIMS)\nasync def PLAIN(ctx):\n    return stores()\n'
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    done = run(tmp_path, "PLAIN")
    assert done.returncode == 4
    assert "plain: decorate an async generator: async def, and one yield" in done.stderr


def test_a_known_deviation_in_a_file(folder: Path, tmp_path: Path) -> None:
    """The run is green with it, and says so; without it, it is not."""
    known = tmp_path / "known.toml"
    entry = '[[known]]\nbackend = "hooked"\nclause = "INF-008"\nreason = "to come"\nlink = "#7"\n'
    known.write_text(entry, encoding="utf-8")
    command = [sys.executable, "-m", "conformance", "--backend", "mine:HOOKED", "--seed", "1", "--level", "1"]
    env = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [*command, "--known", str(known)], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "hooked: known, to come (#7): INF-008" in done.stdout
    assert "1 of 17 clauses fail, 1 of them known" in done.stdout
    assert "preferences: no level" in done.stdout
