"""The proof that the kit finds what it claims to find: stores that are wrong on purpose, each in one way.

`python -m conformance.mutants` runs the kit on all of them and says which check killed which. Beside them
stand `benign` stores, which are odd and right, and `cheaters`, which look right to this kit.
"""

from __future__ import annotations

from importlib import import_module

from conformance.mutants.mutant import MUTANTS, Mutant

MODULES = (
    "session_content",
    "session_order",
    "session_identity",
    "session_reading",
    "session_expiry",
    "compression_policy",
    "compression_outcome",
    "compression_meanwhile",
    "preferences",
    "episodes_recall",
    "episodes_stored",
    "nothing",
    "races",
    "on_redis",
    "on_postgres",
    "benign_sessions",
    "benign_others",
    "cheaters",
)


def every() -> dict[str, Mutant]:
    """All mutants by name, in the order of their modules."""
    for module in MODULES:
        import_module(f"conformance.mutants.{module}")
    return MUTANTS
