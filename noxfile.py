"""What one does with this project: `nox -l` lists it. Every session makes its own environment."""

from __future__ import annotations

import nox

nox.needs_version = ">=2024.10.9"
nox.options.sessions = ["lint", "types", "tests", "conformance"]
nox.options.reuse_existing_virtualenvs = True

PYPROJECT = nox.project.load_toml("pyproject.toml")


def _install(session: nox.Session, *groups: str) -> None:
    session.install("-e", ".[all]", *nox.project.dependency_groups(PYPROJECT, *groups))


@nox.session
def conformance(session: nox.Session) -> None:
    """Check backends against the contract: `nox -s conformance -- --backend redis`."""
    _install(session)
    session.run("python", "-m", "conformance", *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Let the kit loose on stores that are wrong on purpose: `nox -s mutants -- --id OLDEST_WINDOW`."""
    _install(session)
    session.run("python", "-m", "conformance.mutants", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the project's own tests."""
    _install(session, "tests")
    session.run("pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Look for what ruff finds."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "lint"))
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types, strictly, tests included."""
    _install(session, "types", "tests")
    session.run("mypy")
