"""The teacher as deployment toolchains see it: BatchNorm folded into the kernels, constants computed.

Knows how onnxruntime simplifies a graph. Knows nothing of quantization or images.
"""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path

import onnx
import onnxruntime as ort

from engine.types import Teacher

_CACHED_BYTES = 1 << 28  # a larger teacher is folded again instead of kept


def folded_model(teacher: Teacher) -> onnx.ModelProto:
    """Return the teacher's graph with BatchNorm folded and constants computed, in plain ONNX operators."""
    found = _cached(teacher.graph) if len(teacher.graph) < _CACHED_BYTES else _fold(teacher.graph)
    model: onnx.ModelProto = onnx.ModelProto.FromString(found)
    return model


@lru_cache(maxsize=2)
def _cached(graph: bytes) -> bytes:
    return _fold(graph)


def _fold(graph: bytes) -> bytes:
    # the basic level rewrites with standard operators only; the levels above are for one processor
    return optimized(graph, ort.GraphOptimizationLevel.ORT_ENABLE_BASIC)


def optimized(graph: bytes, level: ort.GraphOptimizationLevel) -> bytes:
    """Return the graph as onnxruntime rewrites it at this level before it runs it."""
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        options.optimized_model_filepath = str(path)
        ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        return path.read_bytes()
