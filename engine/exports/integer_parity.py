"""Checks of a file that computes on integers: repeated here exactly, elsewhere up to the rounding of a code.

Knows what integer kernels may and may not change. Packed weights alone are `parity`'s.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from numpy.typing import NDArray

from engine.exports.certificate import Check
from engine.exports.parity import (
    AS_ANYBODY,
    LIMIT,
    ONE_THREAD,
    Comparison,
    argmax_check,
    batch_check,
    difference_check,
    run_file,
)
from engine.teacher.apart import Way

# of a probability: where one code falls to the other side of a tie, a surer class may move by percents
LARGEST_INTEGER_LIMIT = 0.1


def has_integer_activations(content: bytes) -> bool:
    """Say whether the file quantizes what it computes, not only its weights."""
    graph = onnx.ModelProto.FromString(content).graph
    return any(node.op_type == "QuantizeLinear" for node in graph.node)


def integer_limit(content: bytes, images: NDArray[np.float32], output: str) -> float:
    """Return how far another processor's answers may be: twice as far as the plain definition of the
    operators is from the integer kernels here, at least 1e-5, at most 0.1.
    """
    return max(LIMIT, min(2 * _definition_gap(content, images, output), LARGEST_INTEGER_LIMIT))


def _definition_gap(content: bytes, images: NDArray[np.float32], output: str) -> float:
    here, plain = (run_file(content, images, output, Way(level)) for level in ("all", "disabled"))
    return float(np.abs(here - plain).max())


def integer_checks(content: bytes, comparison: Comparison) -> Iterator[Check]:
    """Yield the checks of the two ways that run integer kernels, then classes and batch sizes."""
    ways = {
        "onnxruntime, integer kernels": ONE_THREAD,
        "onnxruntime, default options": AS_ANYBODY,
    }
    probs = comparison.judged
    for name, way in ways.items():
        probs = run_file(content, comparison.images, comparison.output, way)
        yield difference_check(name, probs, comparison.judged, comparison.limit)
    yield argmax_check(probs, comparison.judged, comparison.limit)
    yield batch_check(content, comparison)


def check_definition(content: bytes, comparison: Comparison) -> Check:
    """Measure, without judging, how far the plain definition of the operators is from the integer kernels."""
    gap = _definition_gap(content, comparison.images, comparison.output)
    sentence = (
        f"Without integer kernels, probabilities differ by at most {gap:.1e}: codes that lie on a tie round"
        " the other way. Other processors stay within twice that."
    )
    return Check(name="plain definition", passed=True, value=gap, limit=None, sentence=sentence)
