"""Run a graph in onnxruntime, turning its failures into sentences.

Knows onnxruntime. Knows nothing of what the graph is for.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from engine.teacher.reason import reason
from engine.types import Floats, UserError

# What onnxruntime raises for a graph it cannot load or run: its own errors, which have no common base class,
# and Python's for what its C++ side reports in passing (UnicodeDecodeError: a message quotes a damaged name).
FAILURES: tuple[type[Exception], ...] = (
    *(
        item
        for item in vars(ort.capi.onnxruntime_pybind11_state).values()
        if isinstance(item, type) and issubclass(item, Exception)
    ),
    RuntimeError,
    ValueError,
)
# what onnxruntime says when it cannot have the memory a graph asks for
_NO_MEMORY = re.compile(r"bad_alloc|bad allocation|allocate memory|Memory limit|exceeds? max|overflow", re.I)
_FAILED_NODE = re.compile(r"running (\w+) node\. Name:'([^']*)'")


def open_session(graph: bytes, *, optimised: bool = True) -> Any:
    """A one-thread onnxruntime session on `graph`, with its operators fused or as they are written.

    Raises UserError with the runtime's reason.
    """
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"], enable_fallback=0)
    except FAILURES as error:
        raise UserError(
            f"onnxruntime cannot run the model: {_reason(error)}. Export it with standard ONNX operators."
        ) from error


def run(session: Any, images: NDArray[np.float32]) -> Floats:
    """The graph's output for a batch, or UserError with the operator that failed."""
    try:
        outputs: Floats = np.asarray(session.run(None, {session.get_inputs()[0].name: images})[0])
    except FAILURES as error:
        if what := excess(error):
            raise UserError(
                f"the model asks for {what} on {len(images)} images of shape {images.shape[1:]}.",
                "Give a smaller model; the host's limit is set by ANCHORPOINT_IMPORT_MEMORY_GB.",
            ) from error
        raise UserError(
            f"the model fails on {len(images)} images of shape {images.shape[1:]}: {_reason(error)}. "
            "Export it with a dynamic batch size, and check the input size."
        ) from error
    return outputs


def excess(error: Exception) -> str:
    """What a graph asked for that it may not have, in words, with the operator that did; empty if it failed
    for another reason.
    """
    if not _NO_MEMORY.search(str(error)):
        return ""
    failed = _FAILED_NODE.search(str(error))
    name = f" {failed[2]!r}" if failed and failed[2] else ""
    operator = f" (its operator {failed[1]}{name})" if failed else ""
    return f"more memory than it may have{operator}"


def stored_values(session: Any) -> list[NDArray[Any]]:
    """All outputs of a graph without inputs, or UserError with the operator that failed."""
    try:
        return list(session.run(None, {}))
    except FAILURES as error:
        raise UserError(
            f"the model computes a weight that onnxruntime cannot evaluate: {_reason(error)}. Export it with"
            " plain weights."
        ) from error


def _reason(error: Exception) -> str:
    if failed := _FAILED_NODE.search(str(error)):
        return f"its operator {failed[1]} {failed[2]!r} does not fit them"
    return reason(error)
