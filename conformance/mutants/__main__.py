"""`python -m conformance.mutants`: let the kit loose on stores that are wrong on purpose."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from conformance.mutants import every, judging, matrix, strength
from conformance.mutants.mutant import Mutant
from conformance.mutants.observing import JOBS, RunFailed, Seen, observe
from conformance.services import ServerUnavailable

_EPILOG = """\
exit status: 0 every mutant is killed by the clauses that name its fault and by no others, no benign store
fails, every clause that has a check kills somebody, and nobody is killed by fewer checks than strength.toml
says · 1 one of these does not hold · 3 a run or a server failed · 4 wrong usage

The kill matrix is written to reports/: mutants.json and mutants.md.

examples:
  python -m conformance.mutants                        all of them, some minutes
  python -m conformance.mutants --id OLDEST_WINDOW     one, with the text of its failures
  python -m conformance.mutants --in-process           those that need no server
  python -m conformance.mutants --write-strength       after a change that is meant
"""


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; the exit status."""
    chosen = _parsed(arguments)
    mutants, whole = _chosen(chosen)
    try:
        with TemporaryDirectory(prefix="memcore-mutants-") as folder:
            seen = observe(mutants, Path(folder), jobs=chosen.jobs, say=_progress)
    except (RunFailed, ServerUnavailable) as error:
        _progress(str(error))
        return 3
    return _ended(chosen, mutants, seen, whole)


def _ended(chosen: argparse.Namespace, mutants: Sequence[Mutant], seen: dict[str, Seen], whole: bool) -> int:
    now = strength.measured(mutants, seen)
    if chosen.write_strength:
        strength.write(now)
    found = [text for mutant in mutants for text in judging.complaints(mutant, seen[mutant.name])]
    found += strength.weaker(now, strength.read())
    if whole:
        found += [f"no mutant has to fail {clause}" for clause in sorted(judging.unproved(mutants))]
    _write("\n".join(matrix.details(mutants, seen) if chosen.id else matrix.summary(mutants, seen)))
    written = matrix.write(mutants, seen, found, chosen.out)
    _progress(f"matrix: {', '.join(map(str, written))}")
    for text in found:
        _progress(f"WRONG: {text}")
    return int(bool(found))


def _chosen(chosen: argparse.Namespace) -> tuple[list[Mutant], bool]:
    """The mutants that are meant, and whether they are all."""
    known = every()
    unknown = [name for name in chosen.id or () if name not in known]
    if unknown:
        _progress(f"no mutant {', '.join(unknown)}; there are {', '.join(known)}")
        raise SystemExit(4)
    mutants = [known[name] for name in dict.fromkeys(chosen.id)] if chosen.id else list(known.values())
    if chosen.in_process:
        mutants = [mutant for mutant in mutants if mutant.kind == "in process"]
    return mutants, len(mutants) == len(known)


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m conformance.mutants",
        description="Run the kit on stores that are wrong on purpose, and see which check kills which.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--id", nargs="+", metavar="NAME", help="these alone, with the text of their failures"
    )
    parser.add_argument("--in-process", action="store_true", help="those that need no server")
    parser.add_argument(
        "--out", type=Path, default=Path("reports"), metavar="DIR", help="for the kill matrix"
    )
    parser.add_argument("--jobs", type=int, default=JOBS, metavar="N", help=f"processes (default: {JOBS})")
    parser.add_argument(
        "--write-strength", action="store_true", help="take what is measured for what has to be"
    )
    return parser.parse_args(arguments)


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 (a command says something)


def _write(text: str) -> None:
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
