"""The token estimate stays within its bounds, and the table of context windows finds the names it should."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.tokens import (
    CONTEXT_WINDOWS,
    MESSAGE_OVERHEAD_TOKENS,
    WEIGHTS,
    TokenCounter,
    context_window,
    estimate_tokens,
    features,
)
from tests import calibrate_tokens
from tests.calibrate_tokens import Sample, error, load_samples

SAMPLE_LIST = load_samples()
KINDS = sorted({sample.kind for sample in SAMPLE_LIST})
LOWEST, HIGHEST = -0.10, 0.45

ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.text(alphabet="aB3 .\n\té中😀\ud800")
"""Any string, lone surrogates included, and strings in which the counted pairs are frequent."""


@pytest.mark.parametrize("sample", SAMPLE_LIST, ids=lambda sample: f"{sample.kind}: {sample.name}")
def test_each_sample_is_within_the_bounds(sample: Sample) -> None:
    """The estimate of a sample is at most 10 % under and 45 % over the larger of the two real counts."""
    assert LOWEST <= error(estimate_tokens(sample.text), sample.real) <= HIGHEST


@pytest.mark.parametrize("fit", [True, False], ids=["fit", "held out"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_within_the_bounds(kind: str, fit: bool) -> None:
    """The estimates of a kind add up to a sum within the bounds, in the fitted and in the held-out half."""
    group = [sample for sample in SAMPLE_LIST if sample.kind == kind and sample.fit is fit]
    total = error(sum(estimate_tokens(s.text) for s in group), sum(s.real for s in group))
    assert LOWEST <= total <= HIGHEST


@pytest.mark.parametrize("kind", KINDS)
def test_a_conversation_of_short_lines_is_within_the_bounds(kind: str) -> None:
    """The lines of the samples of a kind, estimated one by one, add up to a sum within the bounds."""
    lines = [line for s in SAMPLE_LIST if s.kind == kind for line in s.text.split("\n") if line]
    real = sum(Sample(kind, "line", False, line).real for line in lines)
    assert LOWEST <= error(sum(map(estimate_tokens, lines)), real) <= HIGHEST


def test_the_estimate_is_a_token_counter() -> None:
    """`estimate_tokens` can be given wherever a counter is asked for."""
    counter: TokenCounter = estimate_tokens
    assert counter("Hello, world!") in range(2, 7)
    assert MESSAGE_OVERHEAD_TOKENS == 4


@pytest.mark.parametrize("text", ["a", " ", "\n", "\x00", "é", "中", "😀", "\ud800", "\U0010ffff"])
def test_one_character_is_at_least_one_token(text: str) -> None:
    """A single character costs from 1 to 4 tokens, lone surrogates and control characters included."""
    assert 1 <= estimate_tokens(text) <= 4


@given(ANY_TEXT)
def test_only_the_empty_text_is_free(text: str) -> None:
    """Any string has an estimate, which is 0 for the empty string alone and the same at each call."""
    estimate = estimate_tokens(text)
    assert (estimate == 0) is (text == "")
    assert estimate >= 0
    assert estimate_tokens(text) == estimate


@given(ANY_TEXT, ANY_TEXT)
def test_joining_changes_little(first: str, second: str) -> None:
    """Two texts joined cost at most 4 more than apart, and no more than 2 less than the larger."""
    apart = estimate_tokens(first), estimate_tokens(second)
    joined = estimate_tokens(first + second)
    assert max(apart) - 2 <= joined <= sum(apart) + 4


@given(ANY_TEXT.filter(bool), st.integers(1, 50))
def test_the_estimate_is_bounded_by_the_length(text: str, times: int) -> None:
    """A text repeated costs at most its parts and the seams, and under 6 tokens per character."""
    estimate = estimate_tokens(text * times)
    assert estimate <= times * (estimate_tokens(text) + 4)
    assert estimate <= 6 * len(text) * times + 6


@given(ANY_TEXT)
def test_features_fit_the_weights(text: str) -> None:
    """Nothing is counted a negative number of times, nor without a weight."""
    counts = features(text)
    assert len(counts) <= len(WEIGHTS)
    assert min(counts) >= 0


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("gpt-4o", 128_000),
        ("gpt-4o-2024-11-20", 128_000),
        ("gpt-4o-mini-2024-07-18", 128_000),
        ("openai/gpt-4o", 128_000),
        ("openrouter/openai/GPT-4o", 128_000),
        ("gpt-4", 8_192),
        ("gpt-4-0613", 8_192),
        ("gpt-4-32k-0613", 32_768),
        ("gpt-4-turbo-2024-04-09", 128_000),
        ("gpt-4.1-mini-2025-04-14", 1_047_576),
        ("gpt-3.5-turbo-0613", 4_096),
        ("gpt-3.5-turbo-0125", 16_385),
        ("o1-2024-12-17", 200_000),
        ("o1-mini", 128_000),
        ("o3-mini", 200_000),
        ("gpt-5-mini", 400_000),
        ("claude-3-5-sonnet-20241022", 200_000),
        ("claude-3-5-sonnet@20240620", 200_000),
        ("gemini-1.5-pro-002", 2_097_152),
        ("gemini-2.5-flash", 1_048_576),
        ("llama3.1:8b", 131_072),
        ("meta-llama/Llama-3.3-70B-Instruct", 131_072),
        ("Qwen/Qwen2.5-7B-Instruct", 131_072),
        ("kimi-k2-0905-preview", 262_144),
    ],
)
def test_known_models_have_a_window(model: str, window: int) -> None:
    """A name is found as it stands, with a provider, with a suffix, and in any case."""
    assert context_window(model) == window


@pytest.mark.parametrize(
    "model", ["", "/", "-", "gpt", "gpt-4ob", "gpt-4o2", "gpt-9", "my-gpt-4o", "gpt-4o/"]
)
def test_unknown_models_have_none(model: str) -> None:
    """A name that only resembles a known one has no window."""
    assert context_window(model) is None


@given(st.sampled_from(sorted(CONTEXT_WINDOWS)), st.sampled_from([str.lower, str.upper, str.title]))
def test_every_listed_model_is_found(model: str, change: Callable[[str], str]) -> None:
    """Each name of the table finds its own window, whatever its case."""
    assert context_window(change(model)) == CONTEXT_WINDOWS[model] > 0


@given(st.text())
def test_context_window_takes_any_name(model: str) -> None:
    """Any name gives a positive number of tokens or `None`."""
    window = context_window(model)
    assert window is None or window > 0


def test_the_document_is_current() -> None:
    """docs/tokens.md is what the command writes from the samples."""
    assert calibrate_tokens.main(["--check"]) == 0
