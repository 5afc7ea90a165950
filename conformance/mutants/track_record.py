"""Writes `docs/track-record.md`: `python -m conformance.mutants.track_record docs/track-record.md`.

The prose is written by hand; between the two marks stands a row for each public report that a mutant
repeats. With `--check` nothing is written: exit status 1 says that the document is behind the mutants.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from conformance.document import between, write_or_check
from conformance.mutants import every
from conformance.mutants.mutant import Mutant

BEGIN, END = "<!-- reports: begin -->", "<!-- reports: end -->"


def rendered() -> str:
    """The table."""
    rows = sorted(_rows(), key=lambda row: (row[0].lower(), row[1].name))
    projects = {report.partition("#")[0] for report, _ in rows}
    killed = sum(bool(mutant.clauses) for _, mutant in rows)
    lines = [
        f"{len({report for report, _ in rows})} reports of {len(projects)} projects, repeated by "
        f"{len({mutant.name for _, mutant in rows})} stores. {killed} of the {len(rows)} pairs below are "
        "killed by checks of today.",
        "",
        "| report | what goes wrong | mutant | clause | see it killed |",
        "|---|---|---|---|---|",
        *(_line(report, mutant) for report, mutant in rows),
    ]
    return "\n".join([BEGIN, "", *lines, "", END])


def updated(document: str) -> str:
    """A document with the table as it is now.

    Raises:
        ValueError: A mark is missing.
    """
    return between(BEGIN, END, document, rendered())


def main(arguments: list[str] | None = None) -> int:
    """Write or check the document; the exit status."""
    return write_or_check("conformance.mutants.track_record", "docs/track-record.md", updated, arguments)


def _rows() -> Iterator[tuple[str, Mutant]]:
    for mutant in every().values():
        for report in mutant.reports:
            yield report, mutant


def _line(report: str, mutant: Mutant) -> str:
    project, _, number = report.partition("#")
    link = f"[{report}](https://github.com/{project}/issues/{number})"
    clauses = ", ".join(mutant.clauses) or f"none yet: level {mutant.killable_at}"
    command = f"`nox -s mutants -- --id {mutant.name}`" if mutant.clauses else "—"
    return f"| {link} | {mutant.note} | {mutant.name} | {clauses} | {command} |"


if __name__ == "__main__":
    sys.exit(main())
