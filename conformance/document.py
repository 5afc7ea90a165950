"""Writes the clauses into `docs/contract.md`: `python -m conformance.document docs/contract.md`.

The prose around them is written by hand; between the two marks stands what the list of clauses says, so the
document, the checks and the report cannot disagree. With `--check` nothing is written: exit status 1 says
that the document is behind the list.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
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
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no {BEGIN} … {END}")
    return f"{before}{rendered()}{after}"


def main(arguments: list[str] | None = None) -> int:
    """Write or check the document; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m conformance.document", description=__doc__)
    parser.add_argument("file", type=Path, help="the document, such as docs/contract.md")
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
