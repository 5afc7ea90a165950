"""Writes the clauses into `docs/contract.md`: `python -m conformance.document docs/contract.md`.

The prose around them is written by hand; between the two marks stands what the list of clauses says, so the
document, the checks and the report cannot disagree. With `--check` nothing is written: exit status 1 says
that the document is behind the list.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

from conformance.catalogue import CHAPTERS, Clause, checked, clauses

BEGIN, END = "<!-- clauses: begin -->", "<!-- clauses: end -->"


def rendered() -> str:
    """All clauses as Markdown, chapter by chapter."""
    lines = [BEGIN, "", *_counts(), ""]
    for chapter, members in groupby(clauses(), key=lambda clause: clause.chapter):
        lines += [f"### {CHAPTERS[chapter]}", "", *_table(list(members)), ""]
    return "\n".join([*lines, END])


def updated(document: str) -> str:
    """A document with the clauses as they are now.

    Raises:
        ValueError: A mark is missing.
    """
    return between(BEGIN, END, document, rendered())


def between(begin: str, end: str, document: str, text: str) -> str:
    """A document with this text, which begins and ends with the marks, in place of what they enclose.

    Raises:
        ValueError: A mark is missing.
    """
    before, first, rest = document.partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise ValueError(f"the document has no {begin} … {end}")
    return f"{before}{text}{after}"


def main(arguments: list[str] | None = None) -> int:
    """Write or check the document; the exit status."""
    return write_or_check("conformance.document", "docs/contract.md", updated, arguments)


def write_or_check(
    module: str, example: str, updated: Callable[[str], str], arguments: list[str] | None
) -> int:
    """The command of a module that brings a document up to date; the exit status.

    Args:
        module: Its name.
        example: A document that it is for.
        updated: Gives the document as it has to be.
        arguments: Of the command line.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description="Bring the tables of a document up to date."
    )
    parser.add_argument("file", type=Path, help=f"the document, such as {example}")
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if it is behind")
    chosen = parser.parse_args(arguments)
    before = chosen.file.read_text(encoding="utf-8")
    after = updated(before)
    if not chosen.check:
        chosen.file.write_text(after, encoding="utf-8")
    return int(chosen.check and before != after)


def _counts() -> Iterator[str]:
    tested = sum(1 for clause in clauses() if _status(clause) != "untested")
    yield f"{len(clauses())} clauses; {tested} have a check, {len(clauses()) - tested} are untested."


def _table(members: list[Clause]) -> Iterator[str]:
    yield "| id | level | kind | checked by | promise |"
    yield "|---|---|---|---|---|"
    for clause in members:
        kind = f"{clause.kind} (`{clause.claim}`)" if clause.claim else clause.kind
        promise = f"**{clause.title.capitalize()}.** {clause.text}".replace("|", "\\|")
        yield f"| {clause.id} | L{clause.level} | {kind} | {_status(clause)} | {promise} |"


def _status(clause: Clause) -> str:
    if clause.check is not None:
        return f"`{clause.check}`"
    return "the kit" if clause.id in checked() else "untested"


if __name__ == "__main__":
    sys.exit(main())
