"""What a predictions file may say about deploying its candidates: times beside the float teacher, and bits
per layer of mixed ones.

Knows the checks of these arrays. Knows nothing of how they were measured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.types import Floats, UserError


def check_times(name: str, values: Any, n_candidates: int) -> Floats | None:
    """Return (M,) times relative to the float teacher, nan where not measured; raise UserError if they are
    none.
    """
    if values is None:
        return None
    array = np.asarray(values)
    if array.shape != (n_candidates,) or not np.issubdtype(array.dtype, np.number):
        raise UserError(
            f"{name} must be {n_candidates} numbers, got shape {array.shape} of {array.dtype}.",
            "Give the time per image relative to the float teacher, one per candidate, nan if unknown.",
        )
    times = array.astype(np.float64)
    if np.isinf(times).any() or (times < 0).any():
        raise UserError(
            f"{name} has a negative or infinite entry.", "Give e.g. 0.7 for 70 % of the float teacher's time."
        )
    return times


def check_allocation(text: Any) -> str | None:
    """Return the JSON text of bits per layer by candidate, checked; raise UserError if it is something
    else.
    """
    if text is None:
        return None
    value = str(np.asarray(text).reshape(()))
    try:
        read_allocation(value)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise UserError(
            "allocation is not JSON of candidates with bits per layer.",
            'Write it like {"mix-0.14": {"conv1.weight": 4}}.',
        ) from None
    return value


def read_allocation(text: str | None) -> Mapping[str, Mapping[str, int]]:
    """Return the bits per layer of every mixed candidate; raise ValueError if they are not whole numbers from
    1 to 32.
    """
    found = {} if text is None else json.loads(text)
    for bits in found.values():
        if not all(type(width) is int and 1 <= width <= 32 for width in bits.values()):
            raise ValueError("bits")
    return {str(name): {str(layer): width for layer, width in bits.items()} for name, bits in found.items()}
