"""The clauses of the contract, from the one list that document, tests and report share."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal, TypeAlias

from conformance.backend import Claims, Layer

Kind: TypeAlias = Literal["required", "claimed", "stochastic"]
Scope: TypeAlias = Literal["backend", "reference"]

CHAPTERS: dict[str, str] = {
    "SES": "Sessions",
    "CMP": "Compression",
    "PRE": "Preferences",
    "EPI": "Episodes",
    "INF": "Infrastructure",
}
_LAYERS: dict[str, Layer] = {"SES": "sessions", "CMP": "sessions", "PRE": "preferences", "EPI": "episodes"}
LEVELS: dict[int, str] = {1: "sequential", 2: "concurrent", 3: "distributed", 4: "fault-tolerant"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One promise.

    Args:
        id: Such as `SES-004`; never changes its meaning.
        level: 1 to 4.
        kind: Required of everybody, of those who claim `claim`, or judged by statistics.
        title: A few words.
        text: The promise.
        claim: The field of `Claims` on which it depends.
        scope: Whether it concerns every backend, or the stores and the factory of this project alone.
        check: The test of this project that checks a clause of scope `reference`.
    """

    id: str
    level: int
    kind: Kind
    title: str
    text: str
    claim: str | None = None
    scope: Scope = "backend"
    check: str | None = None

    @property
    def chapter(self) -> str:
        """Such as `SES`."""
        return self.id.partition("-")[0]

    @property
    def layer(self) -> Layer | None:
        """The layer that it concerns; `None` if it concerns whoever has one."""
        return _LAYERS.get(self.chapter)

    def claimed_by(self, claims: Claims) -> bool:
        """Whether a backend with these claims is held to this clause."""
        # What concerns no single layer is asked of whoever has one: doing nothing earns nothing.
        if not claims.layers or (self.layer is not None and self.layer not in claims.layers):
            return False
        return self.claim is None or claims.makes(self.claim)


@cache
def clauses() -> tuple[Clause, ...]:
    """Every clause, in the order of the contract."""
    text = (files("conformance") / "contract.toml").read_text(encoding="utf-8")
    return tuple(Clause(**entry) for entry in tomllib.loads(text)["clause"])


@cache
def by_id() -> dict[str, Clause]:
    """Clauses by their ids."""
    return {clause.id: clause for clause in clauses()}


@cache
def checked() -> frozenset[str]:
    """Ids of the clauses that some check of this package names; the others are untested."""
    folder = Path(str(files("conformance") / "clauses"))
    return frozenset(name for path in sorted(folder.glob("test_*.py")) for name in _named_in(path))


def _named_in(path: Path) -> Iterator[str]:
    """Ids in decorators `@clause("SES-001", …)` of a file, without importing it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for decorator in getattr(node, "decorator_list", []):
            if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "clause":
                yield from (str(ast.literal_eval(argument)) for argument in decorator.args)
