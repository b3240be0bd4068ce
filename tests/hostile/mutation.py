"""Damage done to good bytes, seeded: flipped, cut, doubled, swapped and overwritten stretches."""

from __future__ import annotations

import numpy as np

_TELLING = (
    b"\x00" * 8,
    b"\xff" * 8,
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"-1",
    b"1e999",
    b"(((((",
    b"../",
)


def mutated(content: bytes, seed: int) -> bytes:
    """Return `content` with one to six injuries; the same seed gives the same bytes."""
    rng = np.random.default_rng(seed)
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 7))):
        at = int(rng.integers(0, max(1, len(data))))
        length = int(rng.integers(1, 64))
        kind = int(rng.integers(0, 6))
        if kind == 0 and data:
            data[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1:
            del data[at : at + length]
        elif kind == 2:
            data[at:at] = data[at : at + length]
        elif kind == 3:
            data[at : at + length] = rng.bytes(length)
        elif kind == 4:
            word = _TELLING[int(rng.integers(0, len(_TELLING)))]
            data[at : at + len(word)] = word
        else:
            del data[at:]
    return bytes(data)
