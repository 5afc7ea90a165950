"""Any sequence of operations, against a plain model: one state machine for each layer."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from conformance.clauses import clause
from conformance.clauses.exploring import AFTER, KEEP, Machine, Run, explore
from conformance.expect import expect, expect_that
from conformance.model import EpisodeModel, SessionModel, trimmed, view
from conformance.provenance import Behaviour
from conformance.world import Kit, World
from memcore import ChatTurn, Episode

TOLERANCE = 1e-3
# Few sessions and users, so that most operations find something.
_which = st.sampled_from([0, 0, 0, 1, 1, 2])
_roles = st.sampled_from(["user", "assistant", "system"])
_failures = st.sampled_from(["raises", "blank", "none"])


class Sessions(Machine):
    """Appends, reads, clears, failures of the summarizer and expiry, of a few sessions."""

    goals = ("windows that cut", "clears that removed something")

    def __init__(self, kit: Kit, run: Run, reached: Counter[str]) -> None:
        super().__init__(kit, run, reached)
        # A backend that does not compress keeps everything.
        self.bounds = (AFTER, KEEP) if kit.claims.compresses else (10**9, 1)
        self.models: dict[str, SessionModel] = {}
        self.sent: dict[str, list[ChatTurn]] = {}
        self.numbers = itertools.count()
        kit.events.clear()
        kit.ledger.behave.clear()

    def _model(self, name: str) -> SessionModel:
        return self.models.get(name, SessionModel(*self.bounds))

    def _append(self, name: str, turns: list[ChatTurn], failure: Behaviour | None) -> None:
        model = self.models.setdefault(name, SessionModel(*self.bounds))
        self.kit.ledger.behave.clear()
        if failure is not None:
            self.kit.ledger.behave.append(failure)
        covered = model.covered
        self.run(self.kit.append(name, *turns))
        model.append(turns, summarizer_works=failure is None)
        self.sent.setdefault(name, []).extend(turns)
        self.reached["compressions"] += model.covered != covered
        self.reached["truncations"] += bool(model.dropped)

    @rule(
        which=_which,
        roles=st.lists(_roles, min_size=1, max_size=5),
        failure=st.none() | _failures,
        limit=st.integers(0, 5),
    )
    def append(self, which: int, roles: list[Any], failure: Behaviour | None, limit: int) -> None:
        turns = [ChatTurn(role, f"t{next(self.numbers)}") for role in roles]
        self._append(self.names[which], turns, failure if self.kit.claims.compresses else None)
        self.get_window(which, limit)

    @precondition(lambda self: self.sent and self.kit.claims.makes("idempotent"))
    @rule(data=st.data(), fresh=st.integers(0, 2), limit=st.integers(0, 5))
    def append_again(self, data: st.DataObject, fresh: int, limit: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.sent)), "session")
        old = data.draw(st.lists(st.sampled_from(self.sent[name]), min_size=1, max_size=3), "sent before")
        new = [ChatTurn("user", f"t{next(self.numbers)}") for _ in range(fresh)]
        self.reached["turns sent again"] += any(turn.turn_id in self._model(name).known for turn in old)
        self._append(name, [*old, *new], None)
        self.get_window(self.names.index(name), limit)

    @rule(which=_which, limit=st.none() | st.integers(0, 5))
    def get_window(self, which: int, limit: int | None) -> None:
        model = self._model(self.names[which])
        got = view(self.run(self.kit.sessions.get_window(self.names[which], limit)), self.kit.ledger)
        expect("SES-030", f"window of {limit}", got, model.view(limit))
        self.reached["windows that cut"] += limit is not None and limit < len(model.messages)

    @rule(which=_which)
    def get_history(self, which: int) -> None:
        self.look(self.names[which])

    def look(self, name: str) -> None:
        expect("SES-030", f"history of {name!r}", self.run(self.kit.view(name)), self._model(name).view())

    async def remove(self, name: str) -> None:
        if self.kit.stores.sessions is not None:
            await self.kit.stores.sessions.clear(name)

    @rule(which=_which)
    def clear(self, which: int) -> None:
        self.run(self.kit.sessions.clear(self.names[which]))
        removed = self.models.pop(self.names[which], None)
        self.reached["clears that removed something"] += removed is not None

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def clear_known(self, data: st.DataObject) -> None:
        self.clear(self.names.index(data.draw(st.sampled_from(sorted(self.models)), "session")))

    @precondition(lambda self: self.models and self.kit.claims.makes("ttl") and self.kit.stores.ttl)
    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.models)), "session")
        self.run(self.kit.ttl.expire_now(name))
        del self.models[name]
        self.reached["sessions that expired"] += 1

    @rule()
    def list_sessions(self) -> None:
        rows = self.run(self.kit.sessions.list_sessions())
        mine = {row.session_id: row.turns for row in rows if row.session_id.endswith(self.suffix)}
        expected = {name: len(model) for name, model in self.models.items()}
        expect("SES-030", "list", mine, expected)

    @precondition(lambda self: self.kit.claims.traces)
    @rule()
    def dropped(self) -> None:
        for name, model in self.models.items():
            events = [event for event in self.kit.events if event.session_id == name]
            reported = [turn_id for event in events for turn_id in event.dropped]
            # Those of an earlier life of the session come before.
            latest = reported[len(reported) - len(model.dropped) :]
            expect("CMP-016", f"turns of {name!r} reported as dropped", latest, model.dropped)


class Preferences(Machine):
    """Sets, gets, deletes and forgets, of a few users and of keys that are nearly the same."""

    goals = ("gets that found something", "deletes that removed something", "forgets that removed something")
    _keys = st.sampled_from(["k", "K", "k2", " k ", "k\u00a0", "é", "e\u0301", "", "x" * 60, "x" * 50])
    _values = st.sampled_from(["v", " v", "w", "", "\t", "y" * 600]) | st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20
    )

    def __init__(self, kit: Kit, run: Run, reached: Counter[str]) -> None:
        super().__init__(kit, run, reached)
        self.users: dict[str, dict[str, str]] = {}
        self.sent: list[tuple[int, str, str]] = []

    def _key(self, key: str) -> str:
        return trimmed(key, self.kit.claims.max_key_length)

    @rule(which=_which, key=_keys, value=_values)
    def set(self, which: int, key: str, value: str) -> None:
        self.sent.append((which, key, value))
        self.run(self.kit.preferences.set(self.names[which], key, value))
        stored = trimmed(value, self.kit.claims.max_value_length)
        if self._key(key) and stored:
            self.users.setdefault(self.names[which], {})[self._key(key)] = stored
        self.get(which, key)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def set_again(self, data: st.DataObject) -> None:
        # Rarely would chance bring the same key and value twice.
        self.set(*data.draw(st.sampled_from(self.sent), "set before"))

    @rule(which=_which, key=_keys)
    def get(self, which: int, key: str) -> None:
        got = self.run(self.kit.preferences.get(self.names[which], key))
        expected = self.users.get(self.names[which], {}).get(self._key(key))
        expect("PRE-014", f"get {key!r}", got, expected)
        self.reached["gets that found something"] += expected is not None

    @rule(which=_which)
    def all(self, which: int) -> None:
        self.look(self.names[which])

    def look(self, name: str) -> None:
        found = self.run(self.kit.preferences.all(name))
        got = [(key, preference.value) for key, preference in found.items()]
        expect("PRE-014", f"all of {name!r}", got, sorted(self.users.get(name, {}).items()))

    async def remove(self, name: str) -> None:
        if self.kit.stores.preferences is not None:
            await self.kit.stores.preferences.forget(name)

    @rule(which=_which, key=_keys)
    def delete(self, which: int, key: str) -> None:
        self.run(self.kit.preferences.delete(self.names[which], key))
        removed = self.users.get(self.names[which], {}).pop(self._key(key), None)
        self.reached["deletes that removed something"] += removed is not None

    @precondition(lambda self: any(self.users.values()))
    @rule(data=st.data())
    def delete_known(self, data: st.DataObject) -> None:
        known = sorted((name, key) for name, keys in self.users.items() for key in keys)
        name, key = data.draw(st.sampled_from(known), "user and key")
        self.delete(self.names.index(name), key)

    @rule(which=_which)
    def forget(self, which: int) -> None:
        got = self.run(self.kit.preferences.forget(self.names[which]))
        expect("PRE-014", "forgotten", got, len(self.users.pop(self.names[which], {})))
        self.reached["forgets that removed something"] += got > 0


def _vector(number: int) -> tuple[int, ...]:
    """One of the few directions that examples use, so that ties are common: digits of a number in base 3."""
    return tuple(((number * 733 + 41) // 3**place) % 3 - 1 for place in range(8))


class Episodes(Machine):
    """Remembers, recalls and forgets, along a few directions."""

    goals = ("recalls that k cuts", "recalls that min_score cuts", "ties")
    _vectors = st.sampled_from([_vector(n) for n in range(12)])

    def __init__(self, kit: Kit, run: Run, reached: Counter[str]) -> None:
        super().__init__(kit, run, reached)
        self.model = EpisodeModel()

    @rule(which=_which, vectors=st.lists(_vectors, min_size=1, max_size=5), k=st.integers(1, 5))
    def remember(self, which: int, vectors: list[tuple[int, ...]], k: int) -> None:
        known = self.model.users.get(self.names[which], {})
        # The first once more: ties are what stores get wrong.
        for vector in [*vectors, vectors[0]]:
            id_ = f"e{len(known)}"
            self._remember(Episode(self.names[which], "s", id_, vector, episode_id=id_))
            known = self.model.users[self.names[which]]
        self._recall(self.names[which], vectors[0], k, 0.5)

    @rule(which=_which, number=st.integers(0, 5), vector=_vectors)
    def remember_again(self, which: int, number: int, vector: tuple[int, ...]) -> None:
        id_ = f"e{number}"
        self._remember(Episode(self.names[which], "s", id_, vector, episode_id=id_))

    def _remember(self, episode: Episode) -> None:
        self.run(self.kit.episodes.remember(episode))
        self.model.remember(episode)

    @rule(which=_which, query=_vectors, k=st.integers(1, 5), least=st.none() | st.floats(-1, 1))
    def recall(self, which: int, query: tuple[int, ...], k: int, least: float | None) -> None:
        self._recall(self.names[which], query, k, least)

    def look(self, name: str) -> None:
        self._recall(name, (1,) * 8, 100, None)

    async def remove(self, name: str) -> None:
        if self.kit.stores.episodes is not None:
            await self.kit.stores.episodes.forget(name)

    def _recall(self, name: str, query: tuple[int, ...], k: int, least: float | None) -> None:
        found = self.run(self.kit.episodes.recall(name, query, k, least))
        scores = self.model.scores(name, query)
        self._check_scores(scores, found, k, least)
        self._check_order(scores, [item.episode_id for item in found])
        self._check_ties(self.model.users.get(name, {}), [item.episode_id for item in found])
        self.reached["recalls that k cuts"] += k < len(scores)
        below = least is not None and any(score < least for score in scores.values())
        self.reached["recalls that min_score cuts"] += below

    def _check_scores(self, scores: dict[str, float], found: list[Any], k: int, least: float | None) -> None:
        got = [item.episode_id for item in found]
        fine = len(set(got)) == len(got) and set(got) <= set(scores)
        expect_that("EPI-015", "recalled", fine, expected=f"some of {scores}", got=got)
        for item in found:
            near = abs(item.score - scores[item.episode_id]) <= TOLERANCE
            expect_that("EPI-015", f"score of {item.episode_id}", near, expected=scores, got=item.score)
        # Whether scores this close to a bound count is the backend's to say; so both numbers are fine.
        surely = [name for name, score in scores.items() if least is None or score > least + TOLERANCE]
        perhaps = [name for name, score in scores.items() if least is None or score >= least - TOLERANCE]
        exact = self.kit.claims.exact_for(len(scores))
        fewest = min(k, len(surely)) if exact or least is None else 0
        fine = fewest <= len(got) <= min(k, len(perhaps)) and set(got) <= set(perhaps)
        expect_that("EPI-015", "number recalled", fine, expected=f"{k} of {surely}", got=got)
        if not exact:
            return
        best_left_out = max((scores[name] for name in surely if name not in got), default=-2.0)
        fine = all(scores[name] >= best_left_out - TOLERANCE for name in got)
        expect_that("EPI-015", "the best", fine, expected=scores, got=got)

    def _check_order(self, scores: dict[str, float], got: list[str]) -> None:
        for before, after in itertools.pairwise(got):
            fine = scores[before] >= scores[after] - TOLERANCE
            expect_that("EPI-015", f"{before} before {after}", fine, expected=scores, got=got)

    def _check_ties(self, episodes: dict[str, Episode], got: list[str]) -> None:
        """Episodes of equal vectors come in the order in which they were remembered."""
        by_vector: dict[object, list[str]] = {}
        for name, episode in episodes.items():
            if name in got:
                by_vector.setdefault(episode.embedding, []).append(name)
        for arrived in by_vector.values():
            recalled = [name for name in got if name in arrived]
            expect("EPI-015", "order of equal vectors", recalled, arrived)
            self.reached["ties"] += len(arrived) > 1

    @rule(which=_which)
    def forget(self, which: int) -> None:
        got = self.run(self.kit.episodes.forget(self.names[which]))
        expect("EPI-015", "forgotten", got, self.model.forget(self.names[which]))


@clause("SES-030")
def test_any_sequence_on_sessions(world: World) -> None:
    """After any sequence of operations, expiry and failed summaries too, all answers are the model's."""
    compresses = ("compressions", "truncations") if world.claims.compresses else ()
    expires = ("sessions that expired",) if world.claims.makes("ttl") else ()
    known = ("turns sent again",) if world.claims.makes("idempotent") else ()
    explore(world, Sessions, *compresses, *expires, *known)


@clause("PRE-014")
def test_any_sequence_on_preferences(world: World) -> None:
    """After any sequence of operations all answers are those of a plain dictionary."""
    explore(world, Preferences)


@clause("EPI-015")
def test_any_sequence_on_episodes(world: World) -> None:
    """After any sequence of operations all answers are those of a plain search."""
    explore(world, Episodes)
