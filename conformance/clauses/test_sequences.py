"""Any sequence of operations, against a plain model: one state machine for each layer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from conformance.clauses import EXAMPLES, clause
from conformance.expect import expect, expect_that
from conformance.hostile import IDS
from conformance.model import EpisodeModel, SessionModel, trimmed, view
from conformance.provenance import Behaviour
from conformance.world import Kit, World
from memcore import ChatTurn, CountPolicy, Episode

T = TypeVar("T")
AFTER, KEEP = 6, 3
TOLERANCE = 1e-3
_examples = itertools.count()
_names = st.sampled_from(IDS[:12])
_roles = st.sampled_from(["user", "assistant", "system"])
_failures = st.sampled_from(["raises", "blank", "none"])


class Machine(RuleBasedStateMachine):
    """A state machine over an open backend: rules are synchronous and run their calls to the end.

    Args:
        kit: The open backend, shared by all examples.
        run: Runs a call in the loop in which the backend was opened.
    """

    def __init__(self, kit: Kit, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        super().__init__()
        self.kit = kit
        self.run = run
        # Fresh ids per example, not a fresh store: what an example leaves must not disturb the next.
        self.example = next(_examples)
        kit.program.begin()

    def name(self, base: str) -> str:
        """A hostile id that no other example uses."""
        return f"{base} #{self.example}"


class Sessions(Machine):
    """Appends, reads, clears, failures of the summarizer and expiry, of a few sessions."""

    def __init__(self, kit: Kit, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        super().__init__(kit, run)
        self.models: dict[str, SessionModel] = {}
        self.sent: dict[str, list[ChatTurn]] = {}
        self.numbers = itertools.count()
        kit.events.clear()
        kit.ledger.behave.clear()

    def _append(self, name: str, turns: list[ChatTurn], failure: Behaviour | None) -> None:
        model = self.models.setdefault(name, SessionModel(AFTER, KEEP))
        self.kit.ledger.behave.clear()
        if failure is not None:
            self.kit.ledger.behave.append(failure)
        self.run(self.kit.append(name, *turns))
        model.append(turns, summarizer_works=failure is None)
        self.sent.setdefault(name, []).extend(turns)

    @rule(base=_names, roles=st.lists(_roles, min_size=1, max_size=4), failure=st.none() | _failures)
    def append(self, base: str, roles: list[Any], failure: Behaviour | None) -> None:
        turns = [ChatTurn(role, f"t{next(self.numbers)}") for role in roles]
        self._append(self.name(base), turns, failure if self.kit.claims.compresses else None)

    @precondition(lambda self: self.sent and self.kit.claims.makes("idempotent"))
    @rule(data=st.data(), fresh=st.integers(0, 2))
    def append_again(self, data: st.DataObject, fresh: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.sent)), "session")
        old = data.draw(
            st.lists(st.sampled_from(self.sent[name]), min_size=1, max_size=3), "turns sent before"
        )
        new = [ChatTurn("user", f"t{next(self.numbers)}") for _ in range(fresh)]
        self._append(name, [*old, *new], None)

    @rule(base=_names, limit=st.none() | st.integers(0, 8))
    def get_window(self, base: str, limit: int | None) -> None:
        got = view(self.run(self.kit.sessions.get_window(self.name(base), limit)), self.kit.ledger)
        expect("SES-008", f"window of {limit}", got, self._model(base).view(limit))

    @rule(base=_names)
    def get_history(self, base: str) -> None:
        got = self.run(self.kit.view(self.name(base)))
        expect("SES-030", "history", got, self._model(base).view())

    @rule(base=_names)
    def clear(self, base: str) -> None:
        self.run(self.kit.sessions.clear(self.name(base)))
        self.models.pop(self.name(base), None)

    @precondition(lambda self: self.kit.claims.makes("ttl") and self.kit.stores.ttl is not None)
    @rule(base=_names)
    def expire(self, base: str) -> None:
        self.run(self.kit.ttl.expire_now(self.name(base)))
        self.models.pop(self.name(base), None)

    @rule()
    def list_sessions(self) -> None:
        rows = self.run(self.kit.sessions.list_sessions())
        mine = {row.session_id: row.turns for row in rows if row.session_id.endswith(f" #{self.example}")}
        expected = {name: len(model) for name, model in self.models.items()}
        expect("SES-018", "list", mine, expected)

    @precondition(lambda self: self.kit.claims.traces)
    @rule()
    def dropped(self) -> None:
        content_of = {turn.turn_id: turn.content for sent in self.sent.values() for turn in sent}
        for name, model in self.models.items():
            reported = [id_ for event in self.kit.events if event.session_id == name for id_ in event.dropped]
            got = [content_of[id_] for id_ in reported][len(reported) - len(model.dropped) :]
            expected = [content_of[id_] for id_ in model.dropped]
            expect("CMP-016", f"dropped turns of {name!r}", got, expected)

    def teardown(self) -> None:
        for base in IDS[:12]:
            self.get_history(base)
        self.list_sessions()

    def _model(self, base: str) -> SessionModel:
        return self.models.get(self.name(base), SessionModel(AFTER, KEEP))


class Preferences(Machine):
    """Sets, gets, deletes and forgets, of a few users and of keys that are nearly the same."""

    _keys = st.sampled_from(["k", "K", " k ", "k\u00a0", "é", "e\u0301", "", "  ", "x" * 60, "x" * 50, "🗝"])
    _values = st.sampled_from(["v", " v", "w", "", "\t", "y" * 600]) | st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20
    )

    def __init__(self, kit: Kit, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        super().__init__(kit, run)
        self.users: dict[str, dict[str, str]] = {}

    def _key(self, key: str) -> str:
        return trimmed(key, self.kit.claims.max_key_length)

    @rule(base=_names, key=_keys, value=_values)
    def set(self, base: str, key: str, value: str) -> None:
        self.run(self.kit.preferences.set(self.name(base), key, value))
        stored = trimmed(value, self.kit.claims.max_value_length)
        if self._key(key) and stored:
            self.users.setdefault(self.name(base), {})[self._key(key)] = stored

    @rule(base=_names, key=_keys)
    def get(self, base: str, key: str) -> None:
        got = self.run(self.kit.preferences.get(self.name(base), key))
        expect("PRE-014", f"get {key!r}", got, self.users.get(self.name(base), {}).get(self._key(key)))

    @rule(base=_names)
    def all(self, base: str) -> None:
        found = self.run(self.kit.preferences.all(self.name(base)))
        got = [(key, preference.value) for key, preference in found.items()]
        expect("PRE-014", "all", got, sorted(self.users.get(self.name(base), {}).items()))

    @rule(base=_names, key=_keys)
    def delete(self, base: str, key: str) -> None:
        self.run(self.kit.preferences.delete(self.name(base), key))
        self.users.get(self.name(base), {}).pop(self._key(key), None)

    @rule(base=_names)
    def forget(self, base: str) -> None:
        got = self.run(self.kit.preferences.forget(self.name(base)))
        expect("PRE-014", "forgotten", got, len(self.users.pop(self.name(base), {})))

    def teardown(self) -> None:
        for base in IDS[:12]:
            self.all(base)


class Episodes(Machine):
    """Remembers, recalls and forgets; vectors of small whole numbers, so that ties are common."""

    _vectors = st.lists(st.integers(-2, 2), min_size=8, max_size=8).filter(any)

    def __init__(self, kit: Kit, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        super().__init__(kit, run)
        self.model = EpisodeModel()

    @rule(base=_names, vector=_vectors, number=st.integers(0, 30))
    def remember(self, base: str, vector: list[int], number: int) -> None:
        sent = Episode(self.name(base), "s", f"e{number}", vector, episode_id=f"e{number}")
        self.run(self.kit.episodes.remember(sent))
        self.model.remember(sent)

    @rule(base=_names, query=_vectors, k=st.integers(1, 8), least=st.none() | st.floats(-1, 1))
    def recall(self, base: str, query: list[int], k: int, least: float | None) -> None:
        found = self.run(self.kit.episodes.recall(self.name(base), query, k, least))
        self._check(self.model.scores(self.name(base), query), found, k, least)

    def _check(self, scores: dict[str, float], found: list[Any], k: int, least: float | None) -> None:
        got = [item.episode_id for item in found]
        fine = len(set(got)) == len(got) and set(got) <= set(scores)
        expect_that("EPI-015", "recalled", fine, expected=f"some of {scores}", got=got)
        for item in found:
            near = abs(item.score - scores[item.episode_id]) <= TOLERANCE
            expect_that("EPI-006", f"score of {item.episode_id}", near, expected=scores, got=item.score)
        # Whether scores this close to a bound count is the backend's to say; so both numbers are fine.
        surely = [name for name, score in scores.items() if least is None or score > least + TOLERANCE]
        perhaps = [name for name, score in scores.items() if least is None or score >= least - TOLERANCE]
        fine = min(k, len(surely)) <= len(got) <= min(k, len(perhaps)) and set(got) <= set(perhaps)
        expect_that("EPI-003", "number recalled", fine, expected=f"{k} of {surely}", got=got)
        self._check_order(scores, got, surely)

    def _check_order(self, scores: dict[str, float], got: list[str], surely: list[str]) -> None:
        for before, after in itertools.pairwise(got):
            fine = scores[before] >= scores[after] - TOLERANCE
            expect_that("EPI-002", f"{before} before {after}", fine, expected=scores, got=got)
        best_left_out = max((scores[name] for name in surely if name not in got), default=-2.0)
        fine = all(scores[name] >= best_left_out - TOLERANCE for name in got)
        expect_that("EPI-002", "the best", fine, expected=scores, got=got)

    @rule(base=_names)
    def forget(self, base: str) -> None:
        got = self.run(self.kit.episodes.forget(self.name(base)))
        expect("EPI-015", "forgotten", got, self.model.forget(self.name(base)))


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


def _explore(world: World, machine: type[Machine]) -> None:
    with _opened(world) as (kit, run):
        run_state_machine_as_test(partial(machine, kit, run), settings=EXAMPLES)  # type: ignore[arg-type]


@clause("SES-030")
def test_any_sequence_on_sessions(world: World) -> None:
    """After any sequence of operations, expiry and failed summaries too, all answers are the model's."""
    _explore(world, Sessions)


@clause("PRE-014")
def test_any_sequence_on_preferences(world: World) -> None:
    """After any sequence of operations all answers are those of a plain dictionary."""
    _explore(world, Preferences)


@clause("EPI-015")
def test_any_sequence_on_episodes(world: World) -> None:
    """After any sequence of operations all answers are those of a plain search."""
    _explore(world, Episodes)
