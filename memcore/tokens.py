"""How many tokens a text has, estimated from the kinds of characters in it; needs no tokenizer.

`estimate_tokens` serves decisions such as when to compress a session, where a few percent do not matter but
"four characters per token" is off by a factor of two to ten for Chinese, code, ids or emoji. The method is
our own: UTF-8 is mapped to one class per character, then occurrences of classes and of pairs of classes are
counted and weighted. The pairs stand for what byte-pair tokenizers split at: starts of words, ends of
numbers, letters after digits, capitals inside words. `docs/tokens.md` shows how close it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import mul
from types import MappingProxyType

TokenCounter = Callable[[str], int]
"""Gives the number of tokens of a text: at least 0, and the same each time it is asked."""

MESSAGE_OVERHEAD_TOKENS = 4
"""Tokens that a chat message costs beyond its content: markers of its start, its role and its end."""

# Hundredths of a token per occurrence. Fitted to the samples marked `fit = true` in
# tests/data/token_samples.toml by a linear program that keeps the worst ratio of the estimate to the larger
# of the cl100k and o200k counts closest to 1.15; `python tests/calibrate_tokens.py --fit` prints this table.
WEIGHTS: Mapping[str, int] = MappingProxyType(
    {
        "space": 22,
        "four spaces": -40,
        "newline": 94,
        "punctuation": 35,
        "word start": 80,
        "four letters": 41,
        "capital": 19,
        "capital after lower case": 179,
        "digit": 32,
        "end of number": 159,
        "letter after digit": 243,
        "Latin-1": 285,
        "other Latin": 100,
        "Cyrillic": 66,
        "Arabic, symbols": 102,
        "Greek, Indic, kana": 129,
        "Han, light": 134,
        "Han, heavy": 180,
        "Hangul": 143,
        "beyond the BMP": 328,
    }
)
"""What is counted, in the order of `features`, and what each occurrence weighs in hundredths of a token."""

_SCRIPTS = {
    b"L": ((0xC2, 0xC3),),
    b"V": ((0xC4, 0xCC), (0xE1, 0xE1)),  # Vietnamese has both; Georgian and Khmer share E1
    b"C": ((0xD0, 0xD3),),
    b"S": ((0xD8, 0xDF), (0xE2, 0xE2), (0xEE, 0xEF)),
    b"G": ((0xCD, 0xCF), (0xD4, 0xD7), (0xE0, 0xE0), (0xE3, 0xE3)),  # with Armenian, Hebrew, Thai
    b"H": ((0xE4, 0xE6),),
    b"T": ((0xE7, 0xE9),),  # many characters of Traditional Chinese, which cost more tokens
    b"K": ((0xEA, 0xED),),
    b"E": ((0xF0, 0xF4),),
}
"""The class of a character outside ASCII, by the lead byte of its UTF-8 form; in the order of `WEIGHTS`."""

_CONTINUATION = bytes(range(0x80, 0xC0))


def _class_table() -> bytes:
    """For each byte its class: `a`, `A`, `0`, one of `_SCRIPTS`, else `.`."""
    table = bytearray(b"." * 256)
    for first, last, symbol in ((b"a", b"z", b"a"), (b"A", b"Z", b"A"), (b"0", b"9", b"0")):
        table[first[0] : last[0] + 1] = symbol * (last[0] - first[0] + 1)
    for symbol, ranges in _SCRIPTS.items():
        for low, high in ranges:
            table[low : high + 1] = symbol * (high - low + 1)
    return bytes(table)


def _run_table() -> bytes:
    """For each class what it is in a word: a letter `a`, a digit `0`, an accent `x`, else a gap `.`."""
    table = bytearray(b"." * 256)
    for symbol, kind in ((b"a", b"a"), (b"A", b"a"), (b"0", b"0"), (b"L", b"x"), (b"V", b"x")):
        table[symbol[0]] = kind[0]
    return bytes(table)


_CLASSES = _class_table()
_RUNS = _run_table()
_WEIGHT_VALUES = tuple(WEIGHTS.values())


def features(text: str) -> list[int]:
    """How often each thing in `WEIGHTS` occurs in a text, in that order; shorter where the rest is zero."""
    data = (" " + text).encode("utf-8", "surrogatepass")  # a word at the very start starts after a space
    classes = data.translate(_CLASSES, _CONTINUATION)
    runs = classes.translate(_RUNS)
    spaces, newlines = text.count(" "), text.count("\n")
    counts = [spaces, text.count("    "), newlines, classes.count(b".") - spaces - newlines - 1]
    counts += (runs.count(b".a"), runs.count(b"aaaa"))
    capitals = classes.count(b"A")
    counts += (capitals, classes.count(b"aA") if capitals else 0)
    digits = classes.count(b"0")
    counts += (digits, runs.count(b"0."), runs.count(b"0a")) if digits else (0, 0, 0)
    if not text.isascii():
        counts += map(classes.count, _SCRIPTS)
    return counts


def estimate_tokens(text: str) -> int:
    """About how many tokens a language model counts for a text.

    Meant to err upwards: on the kinds of text in `docs/tokens.md` it lies between 10 % below and 45 % above
    the larger of the cl100k and o200k counts. Takes time proportional to the length, and never raises:
    lone surrogates count like other characters. The estimate of two texts joined exceeds the sum of their
    estimates by at most 4, and is at most 2 below the larger of the two.

    Args:
        text: Any string.

    Returns:
        Tokens: 0 for the empty string, else at least 1.
    """
    if not text:
        return 0
    hundredths: int = sum(map(mul, features(text), _WEIGHT_VALUES))
    return max(1, (hundredths + 50) // 100)


_NAMES_BY_WINDOW = {
    4_096: "gpt-3.5-turbo-0301 gpt-3.5-turbo-0613 gpt-3.5-turbo-instruct llama-2 llama2",
    8_192: "gpt-4 llama-3 llama3 meta-llama-3 moonshot-v1-8k",
    16_385: "gpt-3.5-turbo gpt-3.5-turbo-16k",
    32_768: "gpt-4-32k qwen2.5-0.5b qwen2.5-1.5b qwen2.5-3b mixtral-8x7b moonshot-v1-32k "
    "mistral-7b-instruct-v0.2 mistral-7b-instruct-v0.3",
    65_536: "mixtral-8x22b",
    100_000: "claude-instant-1.2 claude-2.0",
    128_000: "gpt-4-turbo gpt-4-1106-preview gpt-4-0125-preview gpt-4o gpt-4o-mini chatgpt-4o-latest "
    "o1-mini o1-preview gpt-5-chat deepseek-v3 deepseek-r1 mistral-nemo "
    "mistral-large-2407 mistral-large-2411",
    131_072: "llama-3.1 llama3.1 meta-llama-3.1 llama-3.2 llama3.2 llama-3.3 llama3.3 "
    "qwen2.5-7b qwen2.5-14b qwen2.5-32b qwen2.5-72b glm-4-9b-chat glm-4.5 kimi-k2 moonshot-v1-128k",
    200_000: "o1 o3 o3-mini o4-mini claude-2.1 claude-3-haiku claude-3-sonnet claude-3-opus claude-3-5-haiku "
    "claude-3-5-sonnet claude-3-7-sonnet claude-sonnet-4 claude-opus-4 claude-opus-4-1 claude-sonnet-4-5 "
    "claude-haiku-4-5 glm-4.6",
    262_144: "kimi-k2-0905 kimi-k2-thinking",
    400_000: "gpt-5 gpt-5-mini gpt-5-nano",
    1_047_576: "gpt-4.1 gpt-4.1-mini gpt-4.1-nano",
    1_048_576: "gemini-1.5-flash gemini-2.0-flash gemini-2.0-flash-lite "
    "gemini-2.5-pro gemini-2.5-flash gemini-2.5-flash-lite",
    2_097_152: "gemini-1.5-pro",
}

CONTEXT_WINDOWS: Mapping[str, int] = MappingProxyType(
    {name: window for window, names in _NAMES_BY_WINDOW.items() for name in names.split()}
)
"""Tokens of input and output together that a model takes, as its maker publishes; names in lower case."""


def context_window(model: str) -> int | None:
    """The context window of a model, in tokens.

    The name is looked up as it stands, then without the provider before the last `/`; case does not matter.
    A name that goes on after a known one with `-`, `@` or `:`, such as a date, counts as the longest such.

    Args:
        model: A name such as `gpt-4o-2024-11-20` or `openai/gpt-4o`.

    Returns:
        Tokens, or `None` when the model is not known.
    """
    name = model.lower().rpartition("/")[2]
    ends = [i for i, character in enumerate(name) if character in "-@:"]
    for end in (len(name), *reversed(ends)):
        if name[:end] in CONTEXT_WINDOWS:
            return CONTEXT_WINDOWS[name[:end]]
    return None
