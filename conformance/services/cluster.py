"""Makes a PostgreSQL cluster in the current directory and becomes its server.

The watcher starts this file as a process of its own (see `watch`), so it imports nothing of this package.
PostgreSQL refuses to run as root: a root becomes another user first, to whom it gives the directory. At the
end the process executes `postgres`, so the process that the watcher started is the postmaster.
"""

from __future__ import annotations

import argparse
import locale
import os
import pwd
import runpy
import secrets
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

PASSWORD_FILE = "password"
DATA = "data"
USER = "memcore"
Preparation = Callable[[], None] | None
_ACCOUNTS = ("postgres", "nobody")
_NEEDED = ("bin/postgres", "bin/initdb", "lib/postgresql", "share")


def open_to_others(path: Path) -> bool:
    """Whether any user may get at what is inside the folder, or execute the file."""
    bits = stat.S_IXOTH | stat.S_IROTH
    folders = {*path.absolute().parents, *path.resolve().parents}
    return path.stat().st_mode & bits == bits and all(
        above.stat().st_mode & stat.S_IXOTH for above in folders
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Make a cluster in the current directory and serve it; the password of its user is in a file there."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("install", type=Path, help="the folder with PostgreSQL's bin, lib and share")
    parser.add_argument("options", nargs="+", help="options of the server, after --")
    chosen = parser.parse_args(arguments)
    os.umask(0o077)
    # A stop waits until initdb is done, which is soon: its own children would go on writing after it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    dies_with = _dies_with()
    try:
        # Never on a command line, which every user of the machine can read.
        Path(PASSWORD_FILE).write_text(secrets.token_hex(16), encoding="ascii")
        install = chosen.install
        if os.geteuid() == 0:
            install = _as_another_user(install, dies_with(os.getppid()))
        _initialise(install, dies_with(os.getpid()))
        if signal.SIGINT in signal.sigpending():
            return 1
        program = str(install / "bin" / "postgres")
        # The signal stays blocked, and thus is not lost, until the server is ready to handle it.
        os.execv(program, [program, "-D", DATA, *chosen.options])
    except (OSError, LookupError, subprocess.CalledProcessError) as error:
        print(f"no PostgreSQL here: {error}", file=sys.stderr)  # noqa: T201
    return 1


def _as_another_user(install: Path, prepare: Preparation) -> Path:
    """Turns this process into one of another user; the PostgreSQL that this user can execute."""
    account = _account()
    if not open_to_others(install / "bin" / "postgres"):
        install = _copied(install)
    _give_everything_to(account)
    os.setgroups([])
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
    if prepare is not None:
        prepare()
    return install


def _account() -> pwd.struct_passwd:
    for name in _ACCOUNTS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise LookupError(f"it does not run as root, and there is no user {' or '.join(_ACCOUNTS)} to run as")


def _copied(install: Path) -> Path:
    """A copy in the current directory: a virtual environment below /root is closed to everyone else."""
    # The layout of the wheel stays, for initdb finds libpq at a place relative to its own.
    site = install.parent.parent
    copy = Path("program").resolve()
    for name in (str((install / part).relative_to(site)) for part in _NEEDED):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        _copy(site / name, copy / name)
    libraries = f"{install.parent.name}.libs"
    if (site / libraries).is_dir():
        _copy(site / libraries, copy / libraries)
    return copy / install.relative_to(site)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target)


def _give_everything_to(account: pwd.struct_passwd) -> None:
    for folder, folders, files in os.walk("."):
        for name in (".", *folders, *files):
            os.chown(os.path.join(folder, name), account.pw_uid, account.pw_gid, follow_symlinks=False)


def _initialise(install: Path, prepare: Preparation) -> None:
    command = [str(install / "bin" / "initdb"), "-D", DATA, "-U", USER, "-E", "UTF8", "--no-instructions"]
    command += ["-A", "scram-sha-256", f"--pwfile={PASSWORD_FILE}", "--no-sync"]
    # A file of the cluster is what processes share, not one in /dev/shm: there it stays if all are killed.
    command += ["-c", "dynamic_shared_memory_type=mmap"]
    # The text of an error in English, whatever the user's language: the run looks for one.
    command += [f"--locale={_locale()}", "--lc-messages=C"]
    subprocess.run(command, check=True, preexec_fn=prepare)


def _locale() -> str:
    try:
        return locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
    except locale.Error:
        return "C"


def _dies_with() -> Callable[[int], Preparation]:
    """The function of `watch`; loaded while this process may still read the file."""
    # By path, as this file itself: it runs isolated, so there is no package to import from.
    dies_with: Callable[[int], Preparation] = runpy.run_path(str(Path(__file__).with_name("watch.py")))[
        "dies_with"
    ]
    return dies_with


if __name__ == "__main__":
    sys.exit(main())
