"""Preference stores that are wrong."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from conformance.mutants.making import is_text, preferences
from memcore import InMemoryPreferenceStore, InvalidArgument, Preference


@preferences(
    "PRE-003",
    fragment="got:      {'k': 'of user 37', 'of 3': 'of user",
    report="ids are unified",
    may="PRE-010",
)
class UsersAreLowerCase(InMemoryPreferenceStore):
    """Users whose names differ in case are one."""

    def _checked(self, operation: str, user_id: str, key: str) -> tuple[str, str]:
        user_id, key = super()._checked(operation, user_id, key)
        return user_id.lower(), key


@preferences(
    "PRE-005",
    fragment="got:      {'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    report="a limit that is off by one",
    may="PRE-001",
)
class KeysAreCutShort(InMemoryPreferenceStore):
    """Keys are cut to 49 code points."""

    def _checked(self, operation: str, user_id: str, key: str) -> tuple[str, str]:
        user_id, key = super()._checked(operation, user_id, key)
        return user_id, key[:49]


@preferences("PRE-007", fragment="set of value", report="openai/openai-agents-python#2494")
class ValuesOfAnyKind(InMemoryPreferenceStore):
    """A value that is no text is stored as its `str`, without NUL."""

    async def set(self, user_id: str, key: str, value: str) -> None:
        await super().set(user_id, key, str(value).replace("\0", ""))


@preferences("PRE-011", fragment="zone of updated_at", report="mem0ai/mem0#6931")
class TimesWithoutAZone(InMemoryPreferenceStore):
    """The time of a preference has no zone."""

    async def all(self, user_id: str) -> dict[str, Preference]:
        found = await super().all(user_id)
        return {key: replace(p, updated_at=p.updated_at.replace(tzinfo=None)) for key, p in found.items()}


@preferences("PRE-012", fragment="got:      'no error, but {}'", report="an error read as an empty answer")
class UsersOfAnyKind(InMemoryPreferenceStore):
    """A bad user id reads as a user without preferences."""

    async def all(self, user_id: str) -> dict[str, Preference]:
        try:
            return await super().all(user_id)
        except InvalidArgument:
            return {}


@preferences("PRE-013", fragment="got:      {'smuggled': 'v'}", report="google/adk-python#7213")
class HandsOutItsDictionary(InMemoryPreferenceStore):
    """The dictionary that is handed out is the stored one."""

    async def all(self, user_id: str) -> dict[str, Preference]:
        found = await super().all(user_id)
        self._users[user_id] = found
        return found


@preferences("PRE-004", fragment="got:      '2'", report="bargate-project/bargate#37", may="PRE-008 PRE-009")
class KeysAreLowerCase(InMemoryPreferenceStore):
    """Keys that differ in case are one."""

    def _checked(self, operation: str, user_id: str, key: str) -> tuple[str, str]:
        user_id, key = super()._checked(operation, user_id, key)
        return user_id, key.lower()


@preferences("PRE-004", fragment="got:      '4'", report="keys that are unified")
class KeysAreNormalized(InMemoryPreferenceStore):
    """Keys that differ in Unicode form are one."""

    def _checked(self, operation: str, user_id: str, key: str) -> tuple[str, str]:
        user_id, key = super()._checked(operation, user_id, key)
        return user_id, unicodedata.normalize("NFC", key)


@preferences(
    "PRE-002", fragment="got:      'a'", report="an insert that never updates", may="PRE-005 PRE-007 PRE-011"
)
class FirstSetWins(InMemoryPreferenceStore):
    """A key keeps its first value."""

    async def set(self, user_id: str, key: str, value: str) -> None:
        if await super().get(user_id, key) is None:
            await super().set(user_id, key, value)


@preferences("PRE-006", fragment="got:      {}", report="a blank value taken for none")
class BlankDeletes(InMemoryPreferenceStore):
    """Setting a blank value deletes the key."""

    async def set(self, user_id: str, key: str, value: str) -> None:
        await super().set(user_id, key, value)
        if not value.strip():
            await super().delete(user_id, key)


@preferences(
    "PRE-008", fragment="got:      ['10', '9', 'A', 'B', 'Z', '_', 'a',", report="an order of code units"
)
class OrderedByUtf16(InMemoryPreferenceStore):
    """Keys are ordered by UTF-16."""

    async def all(self, user_id: str) -> dict[str, Preference]:
        found = await super().all(user_id)
        return dict(sorted(found.items(), key=lambda item: item[0].encode("utf-16-be")))


@preferences("PRE-009", fragment="got:      {'A': 'v'}", report="vinikjkkj/zapo#21", may="PRE-007")
class DeleteByPrefix(InMemoryPreferenceStore):
    """Delete takes every key that begins alike."""

    async def delete(self, user_id: str, key: str) -> None:
        for other in await super().all(user_id):
            if other.startswith(key) and key.strip():
                await super().delete(user_id, other)
        await super().delete(user_id, key)


@preferences("PRE-010", fragment="got:      3", report="counts that disagree")
class ForgetCountsKeysEverSet(InMemoryPreferenceStore):
    """Forget counts one too many."""

    async def forget(self, user_id: str) -> int:
        return await super().forget(user_id) + 1


@preferences("PRE-020", fragment="got:      {}", report="data that dies with a process", persistent=True)
class PreferencesOfOneObject(InMemoryPreferenceStore):
    """What is claimed to be persistent dies with its object."""


@preferences("PRE-010", fragment="what is left", report="google/adk-python#7109")
class ForgottenPreferencesAreArchived(InMemoryPreferenceStore):
    """What is forgotten stays in an archive."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._archive: list[object] = []

    async def forget(self, user_id: str) -> int:
        self._archive.append(self._users.get(user_id) if is_text(user_id) else None)
        return await super().forget(user_id)


@preferences(
    "PRE-003",
    fragment="got:      {'k': 'of user 0', 'of 0': 'of user",
    report="langchain-ai/langgraphjs#2721",
    may="PRE-010",
)
class PreferencesByPrefix(InMemoryPreferenceStore):
    """A user sees the preferences of those whose ids begin alike."""

    async def all(self, user_id: str) -> dict[str, Preference]:
        found = await super().all(user_id)
        for other in [name for name in self._users if name.startswith(user_id)]:
            found = {**self._users[other], **found}
        return dict(sorted(found.items()))


@preferences("PRE-003", fragment="got:      '1'", report="NousResearch/hermes-agent#84686, dotCMS/core#35874")
class KeysJoinedByColons(InMemoryPreferenceStore):
    """User and key are joined by a colon, so `a:b` and `c` are `a` and `b:c`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.joined: dict[str, str] = {}

    async def set(self, user_id: str, key: str, value: str) -> None:
        await super().set(user_id, key, value)
        stored = await super().get(user_id, key)
        if stored is not None and value.strip():
            self.joined[self._join(user_id, key)] = stored

    async def get(self, user_id: str, key: str) -> str | None:
        found = await super().get(user_id, key)
        return self.joined.get(self._join(user_id, key), found) if found is not None else None

    def _join(self, user_id: str, key: str) -> str:
        return ":".join(self._checked("get", user_id, key))

    async def forget(self, user_id: str) -> int:
        self.joined = {name: value for name, value in self.joined.items() if user_id not in name}
        return await super().forget(user_id)


@preferences("PRE-005", fragment="got:      None", report="a limit that holds in one method only")
class ReadsDoNotTrim(InMemoryPreferenceStore):
    """Keys are stripped and cut when they are set, and looked up as they are given."""

    async def get(self, user_id: str, key: str) -> str | None:
        found = await super().get(user_id, key)
        return found if found is None or key in self._users[user_id] else None


@preferences(
    "PRE-008",
    fragment="got:      ['10', '9', 'A', 'B', 'Z', '_', 'a',",
    report="a page taken for the whole",
    may="PRE-001 PRE-004",
)
class TenAtMost(InMemoryPreferenceStore):
    """All preferences are the first ten."""

    async def all(self, user_id: str) -> dict[str, Preference]:
        return dict(list((await super().all(user_id)).items())[:10])


@preferences(
    "PRE-011", fragment="seconds between two sets", report="a time that stays that of the first write"
)
class TimesOfTheFirstSet(InMemoryPreferenceStore):
    """A key that is set again keeps its time."""

    async def set(self, user_id: str, key: str, value: str) -> None:
        before = (await super().all(user_id)).get(key) if is_text(key) else None
        await super().set(user_id, key, value)
        if before is not None and key in self._users.get(user_id, {}):
            self._users[user_id][key] = replace(self._users[user_id][key], updated_at=before.updated_at)


@preferences("PRE-011", fragment="updated_at read again", report="a time that is that of the reading")
class TimesOfTheReading(InMemoryPreferenceStore):
    """The time of a preference is the present."""

    async def all(self, user_id: str) -> dict[str, Preference]:
        found = await super().all(user_id)
        return {key: replace(one, updated_at=datetime.now(UTC)) for key, one in found.items()}


@preferences(
    "PRE-014", fragment="got:      None", report="a cache that a delete does not reach", may="PRE-011"
)
class EqualWritesAreSkipped(InMemoryPreferenceStore):
    """A set of the value that was set last is skipped, though the key was deleted since."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.last: dict[tuple[str, str], str] = {}

    async def set(self, user_id: str, key: str, value: str) -> None:
        self._checked("set", user_id, key)
        if self.last.get((user_id, key)) == value:
            return
        await super().set(user_id, key, value)
        self.last[user_id, key] = value

    async def forget(self, user_id: str) -> int:
        self.last = {of: value for of, value in self.last.items() if of[0] != user_id}
        return await super().forget(user_id)
