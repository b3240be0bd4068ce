"""Count the bytes of an exported file: weights by data type, what they had to be, and what theory says.

Knows ONNX initializers and recipes. Knows nothing of runtimes.
"""

from __future__ import annotations

from collections import Counter

import onnx
from onnx import TensorProto

from engine.exports.certificate import Check, Sizes
from engine.exports.graph import SHAPE_PREFIX, container_bits, float_model
from engine.family.cost import weight_bytes
from engine.family.quantize import n_scales
from engine.family.weights import quantized_kernels
from engine.types import Recipe, Teacher

TOLERANCE = 0.02  # of the bytes that containers, scales and float parts need


def measure_sizes(teacher: Teacher, recipe: Recipe, content: bytes, max_opset: int) -> Sizes:
    """Return the sizes of the exported bytes beside those of the float teacher, needed and theoretical."""
    by_type = bytes_by_type(content)
    return Sizes(
        file=len(content),
        float_file=len(float_model(teacher)),
        weights=sum(by_type.values()),
        float_weights=teacher.float_bytes,
        needed=needed_bytes(teacher, recipe, container_bits(recipe.bits, max_opset)),
        theory=weight_bytes(teacher, recipe),
        by_type=by_type,
    )


def needed_bytes(teacher: Teacher, recipe: Recipe, width: int) -> int:
    """Return what the weights must take: codes in containers of `width` bits, scales, zero points, and the
    rest as stored.
    """
    total = teacher.float_bytes
    for kernel in quantized_kernels(teacher, recipe):
        scales = n_scales(kernel, recipe.granularity)
        total += (
            _packed(kernel.size, width)
            + 4 * scales
            + _packed(scales, width)
            - teacher.weights[kernel.name].nbytes
        )
    return total


def check_sizes(sizes: Sizes) -> Check:
    """Check that the weights on disk take what they need, within 2 %."""
    excess = sizes.weights / sizes.needed - 1
    sentence = (
        f"The weights take {sizes.weights:,} bytes; integers, scales and float parts need {sizes.needed:,}"
        f" ({100 * excess:+.2f} %). At their true bit width they would take {sizes.theory:,.0f}."
    )
    return Check(
        name="weights on disk",
        passed=abs(excess) < TOLERANCE,
        value=excess,
        limit=TOLERANCE,
        sentence=sentence,
    )


def bytes_by_type(content: bytes) -> dict[str, int]:
    """Return the bytes of a file's weights by ONNX data type."""
    counted: Counter[str] = Counter()
    for tensor in onnx.ModelProto.FromString(content).graph.initializer:
        if tensor.name.startswith(SHAPE_PREFIX):
            continue  # the shapes that codes are brought back to describe the graph, like its nodes
        counted[TensorProto.DataType.Name(tensor.data_type)] += (
            len(tensor.raw_data) if tensor.HasField("raw_data") else tensor.ByteSize()
        )
    return dict(sorted(counted.items()))


def _packed(count: int, width: int) -> int:
    return -(-count * width // 8)
