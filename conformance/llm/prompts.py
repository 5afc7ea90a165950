"""What a prompt says: which turns of the conversation it contains, in which order, and how sure that is.

A backend that hands plain text to a model does not say which turns are in it. The kit knows what it has
appended, and looks for that. Where more than one reading is possible the reading comes with a doubt.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from memcore import ChatTurn

_TOKEN = re.compile(r"(?:§|\\u00a7)(\d+)(?:§|\\u00a7)(?:…|\\u2026)*", re.IGNORECASE)
"""A summary of the ledger's, as it is or in JSON."""
_LENGTH = re.compile(
    r"(\d{1,6})[\s-]*(?:characters?|chars?|letters?|个?字符|个?字)"
    r"|(?:max[_ ]?chars?|max[_ ]?characters)\W{1,4}(\d{1,6})",
    re.IGNORECASE,
)
_NEAR = 16
"""So many blanks between a text and its neighbour are as good as a new line."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a text of the conversation, or a summary if `key` is `None`, stands in a prompt."""

    start: int
    end: int
    key: str | None
    alone: bool
    """Whether it looks quoted: words run on at neither side."""
    number: str = ""
    """Of the summary."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was found in a prompt.

    Args:
        turns: Summaries and messages, in order of position. A message is the turn that was appended last with
            this content: its role and tool name are not read from the prompt.
        length: Characters that the rest of the prompt asks for; `None` if it names no number, or several.
        doubts: Why this may not be what the backend meant.
    """

    turns: tuple[ChatTurn, ...]
    length: int | None
    doubts: tuple[str, ...]


@dataclass(slots=True)
class Known:
    """The turns that were appended in a namespace, by their content without blanks around it."""

    _turns: dict[str, dict[str, ChatTurn]] = field(default_factory=dict)

    def add(self, turn: object) -> None:
        """Take note of what is about to be appended; what is not a turn of text is left to the store."""
        if isinstance(turn, ChatTurn) and isinstance(turn.content, str):
            self._turns.setdefault(turn.content.strip(), {})[str(turn.turn_id)] = turn

    def read(self, messages: Sequence[str]) -> Reading:
        """Find what was appended in the messages of a prompt; no text is found across two of them."""
        found, rest, doubts = list[_Place](), list[str](), list[str]()
        for text in messages:
            places = list(self._places(text))
            doubts += _twofold(text, places)
            chosen = _chosen(places)
            found += chosen
            rest += _between(text, chosen)
        doubts += self._doubts([place.key for place in found])
        turns = tuple(map(self._turn, found))
        return Reading(turns, _length("\n".join(rest)), tuple(doubts))

    def _places(self, text: str) -> Iterator[_Place]:
        for token in _TOKEN.finditer(text):
            yield _Place(*token.span(), None, alone=True, number=token[1])
        for key in self._turns:
            for form in _forms(key) if key else ():
                yield from _whole(text, form, key)

    def _turn(self, place: _Place) -> ChatTurn:
        if place.key is None:
            return ChatTurn("system", f"§{place.number}§", kind="summary")
        return next(reversed(self._turns[place.key].values()))

    def _doubts(self, keys: Sequence[str | None]) -> Iterator[str]:
        if not keys and self._turns:
            yield "a prompt contains nothing that was appended, as it was appended"
        if "" in self._turns:
            yield "a blank turn was appended, and no prompt shows whether it is in it"
        for key, count in Counter(key for key in keys if key is not None).items():
            turns = self._turns[key].values()
            if count > len(turns):
                yield f"a prompt contains {key[:40]!r} {count} times, and it was appended {len(turns)} times"
            if len({turn.content for turn in turns}) > 1:
                yield f"several turns differ from {key[:40]!r} by blanks alone"


def _forms(key: str) -> set[str]:
    """A text as prompts quote it: as it is, in JSON, in XML."""
    return {
        key,
        json.dumps(key)[1:-1],
        json.dumps(key, ensure_ascii=False)[1:-1],
        html.escape(key),
        html.escape(key, quote=False),
    }


def _whole(text: str, form: str, key: str) -> Iterator[_Place]:
    """Where a form of a text stands as whole words."""
    start = text.find(form)
    while start >= 0:
        end = start + len(form)
        # In JSON a line ends by two characters, of which the second is a letter and no neighbour.
        escape = text[max(0, start - 2) : start] in ("\\n", "\\r", "\\t")
        before = "" if escape else text[max(0, start - 1) : start]
        if not _one_word(before, form[0]) and not _one_word(form[-1], text[end : end + 1]):
            left = text[max(0, start - _NEAR) : start].rstrip(" \t")[-1:]
            right = text[end : end + _NEAR].lstrip(" \t")[:1]
            yield _Place(start, end, key, alone=not (left.isalnum() or right.isalnum()))
        start = text.find(form, start + 1)


def _one_word(left: str, right: str) -> bool:
    """Whether two neighbours belong to one word or one visible character; nothing is in no word."""
    if not left or not right:
        return False
    if unicodedata.category(right)[0] == "M" or "\u200d" in (left, right):
        return True
    both = all(character.isalnum() or character == "_" for character in (left, right))
    # Scripts without spaces stand directly beside others: 用户说t1.
    return both and (unicodedata.category(left) == "Lo") == (unicodedata.category(right) == "Lo")


def _twofold(text: str, places: Iterable[_Place]) -> Iterator[str]:
    """Places at which two texts of the conversation look the same."""
    keys: dict[tuple[int, int], set[str | None]] = {}
    for place in places:
        keys.setdefault((place.start, place.end), set()).add(place.key)
    for (start, end), names in keys.items():
        if len(names) > 1:
            yield f"{text[start:end][:40]!r} in a prompt may be one of {len(names)} turns"


def _chosen(places: Iterable[_Place]) -> list[_Place]:
    """The longest at each position; a text that stands alone somewhere is not looked for within sentences."""
    outer, reached = list[_Place](), 0
    for place in sorted(places, key=lambda place: (place.start, -place.end)):
        if place.end > reached:
            outer.append(place)
            reached = place.end
    quoted = {place.key for place in outer if place.alone}
    chosen, reached = list[_Place](), 0
    for place in outer:
        if place.start >= reached and (place.alone or place.key not in quoted):
            chosen.append(place)
            reached = place.end
    return chosen


def _between(text: str, places: Sequence[_Place]) -> Iterator[str]:
    """What is left of a text."""
    starts = [0, *(place.end for place in places)]
    ends = [*(place.start for place in places), len(text)]
    for start, end in zip(starts, ends, strict=True):
        yield text[start:end]


def _length(instructions: str) -> int | None:
    named = {int(first or second) for first, second in _LENGTH.findall(instructions)}
    return named.pop() if len(named) == 1 else None
