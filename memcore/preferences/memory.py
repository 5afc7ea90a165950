"""Preferences in process memory: a dictionary per user, no `await` inside anything that must be atomic."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from memcore import guards
from memcore.lifetime import Closable
from memcore.types import Preference


class InMemoryPreferenceStore(Closable):
    """Preferences that live as long as this object.

    Args:
        now: The clock, in seconds since the epoch.
    """

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._now = now
        self._users: dict[str, dict[str, Preference]] = {}

    async def get(self, user_id: str, key: str) -> str | None:
        user_id, key = self._checked("get", user_id, key)
        preference = self._users.get(user_id, {}).get(key)
        return preference.value if preference else None

    async def set(self, user_id: str, key: str, value: str) -> None:
        user_id, key = self._checked("set", user_id, key)
        value = guards.preference_value("set", value)
        if key and value:
            updated_at = datetime.fromtimestamp(self._now(), UTC)
            self._users.setdefault(user_id, {})[key] = Preference(value, updated_at)

    async def all(self, user_id: str) -> dict[str, Preference]:
        self._check_open("all")
        preferences = self._users.get(guards.identifier("all", "user_id", user_id), {})
        return dict(sorted(preferences.items()))

    async def delete(self, user_id: str, key: str) -> None:
        user_id, key = self._checked("delete", user_id, key)
        preferences = self._users.get(user_id, {})
        preferences.pop(key, None)
        if not preferences:
            self._users.pop(user_id, None)

    async def forget(self, user_id: str) -> int:
        self._check_open("forget")
        return len(self._users.pop(guards.identifier("forget", "user_id", user_id), {}))

    async def aclose(self) -> None:
        await super().aclose()
        self._users.clear()

    def _checked(self, operation: str, user_id: str, key: str) -> tuple[str, str]:
        self._check_open(operation)
        user_id = guards.identifier(operation, "user_id", user_id)
        return user_id, guards.preference_key(operation, key)
