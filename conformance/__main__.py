"""`python -m conformance`: run the checks from wherever one is, with the settings of the kit alone."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from conformance.entry import CHECKS

_EPILOG = """\
exit status: 0 all claimed clauses pass · 1 something failed · 2 not everything could be judged ·
3 the kit itself failed, a server that could not be had among it · 4 wrong usage

Unknown options go to pytest: -k test_window, -x, -q, --pdb. The record of the run is written to reports/.

examples:
  python -m conformance                              all reference backends
  python -m conformance --backend redis --level 1    one of them, sequential clauses only
  python -m conformance --backend mypkg.testing:BACKEND
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(pytest.ExitCode.USAGE_ERROR, f"{self.prog}: {message}\n")


def main(arguments: list[str] | None = None) -> int:
    """Run the checks; the exit status."""
    parser = _Parser(
        prog="python -m conformance",
        description="Check agent-memory backends against the contract, clause by clause.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--backend",
        action="append",
        metavar="NAME",
        help="memory, redis, pgvector, or package.module:OBJECT; repeatable",
    )
    parser.add_argument("--level", type=int, choices=(1, 2, 3, 4), default=4, help="highest level to check")
    parser.add_argument("--seed", type=int, help="seed of every random choice (default: a new one, printed)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="where the record of the run goes")
    parser.add_argument(
        "--known", type=Path, metavar="FILE", help="known deviations (default: known.toml, if there is one)"
    )
    chosen, rest = parser.parse_known_args(arguments)
    return int(pytest.main([*_pytest_arguments(chosen), *rest]))


def _pytest_arguments(chosen: argparse.Namespace) -> list[str]:
    here = Path.cwd()
    # The kit's own settings, so that those of the folder it is called from change nothing.
    settings = ["-c", str(CHECKS.with_name("kit.ini")), f"--rootdir={here}", "-p", "no:cacheprovider"]
    backends = [part for name in chosen.backend or [] for part in ("--backend", name)]
    seed = [f"--hypothesis-seed={chosen.seed}"] if chosen.seed is not None else []
    report = [f"--conformance-report={chosen.report}"] if chosen.report else []
    known = [f"--known={chosen.known}"] if chosen.known else []
    return [*settings, str(CHECKS), f"--level={chosen.level}", *backends, *seed, *report, *known]


if __name__ == "__main__":
    sys.exit(main())
