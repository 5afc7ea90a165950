"""Compares `memcore.tokens.estimate_tokens` with two real tokenizers, and fits its weights.

python tests/calibrate_tokens.py            writes docs/tokens.md and prints it
python tests/calibrate_tokens.py --check    exits with 1 when docs/tokens.md is out of date
python tests/calibrate_tokens.py --fit      prints the fitted weights (needs scipy)
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tomllib
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from memcore.tokens import WEIGHTS, estimate_tokens, features

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # how bpe-openai 0.1.4 opens its own tables
    import bpe_openai  # type: ignore[import-untyped]

    CL100K = bpe_openai.get_encoding("cl100k_base")
    O200K = bpe_openai.get_encoding("o200k_base")

SAMPLES = Path(__file__).parent / "data" / "token_samples.toml"
DOCUMENT = Path(__file__).parent.parent / "docs" / "tokens.md"

TARGET = 1.15
"""The ratio of estimate to count that the fit aims at: about the geometric middle of 0.90 and 1.45."""
LIMITS = {
    "four spaces": (-0.4, 0.0),
    "newline": (0.3, 1.0),
    "Latin-1": (1.0, 4.0),
    "other Latin": (1.0, 4.0),
    "Arabic, symbols": (0.9, 1.02),
    "Han, light": (1.2, 1.34),
    "Han, heavy": (1.2, 1.8),
}
"""Least and most tokens per occurrence where the samples alone would allow odd values; else 0 to 4."""

INTRO = """\
# Token estimate

`memcore.tokens.estimate_tokens` says about how many tokens a text has, without a tokenizer. It is there to
decide when a session is long enough to be compressed; it is not for billing.

It is calibrated on two tokenizers, cl100k and o200k. On the kinds of text below, each sample is estimated at
no less than 10 % under and no more than 45 % over the larger of the two counts, so it errs on the safe side.
Some of the samples set the weights ("fit"); the others check them ("held out"). These were never fitted, but
they were looked at while the classes of characters were chosen, so they are not blind. A single text can be
further off than a sample of its kind. Models with other tokenizers may count differently. Languages and
scripts that are not listed can be under-counted, some by more than a third, and so can letters at random;
long rulers of dashes are over-counted. Very short texts can be off by a token or two.

Where an exact count matters, give your own counter, any function from `str` to `int`:

```python
policy = TokenWatermarkPolicy(..., count_tokens=my_counter)
```

The tables are written by `python tests/calibrate_tokens.py`. Errors are relative to the larger of the two
counts; "chars / 4" is the rule of four characters per token, for comparison.
"""


@dataclass(frozen=True)
class Sample:
    """A text of the sample file, and what the tokenizers count for it."""

    kind: str
    name: str
    fit: bool
    text: str

    @cached_property
    def cl100k(self) -> int:
        """Tokens in the encoding of GPT-4 and GPT-3.5."""
        return len(CL100K.encode_ordinary(self.text))

    @cached_property
    def o200k(self) -> int:
        """Tokens in the encoding of GPT-4o and later."""
        return len(O200K.encode_ordinary(self.text))

    @property
    def real(self) -> int:
        """The larger of the two counts, which the estimate is held to."""
        return max(self.cl100k, self.o200k)


def load_samples() -> list[Sample]:
    """All samples, in the order of the file."""
    return [Sample(**entry) for entry in tomllib.loads(SAMPLES.read_text(encoding="utf-8"))["sample"]]


def error(estimate: float, real: int) -> float:
    """How far an estimate is from the count, as a fraction of the count; positive when it is over."""
    return estimate / real - 1


def document() -> str:
    """The text of docs/tokens.md."""
    samples = sorted(load_samples(), key=lambda sample: sample.kind)
    return "\n".join([INTRO, *_summary(samples), "", "## Every sample", "", *_details(samples), ""])


def _summary(samples: list[Sample]) -> list[str]:
    """One row per kind: the range of errors of the samples used for the fit and of those held out."""
    rows = ["## By kind", "", "| kind | fit | held out | chars / 4 |", "| --- | ---: | ---: | ---: |"]
    for kind in dict.fromkeys(sample.kind for sample in samples):
        group = [sample for sample in samples if sample.kind == kind]
        naive = _span([error(len(s.text) / 4, s.real) for s in group])
        fit, held = (
            _span([error(estimate_tokens(s.text), s.real) for s in group if s.fit is used])
            for used in (True, False)
        )
        rows.append(f"| {kind} | {fit} | {held} | {naive} |")
    return rows


def _span(errors: list[float]) -> str:
    return f"{min(errors):+.0%} to {max(errors):+.0%}"


def _details(samples: list[Sample]) -> list[str]:
    """One row per sample."""
    rows = [
        "| kind | sample | used for | characters | cl100k | o200k | estimate | error | chars / 4 |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for s in samples:
        estimate = estimate_tokens(s.text)
        errors = f"{error(estimate, s.real):+.0%} | {error(len(s.text) / 4, s.real):+.0%}"
        use = "fit" if s.fit else "held out"
        counts = f"{len(s.text)} | {s.cl100k} | {s.o200k} | {estimate}"
        rows.append(f"| {s.kind} | {s.name} | {use} | {counts} | {errors} |")
    return rows


def fit() -> dict[str, int]:
    """The weights, in hundredths of a token, for which the worst ratio comes closest to `TARGET`.

    A linear program over the weights, the worst deviation and the deviation of each sample: it minimises
    three times the worst plus the mean, so that samples which are not the worst are fitted as well.
    """
    counts = _counts_per_token([sample for sample in load_samples() if sample.fit])
    size, width = counts.shape
    worst = np.hstack([np.full((size, 1), -1.0), np.zeros((size, size))])
    each = np.hstack([np.zeros((size, 1)), -np.eye(size)])
    above = np.vstack([np.hstack([sign * counts, slack]) for sign in (1, -1) for slack in (worst, each)])
    limit = np.repeat([TARGET, -TARGET], 2 * size)
    cost = np.concatenate([np.zeros(width), [3.0], np.full(size, 1 / size)])
    bounds = [LIMITS.get(name, (0.0, 4.0)) for name in WEIGHTS] + [(0.0, None)] * (size + 1)
    solution = importlib.import_module("scipy.optimize").linprog(cost, A_ub=above, b_ub=limit, bounds=bounds)
    return {name: round(100 * weight) for name, weight in zip(WEIGHTS, solution.x, strict=False)}


def _counts_per_token(samples: list[Sample]) -> npt.NDArray[np.float64]:
    """One row per sample: its features, divided by the number of its tokens."""
    counts = np.zeros((len(samples), len(WEIGHTS)))
    for row, sample in zip(counts, samples, strict=True):
        found = features(sample.text)
        row[: len(found)] = np.array(found) / sample.real
    return counts


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    parser = argparse.ArgumentParser(description="Compare the token estimate with real tokenizers.")
    parser.add_argument("--check", action="store_true", help="only check that docs/tokens.md is current")
    parser.add_argument("--fit", action="store_true", help="print fitted weights (needs scipy)")
    options = parser.parse_args(arguments)
    if options.fit:
        sys.stdout.writelines(f'"{name}": {weight},\n' for name, weight in fit().items())
        return 0
    text = document()
    if options.check:
        return int(not DOCUMENT.exists() or DOCUMENT.read_text(encoding="utf-8") != text)
    DOCUMENT.write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
