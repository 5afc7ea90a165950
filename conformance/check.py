"""What an item of pytest and its report say of a check: its backend, its clauses, its verdicts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.backend import Backend, BadBackend
from conformance.catalogue import by_id
from conformance.expect import violations
from conformance.report.verdicts import COULD_NOT_BEGIN, Result, Verdict
from conformance.run import Run


def backend_of(item: pytest.Item) -> Backend | None:
    """The backend on which a check runs; none for a test that is not of the kit."""
    callspec = getattr(item, "callspec", None)
    found = callspec.params.get("world") if callspec else None
    return found if isinstance(found, Backend) else None


def is_asked(item: pytest.Item, backend: Backend, level: int) -> bool:
    """Whether the backend is held to what a check speaks for."""
    asked = (by_id()[clause] for clause in _ids(item))
    needed = (claim for mark in item.iter_markers("needs") for claim in mark.args)
    return all(clause.level <= level and clause.claimed_by(backend.claims) for clause in asked) and all(
        backend.claims.makes(claim) for claim in needed
    )


def is_basic(item: pytest.Item) -> bool:
    """Whether the other checks of its layer rest on this one."""
    return item.get_closest_marker("basic") is not None


def results(
    item: pytest.Item, backend: Backend, report: pytest.TestReport, call: pytest.CallInfo[None], run: Run
) -> Iterator[Result]:
    """What this phase of a check says of its clauses; a setup or teardown that passes says nothing."""
    if report.when != "call" and report.passed:
        return
    written = run.worlds[backend.name].program
    for clause, verdict, message in _read(item, report, call, written.unopened):
        yield Result(
            backend=backend.name,
            clause=clause,
            verdict=verdict,
            check=item.nodeid,
            message=message,
            program=tuple(written.lines) if verdict is not Verdict.PASS else (),
            command=run.command([backend], getattr(item, "originalname", item.name)),
            basic=is_basic(item),
        )


def _ids(item: pytest.Item) -> list[str]:
    """The clauses of a check, those of the nearest mark first."""
    return [clause for mark in item.iter_markers("clause") for clause in mark.args]


def _read(
    item: pytest.Item,
    report: pytest.TestReport,
    call: pytest.CallInfo[None],
    unopened: BaseException | None,
) -> list[tuple[str, Verdict, str]]:
    """What a check says of which clause."""
    ids = _ids(item)
    if report.passed:
        return [(clause, Verdict.PASS, "") for clause in ids]
    if report.skipped:
        reason = str(call.excinfo.value) if call.excinfo else report.longreprtext
        return [(clause, Verdict.NOT_EVALUABLE, reason) for clause in ids]
    error = call.excinfo.value if call.excinfo else None
    if report.when != "call" or (error is not None and error is unopened):
        what = str(error) if isinstance(error, BadBackend) else repr(error)
        return [(clause, Verdict.UNKNOWN, f"{COULD_NOT_BEGIN}: {what}") for clause in ids]
    found = violations(error)
    if not found:
        # The first id of a check is the one for which it was written.
        return [(ids[0], Verdict.FAIL, f"{type(error).__name__}: {error}")]
    broken = {violation.clause: str(violation) for violation in found}
    if not set(broken) & set(ids):
        # A clause of another check: this one did not get to what it is for.
        broken[ids[0]] = str(found[0])
    return [(clause, Verdict.FAIL, message) for clause, message in broken.items()]
