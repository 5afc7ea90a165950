"""Which package may import which, and that documents say what the code says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import memcore
from conformance.catalogue import CHAPTERS, checked, clauses
from conformance.document import updated

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("memcore", "conformance", "benchmarks")
DRIVERS = {"redis", "psycopg", "psycopg_pool", "pgvector"}
DRIVER_ROOMS = (
    "memcore/sessions",
    "memcore/preferences",
    "memcore/episodes",
    "memcore/postgres",
    "memcore/agent",
    "conformance/backends",
    "conformance/services",
    "conformance/mutants",
    "benchmarks",
)
ALLOWED = {"memcore": set(), "conformance": {"memcore"}, "benchmarks": {"memcore", "conformance"}}


def sources(package: str) -> list[Path]:
    """Every module of a package."""
    return sorted((ROOT / package).rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Top-level names that a module imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("package", PACKAGES)
def test_arrows_point_one_way(package: str) -> None:
    """benchmarks → conformance → memcore, and nothing else."""
    for path in sources(package):
        foreign = set(imported(path)) & set(PACKAGES) - {package}
        assert foreign <= ALLOWED[package], f"{path.relative_to(ROOT)} imports {foreign - ALLOWED[package]}"


def test_drivers_stay_in_their_rooms() -> None:
    """Only stores, backends and services know a driver."""
    for package in PACKAGES:
        for path in sources(package):
            place = path.relative_to(ROOT).as_posix()
            if set(imported(path)) & DRIVERS:
                assert place.startswith(DRIVER_ROOMS), f"{place} imports a driver"


def test_the_core_needs_numpy_alone() -> None:
    """Outside the rooms of drivers memcore imports the standard library and numpy."""
    import sys

    for path in sources("memcore"):
        names = set(imported(path)) - set(sys.stdlib_module_names) - {"memcore", "numpy"}
        assert names <= DRIVERS, f"{path.relative_to(ROOT)} imports {names}"


def test_public_names_are_sorted_and_there() -> None:
    """`memcore.__all__` is what the package offers: every name exists and says that it is of memcore."""
    constants = [name for name in memcore.__all__ if name.isupper()]
    names = [name for name in memcore.__all__ if not name.isupper()]
    assert constants == sorted(constants)
    assert names == sorted(names, key=lambda name: (name[0].islower(), name))
    for name in names:
        assert getattr(memcore, name).__module__.startswith(("memcore", "collections.abc")), name


def test_the_contract_document_is_current() -> None:
    """docs/contract.md is what `python -m conformance.document docs/contract.md` writes."""
    document = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
    assert document == updated(document)


def test_clauses_are_well_formed() -> None:
    """Ids are unique, numbered without gaps in their chapter, and checks name only clauses that exist."""
    ids = [clause.id for clause in clauses()]
    assert len(ids) == len(set(ids))
    for chapter in CHAPTERS:
        numbers = [int(id_[4:]) for id_ in ids if id_.startswith(chapter)]
        assert numbers == list(range(1, len(numbers) + 1))
    assert checked() <= set(ids)


def test_every_sequential_clause_has_a_check() -> None:
    """L1 clauses are checked by the kit."""
    unchecked = {clause.id for clause in clauses() if clause.level == 1 and clause.scope == "backend"}
    assert unchecked <= checked()


def test_clauses_of_the_reference_name_their_test() -> None:
    """The file that a clause names is there and has a test that is marked with it."""
    for clause in clauses():
        assert clause.check is None or clause.scope == "reference"
        if clause.check is not None:
            marked = re.findall(
                r'clause\("([A-Z]+-\d+)"\)', (ROOT / clause.check).read_text(encoding="utf-8")
            )
            assert clause.id in marked, f"{clause.check} has no test of {clause.id}"


def test_no_file_grows_out_of_hand() -> None:
    """No module has more than 400 lines."""
    paths = [path for package in (*PACKAGES, "tests") for path in sources(package)]
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert {name: length for name, length in lengths.items() if length > 400} == {}
