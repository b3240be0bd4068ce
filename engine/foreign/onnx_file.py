"""Look into an ONNX file of any kind: what it takes, what it returns, and how it was quantized.

Knows ONNX graphs and the operators of onnxruntime. Runs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from engine.teacher.graph import model_facts
from engine.teacher.graph_bounds import every_node, require_batch, require_bounded
from engine.teacher.importers.onnx import parse
from engine.teacher.kernels import GraphView
from engine.teacher.normal_form import refuse_random, value_shape
from engine.teacher.outside_data import every_tensor, is_outside
from engine.types import UserError

# the standard's own, and those that every onnxruntime carries (MatMulNBits, QGemm, ...)
_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
_PASSING = ("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose")
_ROUNDING = ("QuantizeLinear", "DequantizeLinear", "Cast")
# operators that return integers -> where their inputs hold the scale and the zero point of the result
_RESULT_SCALES = {
    "QuantizeLinear": (1, 2),
    "QLinearMatMul": (6, 7),
    "QLinearConv": (6, 7),
    "QGemm": (7, 8),
    "QLinearSoftmax": (3, 4),
    "QLinearAdd": (6, 7),
    "QLinearGlobalAveragePool": (3, 4),
}
# these take the range of a whole batch, so that an image's answer depends on its neighbours
_DYNAMIC = (
    "DynamicQuantizeLinear",
    "DynamicQuantizeMatMul",
    "MatMulIntegerToFloat",
    "DynamicQuantizeLSTM",
)
_ALONE = "Judged one image at a time: it takes the range of a whole batch, so neighbours change an answer."


@dataclass(frozen=True)
class Scale:
    """Integers as reals: value = (code - zero_point) * scale."""

    scale: float
    zero_point: int


@dataclass(frozen=True)
class Port:
    """An input or output of a file; None for an open size or an unknown scale."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str
    quantized: Scale | None = None
    after_softmax: bool = False  # nothing but rounding and reshaping stands between a softmax and this output


@dataclass(frozen=True, eq=False)
class Insides:
    """What a file says about itself."""

    taken: Port
    given: tuple[Port, ...]
    format: str
    alone: str  # why images go in one at a time; empty if batches do no harm
    stated: dict[str, Any]  # preprocessing that the file carries


def look_into(content: bytes) -> Insides:
    """Describe an ONNX file; raise UserError if it is damaged, reaches outside itself or is no one-input
    model.
    """
    model = parse(content, "it")
    require_bounded(model)
    _refuse_outside(model)
    refuse_random(model.graph)
    graph = model.graph
    view = GraphView(graph)
    stored = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in stored]
    if len(inputs) != 1:
        raise UserError(f"it takes {len(inputs)} inputs; a classifier of images takes one.")
    require_batch((value_shape(inputs[0]) or (None,))[0])
    operators = {node.op_type for node in every_node(graph.node)}
    return Insides(
        taken=_port(inputs[0], _input_scale(graph, inputs[0].name)),
        given=tuple(_given(graph, view, value) for value in graph.output),
        format=_format(graph, operators),
        alone="" if operators.isdisjoint(_DYNAMIC) else _ALONE,
        stated=_stated(model),
    )


def _refuse_outside(model: onnx.ModelProto) -> None:
    if any(map(is_outside, every_tensor(model))):
        raise UserError(
            "it keeps weights in a second file. Save it as one file: onnx.save(onnx.load(path), path)."
        )
    own = {function.domain for function in model.functions}
    nodes = [
        *every_node(model.graph.node),
        *(n for function in model.functions for n in every_node(function.node)),
    ]
    strange = next((node for node in nodes if node.domain not in (*_DOMAINS, *own)), None)
    if strange is not None:
        raise UserError(
            f"its operator {strange.op_type!r} of {strange.domain!r} is not one of onnxruntime's own. Custom"
            " operators are not loaded; export it with standard ones."
        )


def _port(value: onnx.ValueInfoProto, quantized: Scale | None) -> Port:
    element = value.type.tensor_type.elem_type
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(element)
    except KeyError:
        raise UserError(f"its {value.name!r} is no array of numbers.") from None
    return Port(
        name=value.name,
        shape=value_shape(value),
        dtype=str(dtype),
        quantized=quantized if dtype.kind in "iu" else None,
    )


def _given(graph: onnx.GraphProto, view: GraphView, value: onnx.ValueInfoProto) -> Port:
    port = _port(value, _output_scale(graph, view, value.name))
    last = _producer(view, value.name, (*_PASSING, *_ROUNDING))
    return replace(port, after_softmax=last is not None and last.op_type in ("Softmax", "QLinearSoftmax"))


def _producer(view: GraphView, name: str, passing: Sequence[str]) -> onnx.NodeProto | None:
    node = view.producers.get(name)
    while node is not None and node.op_type in passing:
        node = view.producers.get(node.input[0])
    return node


def _input_scale(graph: onnx.GraphProto, name: str) -> Scale | None:
    """The scale of an integer input that goes straight into a DequantizeLinear."""
    for node in graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] == name:
            return _scale(graph, list(node.input), 1, 2)
    return None


def _output_scale(graph: onnx.GraphProto, view: GraphView, name: str) -> Scale | None:
    node = _producer(view, name, _PASSING)
    if node is None or node.op_type not in _RESULT_SCALES:
        return None
    return _scale(graph, list(node.input), *_RESULT_SCALES[node.op_type])


def _scale(graph: onnx.GraphProto, inputs: list[str], scale: int, zero_point: int) -> Scale | None:
    stored = {tensor.name: tensor for tensor in graph.initializer}
    if len(inputs) <= scale or inputs[scale] not in stored:
        return None
    value = np.asarray(numpy_helper.to_array(stored[inputs[scale]]))
    offset = inputs[zero_point] if len(inputs) > zero_point else ""
    zero = np.asarray(numpy_helper.to_array(stored[offset])) if offset in stored else np.zeros(1, int)
    if value.size != 1 or zero.size != 1:
        return None
    return Scale(float(value.reshape(())), int(zero.reshape(())))


def _format(graph: onnx.GraphProto, operators: set[str]) -> str:
    if any(name.startswith("MatMulNBits") for name in operators):
        return "ONNX, weights in blocks of few bits (MatMulNBits)"
    if not operators.isdisjoint((*_DYNAMIC, "MatMulInteger", "ConvInteger")):
        return "ONNX, dynamic quantization"
    if any(name.startswith("QLinear") or name == "QGemm" for name in operators):
        return "ONNX, integer operators (QOperator)"
    if "QuantizeLinear" in operators:
        return "ONNX, weights and activations quantized (QDQ)"
    if "DequantizeLinear" in operators:
        return "ONNX, packed weights"
    kinds = {tensor.data_type for tensor in graph.initializer if len(tensor.dims) > 1}
    return "ONNX, float16" if onnx.TensorProto.FLOAT16 in kinds else "ONNX, float"


def _stated(model: onnx.ModelProto) -> dict[str, Any]:
    """The preprocessing that a file written by this project carries."""
    try:
        stated = json.loads(model_facts(model).get("preprocessing", "{}"))
    except ValueError:
        return {}
    return stated if isinstance(stated, dict) else {}
