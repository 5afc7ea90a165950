"""Explorations: state machines over an open backend, and what runs them until they came to what matters."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias, TypeVar

from hypothesis import seed
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, run_state_machine_as_test

from conformance.clauses import EXAMPLES
from conformance.expect import not_evaluable
from conformance.hostile import IDS
from conformance.world import Kit, World
from memcore import CountPolicy

T = TypeVar("T")
AFTER, KEEP = 4, 2
MAX_EXPLORATIONS = 5
"""A state that no example came to is looked for again, with other examples, so many times in all."""
_examples = itertools.count()
_pools = st.lists(st.sampled_from(IDS), min_size=3, max_size=3, unique=True)


Run: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]


class Machine(RuleBasedStateMachine):
    """A state machine over an open backend: rules are synchronous and run their calls to the end.

    Args:
        kit: The open backend, shared by all examples.
        run: Runs a call in the loop in which the backend was opened.
        reached: How often examples came into a state that is worth something.
    """

    goals: tuple[str, ...] = ()
    """States that have to be reached for the check to say anything."""

    def __init__(self, kit: Kit, run: Run, reached: Counter[str]) -> None:
        super().__init__()
        self.kit = kit
        self.run = run
        self.reached = reached
        # Fresh ids per example, not a fresh store: what an example leaves must not disturb the next.
        self.suffix = f" #{next(_examples)}"
        self.names: list[str] = []
        kit.program.begin()

    @initialize(pool=_pools)
    def choose(self, pool: list[str]) -> None:
        """Three hostile ids that no other example uses."""
        self.names = [f"{name}{self.suffix}" for name in pool]

    def teardown(self) -> None:
        # After a failure it would only hide it among more calls.
        if sys.exc_info()[0] is None:
            for name in self.names:
                self.look(name)
        for name in self.names:
            self.run(self.remove(name))

    def look(self, name: str) -> None:
        """Compare all that is stored under an id."""
        raise NotImplementedError

    async def remove(self, name: str) -> None:
        """Remove what is stored under an id, unrecorded: it only keeps later examples fast."""
        raise NotImplementedError


@contextmanager
def _opened(world: World) -> Iterator[tuple[Kit, Callable[[Coroutine[Any, Any, T]], T]]]:
    """An open backend and what runs its calls: one loop for all examples."""
    with asyncio.Runner() as runner:
        opening = world.open(policy=CountPolicy(AFTER, KEEP))
        kit = runner.run(opening.__aenter__())
        try:
            yield kit, runner.run
        finally:
            runner.run(opening.__aexit__(None, None, None))


def explore(world: World, machine: type[Machine], *more_goals: str) -> None:
    """Run examples of a machine until they came to its goals."""
    reached: Counter[str] = Counter()
    goals = (*machine.goals, *more_goals)
    with _opened(world) as (kit, run):
        for n in range(MAX_EXPLORATIONS):
            made = seed(world.seed + n)(partial(machine, kit, run, reached))
            run_state_machine_as_test(made, settings=EXAMPLES)  # type: ignore[arg-type]
            if all(reached[goal] for goal in goals):
                return
    missed = ", ".join(goal for goal in goals if not reached[goal])
    not_evaluable(f"no example of {MAX_EXPLORATIONS} explorations came to {missed}")
