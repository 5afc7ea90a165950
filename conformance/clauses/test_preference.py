"""Preferences: facts per user."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from conformance.clauses import clause, needs
from conformance.clauses.turns import Clock
from conformance.expect import expect, expect_that, not_evaluable
from conformance.hostile import IDS, LONE_SURROGATES, NOT_TEXT, TEXTS, bad_ids, longest_id
from conformance.model import trimmed
from conformance.world import Kit, World
from memcore import Preference

pytestmark = pytest.mark.asyncio

CLOCKS_APART = timedelta(minutes=10)


async def _values(kit: Kit, user_id: str) -> dict[str, str]:
    return {key: preference.value for key, preference in (await kit.preferences.all(user_id)).items()}


@clause("PRE-001")
async def test_what_was_set_is_what_one_gets(world: World) -> None:
    """Hostile values come back from `get` and `all`, as `Preference` with a value and a time."""
    values = {f"key {n}": trimmed(text, world.claims.max_value_length) for n, text in enumerate(TEXTS)}
    values = {key: value for key, value in values.items() if value}
    async with world.open() as kit:
        for key, value in values.items():
            await kit.preferences.set("u", key, value)
        for key, value in values.items():
            expect("PRE-001", f"get {key!r}", await kit.preferences.get("u", key), value)
        expect("PRE-001", "all", await _values(kit, "u"), values)
        kinds = {type(preference) for preference in (await kit.preferences.all("u")).values()}
        expect("PRE-001", "what all yields", kinds, {Preference})


@clause("PRE-001")
async def test_the_longest_key_and_value_come_back(world: World) -> None:
    """Key and value of exactly their limits, in wide characters, come back whole."""
    key, value = "🗝" * world.claims.max_key_length, "会" * world.claims.max_value_length
    async with world.open() as kit:
        await kit.preferences.set("u", key, value)
        expect("PRE-001", "all", await _values(kit, "u"), {key: value})


@clause("PRE-001")
async def test_an_unset_key_is_absent(world: World) -> None:
    """A key that was not set, and any key of an unknown user, is `None`; such a user has nothing."""
    async with world.open() as kit:
        await kit.preferences.set("u", "k", "v")
        expect("PRE-001", "another key", await kit.preferences.get("u", "other"), None)
        expect("PRE-001", "an unknown user", await kit.preferences.get("unknown", "k"), None)
        expect("PRE-001", "all of an unknown user", await kit.preferences.all("unknown"), {})


@clause("PRE-002")
async def test_the_last_set_wins(world: World) -> None:
    """Set again and again, also back to an earlier value, a key has the last one, once."""
    async with world.open() as kit:
        for value in ("a", "b", "a", "c", "c"):
            await kit.preferences.set("u", "k", value)
            expect("PRE-002", "get", await kit.preferences.get("u", "k"), value)
            expect("PRE-002", "all", await _values(kit, "u"), {"k": value})


@clause("PRE-003")
async def test_users_are_apart(world: World) -> None:
    """Hostile user ids have preferences of their own; changing and deleting stays within a user."""
    users = [*(name for name in IDS if len(name) <= world.claims.max_id_length), longest_id(world.claims)]
    users.append(users[-1][:-1])
    values = {name: f"of user {n}" for n, name in enumerate(users)}
    async with world.open() as kit:
        for n, name in enumerate(users):
            await kit.preferences.set(name, "k", values[name])
            # A key that no other user has, so that one too many shows.
            await kit.preferences.set(name, f"of {n}", values[name])
        for n, name in enumerate(users):
            expected = {"k": values[name], f"of {n}": values[name]}
            expect("PRE-003", f"all of {name!r}", await _values(kit, name), expected)
        for n, name in enumerate(users):
            await kit.preferences.delete(name, "k")
            left = {other: await kit.preferences.get(other, "k") for other in users[n + 1 :]}
            expected = {other: values[other] for other in users[n + 1 :]}
            expect("PRE-003", f"others after delete by {name!r}", left, expected)


@clause("PRE-003")
@pytest.mark.parametrize("joint", [":", "::", "/", "|", "-", "_", ".", ",", " "])
async def test_user_and_key_are_two_things(world: World, joint: str) -> None:
    """A user and a key are not joined into one name: `a:b` and `c` are not `a` and `b:c`."""
    pairs = [(f"a{joint}b", "c"), ("a", f"b{joint}c")]
    async with world.open() as kit:
        for n, (user_id, key) in enumerate(pairs):
            await kit.preferences.set(user_id, key, str(n))
        for n, (user_id, key) in enumerate(pairs):
            expect("PRE-003", f"get {key!r} of {user_id!r}", await kit.preferences.get(user_id, key), str(n))


@clause("PRE-004")
async def test_keys_are_code_points(world: World) -> None:
    """Keys that differ in case, Unicode form, or inner spaces are different keys."""
    keys = [
        "Theme",
        "theme",
        "THEME",
        "é",
        "e\u0301",
        "ﬁ",
        "fi",
        "a b",
        "a  b",
        "a\u00a0b",
        "ß",
        "ss",
        "ı",
        "i",
    ]
    async with world.open() as kit:
        for n, key in enumerate(keys):
            await kit.preferences.set("u", key, str(n))
        for n, key in enumerate(keys):
            expect("PRE-004", f"get {key!a}", await kit.preferences.get("u", key), str(n))
        expect("PRE-004", "number of keys", len(await kit.preferences.all("u")), len(keys))


def _untrimmed(limit: int) -> list[str]:
    """Texts around a limit, among them one where cutting lays bare a space."""
    return [
        " k ",
        "\t\nk\u3000",
        "x" * limit + "y",
        "x" * (limit - 1) + " y",
        " " * 10 + "x" * (limit - 1) + " yz",
        "x" * (limit - 2) + "\u2003\u2003y",
        "🗝" * (limit + 5),
    ]


@clause("PRE-005")
async def test_keys_are_stripped_cut_and_stripped(world: World) -> None:
    """The same key is meant in set, get and delete, however it is padded or too long."""
    limit = world.claims.max_key_length
    for key in _untrimmed(limit):
        async with world.open() as kit:
            await kit.preferences.set("u", key, "v")
            stored = trimmed(key, limit)
            expect("PRE-005", f"key of {key!r}", await _values(kit, "u"), {stored: "v"})
            for same in (key, stored, f" {key}"):
                expect("PRE-005", f"get {same!r}", await kit.preferences.get("u", same), "v")
            await kit.preferences.delete("u", f"\n{key}")
            expect("PRE-005", f"after delete of {key!r}", await _values(kit, "u"), {})


@clause("PRE-005")
async def test_values_are_stripped_cut_and_stripped(world: World) -> None:
    """A value is stored without space around it and within its limit."""
    limit = world.claims.max_value_length
    async with world.open() as kit:
        for value in _untrimmed(limit):
            await kit.preferences.set("u", "k", value)
            got = await kit.preferences.get("u", "k")
            expect("PRE-005", f"value of {value!r:.60}", got, trimmed(value, limit))


@clause("PRE-006")
@pytest.mark.parametrize("blank", ["", " ", "\t\r\n", "\u3000\u00a0\u2003"], ids=ascii)
async def test_blank_is_dropped(world: World, blank: str) -> None:
    """Setting a blank key, or a key to a blank value, raises nothing and changes nothing."""
    async with world.open() as kit:
        await kit.preferences.set("u", "k", "v")
        await kit.preferences.set("u", blank, "v")
        await kit.preferences.set("u", "k", blank)
        await kit.preferences.set("u", "other", blank)
        await kit.preferences.delete("u", blank)
        expect("PRE-006", "all", await _values(kit, "u"), {"k": "v"})
        expect("PRE-006", "get of a blank key", await kit.preferences.get("u", blank), None)


@clause("PRE-007")
@pytest.mark.parametrize("bad", ["a\0b", "\0", *LONE_SURROGATES, *NOT_TEXT], ids=ascii)
async def test_what_is_not_text_is_refused(world: World, bad: object) -> None:
    """As a key it is refused by get, set and delete, as a value by set; nothing changes."""
    async with world.open() as kit:
        store = kit.preferences
        await store.set("u", "k", "v")
        await kit.refused("PRE-007", f"set of key {bad!a}", store.set, "u", bad, "v")
        await kit.refused("PRE-007", f"set of value {bad!a}", store.set, "u", "k", bad)
        await kit.refused("PRE-007", f"get of key {bad!a}", store.get, "u", bad)
        await kit.refused("PRE-007", f"delete of key {bad!a}", store.delete, "u", bad)
        expect("PRE-007", "all after the refusals", await _values(kit, "u"), {"k": "v"})


@clause("PRE-008")
async def test_all_is_ordered_by_code_points(world: World) -> None:
    """Capitals before small letters, é after z, beyond the basic plane last: no locale, no UTF-16."""
    keys = [
        "b",
        "a",
        "B",
        "A",
        "é",
        "z",
        "Z",
        "_",
        "10",
        "9",
        "a b",
        "a-b",
        "ab",
        "\ufb01",
        "\U0001f600",
        "会",
    ]
    async with world.open() as kit:
        for key in keys:
            await kit.preferences.set("u", key, "v")
        expect("PRE-008", "keys of all", list(await kit.preferences.all("u")), sorted(keys))


@clause("PRE-009")
async def test_delete_removes_one_key(world: World) -> None:
    """It is gone from get and all, its neighbours stay, deleting it again is no error, it can be set anew."""
    async with world.open() as kit:
        for key in ("a", "A", "ab"):
            await kit.preferences.set("u", key, "v")
        await kit.preferences.delete("u", "a")
        await kit.preferences.delete("u", "a")
        await kit.preferences.delete("unknown", "a")
        expect("PRE-009", "get", await kit.preferences.get("u", "a"), None)
        expect("PRE-009", "all", await _values(kit, "u"), {"A": "v", "ab": "v"})
        await kit.preferences.set("u", "a", "again")
        expect("PRE-009", "get after setting anew", await kit.preferences.get("u", "a"), "again")


@clause("PRE-010")
async def test_forget_removes_a_user(world: World) -> None:
    """It says how many there were, and leaves others alone."""
    async with world.open() as kit:
        for user_id in ("u", "u2", "U"):
            for key in ("a", "b", "c"):
                await kit.preferences.set(user_id, key, "v")
        await kit.preferences.delete("u", "c")
        expect("PRE-010", "forgotten", await kit.preferences.forget("u"), 2)
        expect("PRE-010", "forgotten again", await kit.preferences.forget("u"), 0)
        expect("PRE-010", "forgotten of an unknown user", await kit.preferences.forget("unknown"), 0)
        expect("PRE-010", "all", await _values(kit, "u"), {})
        expect("PRE-010", "get", await kit.preferences.get("u", "a"), None)
        for other in ("u2", "U"):
            expect("PRE-010", f"all of {other}", len(await kit.preferences.all(other)), 3)


@clause("PRE-003", "PRE-010")
async def test_forget_touches_its_user_alone(world: World) -> None:
    """Users of hostile ids are forgotten one by one; the others are whole at every step."""
    users = [name for name in IDS if len(name) <= world.claims.max_id_length]
    async with world.open() as kit:
        for name in users:
            await kit.preferences.set(name, "k", "v")
        for n, name in enumerate(users):
            expect("PRE-010", f"forgotten of {name!r}", await kit.preferences.forget(name), 1)
            left = [other for other in users[n + 1 :] if await kit.preferences.get(other, "k") is None]
            expect("PRE-010", f"others that lost theirs with {name!r}", left, [])


@clause("PRE-010")
@needs("residue")
async def test_forgetting_leaves_nothing_in_storage(world: World) -> None:
    """User, key and value stand in raw storage before, and nowhere afterwards; others stay."""
    async with world.open() as kit:
        await kit.preferences.set("forgotten-user", "forgotten-key", "forgotten-value")
        await kit.preferences.set("kept-user", "kept-key", "kept-value")
        traces = ("forgotten-user", "forgotten-key", "forgotten-value")
        for trace in traces:
            if not await kit.residue(trace):
                not_evaluable(f"the hook does not show {trace!r}, which is stored")
        await kit.preferences.forget("forgotten-user")
        left = {trace: found for trace in traces if (found := await kit.residue(trace))}
        expect("PRE-010", "what is left", left, {})
        expect_that("PRE-010", "another user", bool(await kit.residue("kept-user")), expected=True, got=False)


@clause("PRE-011")
async def test_updated_at_is_aware_utc(world: World) -> None:
    """It is the present in UTC, and does not go back when the key is set again."""
    async with world.open() as kit:
        before = datetime.min.replace(tzinfo=UTC)
        for value in ("a", "b", "a"):
            await kit.preferences.set("u", "k", value)
            stamp = (await kit.preferences.all("u"))["k"].updated_at
            aware = stamp.tzinfo is not None and stamp.utcoffset() == timedelta(0)
            expect_that("PRE-011", "zone of updated_at", aware, expected="aware UTC", got=stamp)
            near = abs(stamp - datetime.now(UTC)) < CLOCKS_APART
            expect_that("PRE-011", "updated_at", near, expected="about now", got=stamp)
            later = stamp >= before
            expect_that("PRE-011", "updated_at", later, expected=f"not before {before}", got=stamp)
            before = stamp
            again = (await kit.preferences.all("u"))["k"].updated_at
            expect("PRE-011", "updated_at read again", again, stamp)


@clause("PRE-011")
@needs("injected_clock")
async def test_setting_again_moves_updated_at(world: World) -> None:
    """The time of a preference is that of its last set, not of its first and not of the reading."""
    clock = Clock()
    async with world.open(now=clock) as kit:
        stamps = []
        for _ in range(2):
            await kit.preferences.set("u", "k", "v")
            stamps.append((await kit.preferences.all("u"))["k"].updated_at)
            clock.now += 60.0
        moved = (stamps[1] - stamps[0]).total_seconds()
        expect("PRE-011", "seconds between two sets", moved, 60.0)


@clause("PRE-012")
async def test_bad_user_ids_are_refused(world: World) -> None:
    """A user id that is none is refused by every method."""
    async with world.open() as kit:
        store = kit.preferences
        for name in bad_ids(world.claims):
            what = f"user id {name!a:.80}"
            await kit.refused("PRE-012", f"set, {what}", store.set, name, "k", "v")
            for method in (store.get, store.delete):
                await kit.refused("PRE-012", what, method, name, "k")
            for whole in (store.all, store.forget):
                await kit.refused("PRE-012", what, whole, name)


@clause("PRE-013")
async def test_what_was_handed_out_is_the_callers(world: World) -> None:
    """Changing a dictionary that `all` gave changes nothing that is stored."""
    async with world.open() as kit:
        await kit.preferences.set("u", "k", "v")
        handed_out = await kit.preferences.all("u")
        handed_out["smuggled"] = handed_out.pop("k")
        expect("PRE-013", "all", await _values(kit, "u"), {"k": "v"})


@clause("PRE-020")
async def test_another_store_object_finds_everything(world: World) -> None:
    """An object that is opened later on the same data has every preference."""
    async with world.open() as kit:
        for key in ("a", "b"):
            await kit.preferences.set("u", key, f"value of {key}")
        before = await kit.preferences.all("u")
        async with world.open(namespace=kit.ctx.namespace) as later:
            expect("PRE-020", "all", await later.preferences.all("u"), before)
