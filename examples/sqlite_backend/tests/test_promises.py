"""What the stores promise where several calls, processes and faults meet; the kit checks the rest."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from memcore import (
    ChatTurn,
    Compressor,
    CountPolicy,
    StoreClosed,
    StoreCorrupt,
    StoreUnavailable,
)

from sqlite_memory import Database, SqliteEpisodicStore, SqlitePreferenceStore, SqliteSessionStore

PROCESSES = 4
BATCHES = 15
PATIENCE_SECONDS = 10.0

WRITER = """
import asyncio, json, sys
from memcore import ChatTurn, Compressor, CountPolicy, Episode
from sqlite_memory import Database, SqliteEpisodicStore, SqlitePreferenceStore, SqliteSessionStore

async def summarize(turns, /, *, max_chars):
    await asyncio.sleep(0)
    return "summary"

async def main(path, name, batches):
    events = []
    compressor = Compressor(CountPolicy(10, 5), summarize, trace=events.append)
    async with (
        Database(path, timeout=60) as database,
        SqliteSessionStore(database, compressor) as sessions,
        SqlitePreferenceStore(database) as preferences,
        SqliteEpisodicStore(database, model="m", dimension=2) as episodes,
    ):
        for n in range(int(batches)):
            turns = [ChatTurn("user", "x", turn_id=f"{name}-{n}-{part}") for part in "ab"]
            await sessions.append("s", *turns)
            await preferences.set("u", f"{name}-{n}", "x")
            await episodes.remember(Episode("u", "s", "x", [1, 0], episode_id=f"{name}-{n}"))
    print(json.dumps([turn for event in events if event.status == "compressed" for turn in event.covered]))

asyncio.run(main(*sys.argv[1:]))
"""

ENDLESS = """
import asyncio, sys
from memcore import ChatTurn
from sqlite_memory import Database, SqliteSessionStore

async def main(path):
    async with Database(path) as database, SqliteSessionStore(database) as sessions:
        for n in range(10**9):
            await sessions.append(f"s{n // 30}", ChatTurn("user", str(n)))
            print(n, flush=True)

asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a file may be made."""
    return tmp_path / "memory.sqlite"


def script(text: str, *arguments: object) -> subprocess.Popen[str]:
    """Another process that uses the stores; the folder of the package is passed on."""
    run = f"import sys; sys.path[:0] = {sys.path!r}\n{text}"
    command = [sys.executable, "-c", run, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def turns(*contents: str) -> list[ChatTurn]:
    """Messages of a user."""
    return [ChatTurn("user", content) for content in contents]


async def contents(sessions: SqliteSessionStore, session_id: str) -> list[str]:
    """What a session holds."""
    return [turn.content for turn in await sessions.get_history(session_id)]


def test_several_processes_share_a_file(path: Path) -> None:
    """Started at once on no file, they lose nothing, double nothing, and compress one session together."""
    processes = [script(WRITER, path, f"p{n}", BATCHES) for n in range(PROCESSES)]
    said = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * PROCESSES
    covered = [turn for line in said for turn in json.loads(line)]

    async def look() -> tuple[list[ChatTurn], int, int]:
        async with (
            Database(path) as database,
            SqliteSessionStore(database) as sessions,
            SqlitePreferenceStore(database) as preferences,
            SqliteEpisodicStore(database, model="m", dimension=2) as episodes,
        ):
            recalled = await episodes.recall("u", [1, 0], k=1000)
            return await sessions.get_history("s"), len(await preferences.all("u")), len(recalled)

    history, preferences, episodes = asyncio.run(look())
    every = covered + [turn.turn_id for turn in history if turn.kind == "message"]
    assert len(every) == len(set(every)) == 2 * PROCESSES * BATCHES
    assert [turn.kind for turn in history].count("summary") == 1
    assert preferences == episodes == PROCESSES * BATCHES


def test_what_was_acknowledged_survives_a_kill(path: Path) -> None:
    """Of a writer that is killed every acknowledged turn is there, and at most one more."""
    with script(ENDLESS, path) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(40)]
        process.kill()
        acknowledged += map(int, process.stdout.read().split())

    async def look() -> list[int]:
        async with Database(path) as database, SqliteSessionStore(database) as sessions:
            rows = await sessions.list_sessions()
            return sorted([int(text) for row in rows for text in await contents(sessions, row.session_id)])

    found = asyncio.run(look())
    assert found in (acknowledged, [*acknowledged, len(acknowledged)])


def test_a_cancelled_append_is_whole_or_absent_and_has_ended(path: Path) -> None:
    """Wherever a cancellation meets it, once or twice, nothing of it arrives afterwards."""
    rng = random.Random(1)
    query = "SELECT count(*) FROM turns JOIN sessions USING (session) WHERE session_id = ?"

    async def main() -> None:
        other = sqlite3.connect(path)
        async with Database(path) as database, SqliteSessionStore(database) as sessions:
            await sessions.list_sessions()
            for n in range(100):
                task = asyncio.create_task(sessions.append(f"s{n}", *turns("a", "b")))
                await asyncio.sleep(rng.choice([0, 0.0002, 0.001, 0.01]))
                for _ in range(rng.choice([1, 2])):
                    task.cancel()
                    await asyncio.sleep(0)
                await asyncio.wait([task])
                (at_once,) = other.execute(query, [f"s{n}"]).fetchone()
                assert at_once == len(await contents(sessions, f"s{n}"))
                assert at_once in (0, 2)
        other.close()

    asyncio.run(main())


def test_a_cancelled_append_that_has_begun_is_waited_for(path: Path) -> None:
    """It is whole; one that waits behind it for the thread never begins."""
    begun, go_on = threading.Event(), threading.Event()

    def now() -> float:
        begun.set()
        # Not for ever, or a test that fails would hang.
        go_on.wait(PATIENCE_SECONDS)
        return 1e9

    async def main() -> None:
        async with Database(path) as database, SqliteSessionStore(database, now=now) as sessions:
            first = asyncio.create_task(sessions.append("first", *turns("a", "b")))
            await asyncio.to_thread(begun.wait)
            second = asyncio.create_task(sessions.append("second", *turns("a", "b")))
            await asyncio.sleep(0)
            for _ in range(3):
                first.cancel()
                second.cancel()
                await asyncio.sleep(0)
            await asyncio.wait([second])
            assert second.cancelled()
            assert not first.done()
            go_on.set()
            await asyncio.wait([first])
            assert first.cancelled()
            assert [await contents(sessions, name) for name in ("first", "second")] == [["a", "b"], []]

    asyncio.run(main())


def test_a_lock_of_another_process_is_waited_for_and_then_said(path: Path) -> None:
    """A write raises in time and can be cancelled before; reading goes on; afterwards all is well."""

    async def main() -> None:
        async with (
            Database(path, timeout=0.3) as database,
            SqliteSessionStore(database) as sessions,
            SqlitePreferenceStore(database) as preferences,
        ):
            await preferences.set("u", "k", "v")
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match=r"append: .*memory\.sqlite: database is locked"):
                await sessions.append("s", *turns("refused"))
            assert await preferences.get("u", "k") == "v"
            given_up = asyncio.create_task(sessions.append("s", *turns("cancelled")))
            await asyncio.sleep(0.01)
            given_up.cancel()
            await asyncio.wait([given_up])
            assert given_up.cancelled()
            other.execute("ROLLBACK")
            other.close()
            await sessions.append("s", *turns("stored"))
            assert await contents(sessions, "s") == ["stored"]

    asyncio.run(main())


def test_closing_waits_for_calls_and_ends_the_thread(path: Path) -> None:
    """Calls that were under way are whole; those that come later are refused; no thread is left."""

    async def main() -> None:
        database = Database(path)
        sessions = SqliteSessionStore(database)
        calls = [asyncio.create_task(sessions.append("s", *turns(str(n)))) for n in range(20)]
        await asyncio.sleep(0)
        await asyncio.gather(sessions.aclose(), database.aclose(), database.aclose())
        assert all(call.done() and call.exception() is None for call in calls)
        with pytest.raises(StoreClosed):
            await sessions.get_history("s")
        async with Database(path) as again, SqliteSessionStore(again) as other:
            assert len(await contents(other, "s")) == 20

    asyncio.run(main())
    assert not [thread.name for thread in threading.enumerate() if "sqlite_memory" in thread.name]


def test_closing_ends_a_compression(path: Path) -> None:
    """The append whose turns are stored returns, and nothing is compressed."""

    begun = asyncio.Event()

    async def never(given: Sequence[ChatTurn], /, *, max_chars: int) -> str:  # noqa: ARG001
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def main() -> None:
        async with Database(path) as database:
            sessions = SqliteSessionStore(database, Compressor(CountPolicy(2, 1), never))
            append = asyncio.create_task(sessions.append("s", *turns("a", "b", "c")))
            await begun.wait()
            await sessions.aclose()
            assert append.done()
            async with SqliteSessionStore(database) as other:
                assert await contents(other, "s") == ["a", "b", "c"]

    asyncio.run(main())


def _foreign(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE somebody_else (a)")
    other.close()


def _changed(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE sessions (a)")
        other.execute("PRAGMA user_version = 1")
    other.close()


def _text(path: Path) -> None:
    path.write_text("no database at all " * 100)


@pytest.mark.parametrize("make", [_foreign, _changed, _text])
def test_a_file_of_something_else_is_left_as_it_is(path: Path, make: Any) -> None:
    """It is refused with the words that help, and not written to."""
    make(path)
    before = path.read_bytes() if make is _text else None

    async def main() -> None:
        async with Database(path) as database, SqliteSessionStore(database) as sessions:
            with pytest.raises(StoreCorrupt, match="give the store a file of its own"):
                await sessions.append("s", *turns("a"))

    asyncio.run(main())
    assert before is None or path.read_bytes() == before


def test_a_folder_that_is_missing_may_come_back(tmp_path: Path) -> None:
    """An error says that it is away; the same store works once it is there."""
    folder = tmp_path / "away"

    async def main() -> None:
        async with Database(folder / "x.sqlite") as database, SqliteSessionStore(database) as sessions:
            with pytest.raises(StoreUnavailable, match="unable to open"):
                await contents(sessions, "s")
            folder.mkdir()
            await sessions.append("s", *turns("a"))
            assert await contents(sessions, "s") == ["a"]

    asyncio.run(main())
