"""The checks, a chapter of the contract each. A check's docstring is the sentence that a report shows."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

clause = pytest.mark.clause
"""The clauses for which a check speaks; the first is the one for which it was written."""
needs = pytest.mark.needs
"""Claims without which a check does not apply, besides those of its clauses."""

EXAMPLES = settings(
    max_examples=80,
    stateful_step_count=20,
    deadline=None,
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
"""How much every check under Hypothesis explores."""
