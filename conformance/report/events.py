"""The record of a run as JSON Lines: a header, a line for each check, a line for each verdict, a footer.

Lines are written as they come. A file without a footer is a run that was cut short: incomplete, not green.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from conformance.backend import Backend
from conformance.report.levels import Level
from conformance.report.verdicts import Judgement, Result
from conformance.services import Server

SCHEMA_VERSION = 1


class EventLog:
    """Writes the record of a run.

    Args:
        path: The file; what was there is replaced.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file: TextIO = path.open("w", encoding="utf-8")

    def header(
        self,
        *,
        started_at: str,
        versions: dict[str, str],
        seed: int,
        level: int,
        command: str,
        backends: Sequence[Backend],
        servers: Sequence[Server],
    ) -> None:
        """What runs, on what, and how to run it again."""
        self._write(
            "header",
            schema=SCHEMA_VERSION,
            started_at=started_at,
            versions=versions,
            seed=seed,
            level=level,
            command=command,
            backends={backend.name: _claims(backend) for backend in backends},
            servers=[
                {"kind": server.kind, "version": server.version, "way": server.way} for server in servers
            ],
        )

    def results(self, results: Sequence[Result]) -> None:
        """What a check says of its clauses."""
        for result in results:
            self._write("result", **asdict(result))

    def judgement(self, judgement: Judgement) -> None:
        """The verdict on a clause."""
        checks = [result.check for result in judgement.results]
        self._write(
            "verdict",
            backend=judgement.backend,
            clause=judgement.clause,
            verdict=judgement.verdict,
            blocked_by=judgement.blocked_by,
            known=judgement.known,
            checks=checks,
        )

    def footer(
        self,
        judgements: Sequence[Judgement],
        levels: Sequence[Level],
        operations: dict[str, Counter[str]],
        status: int,
    ) -> None:
        """The run came to its end."""
        counts = Counter(judgement.verdict.value for judgement in judgements)
        succeeded = {backend: dict(sorted(counter.items())) for backend, counter in operations.items()}
        self._write(
            "footer",
            verdicts=dict(counts),
            levels=[asdict(level) for level in levels],
            operations_succeeded=succeeded,
            exit_status=status,
        )

    def close(self) -> None:
        """End the file, with or without a footer."""
        self._file.close()

    def _write(self, event: str, **fields: object) -> None:
        line = json.dumps({"event": event, **fields}, ensure_ascii=True)
        self._file.write(f"{line}\n")
        self._file.flush()


def _claims(backend: Backend) -> dict[str, object]:
    claims = asdict(backend.claims)
    return {**claims, "layers": sorted(claims["layers"])}
