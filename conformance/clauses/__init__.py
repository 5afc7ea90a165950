"""The checks, a chapter of the contract each. A check's docstring is the sentence that a report shows."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from conformance.entry import EXPLORING

clause = pytest.mark.clause
"""The clauses for which a check speaks; the first is the one for which it was written."""
needs = pytest.mark.needs
"""Claims without which a check does not apply, besides those of its clauses."""
basic = pytest.mark.basic
"""A check of the least that can be asked: where it fails, the others of its layer say no more than that."""

EXAMPLES = settings(
    **EXPLORING,
    stateful_step_count=20,
    deadline=None,
    # The seed of the run decides, also where Hypothesis sees that it is in CI.
    derandomize=False,
    # What was found before is found again by its seed; a database would make runs differ.
    database=None,
    report_multiple_bugs=False,
    # Examples on a server take their time, and share an open backend on purpose: ids are fresh.
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.data_too_large,
    ],
    print_blob=False,
)
"""How every check under Hypothesis explores; options of the run say how much."""
