"""The kit's embedding model: no meaning, but a direction for each text that is always the same."""

from __future__ import annotations

import base64
import hashlib
import math
import struct

_SCALE = 2**31


def embed(text: str, dimension: int) -> list[float]:
    """A vector of length 1: the same for the same text on every machine, another for every other text.

    Directions of unrelated texts are independent, so their cosine is 0 give or take `1 / sqrt(dimension)`:
    nearly orthogonal in hundreds of dimensions, not in 8.
    """
    # Not a random generator: those of libraries change from version to version.
    digest = hashlib.shake_256(text.encode("utf-8", "surrogatepass")).digest(4 * dimension)
    # Between two whole numbers, so that no component is 0, and the vector is not.
    raw = [(number + 0.5) / _SCALE for number in struct.unpack(f"<{dimension}i", digest)]
    length = math.hypot(*raw)
    return [component / length for component in raw]


def base64_of(vector: list[float]) -> str:
    """A vector as OpenAI encodes it: 32-bit floats, little-endian, in base64."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode("ascii")
