"""Bring an ONNX graph to the one form the engine works on: dynamic batch, recent opset, weights as plain
initializers.

Knows ONNX. Knows nothing of frameworks, preprocessing or what the model predicts.
"""

from __future__ import annotations

import math
from typing import Any

import onnx
from onnx import inliner, numpy_helper, version_converter

from engine.teacher.batch import open_reshapes
from engine.teacher.graph_bounds import every_node
from engine.teacher.kernels import GraphView, kernel_at, weight_slots
from engine.teacher.reason import reason
from engine.teacher.runtime import open_session, stored_values
from engine.types import UserError

# The first opset with 4-bit integers, which the exporter needs; torch also writes it.
OPSET = 21
IR_VERSION = 10
BATCH = "batch"
EFFECTIVE = ".effective"  # ends the name of a weight that the model computes from others
_RANDOM = (
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Multinomial",
    "Bernoulli",
)
_QUANTIZED = (
    "QuantizeLinear",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "QLinearConv",
    "QLinearMatMul",
    "ConvInteger",
    "MatMulInteger",
)


def normalize(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of `model` in normal form; its outputs are unchanged.

    Raises UserError if the graph is already quantized, has several inputs or outputs, or cannot be converted.
    """
    model = inliner.inline_local_functions(model) if model.functions else _copy(model)
    _refuse_quantized(model)
    _drop_stored_inputs(model.graph)
    _require_one_input_and_output(model.graph)
    model = _raise_opset(model)
    _store_constants(model.graph)
    _free_the_batch(model.graph)
    _materialize_weights(model)
    _drop_unused(model.graph)
    _drop_remarks(model.graph)
    refuse_random(model.graph)
    return model


def input_shape(graph: onnx.GraphProto) -> tuple[int | None, ...]:
    """The shape of the graph's one input; None where the graph leaves a size open."""
    return value_shape(graph.input[0])


def value_shape(value: onnx.ValueInfoProto) -> tuple[int | None, ...]:
    """The stated shape of a value; None where it is open, empty if nothing is stated."""
    dims = value.type.tensor_type.shape.dim
    return tuple(dim.dim_value if dim.HasField("dim_value") and dim.dim_value > 0 else None for dim in dims)


def weight_bytes(graph: onnx.GraphProto) -> int:
    """Bytes of all initializers at their stored width."""
    return sum(numpy_helper.to_array(tensor).nbytes for tensor in graph.initializer)


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    return copied


def _refuse_quantized(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        if node.op_type in _QUANTIZED or node.op_type.startswith("MatMulNBits"):
            raise UserError(
                f"the model is already quantized ({node.op_type} {node.name!r}). "
                "A teacher must be the float model: export it before quantization."
            )


def refuse_random(graph: onnx.GraphProto) -> None:
    """Judging needs one answer per image. Drawing may be too rare to show when the model is run twice."""
    for node in every_node(graph.node):
        if node.op_type in _RANDOM:
            raise UserError(
                f"the model draws random numbers ({node.op_type} {node.name!r}); judging needs one answer per"
                " image.",
                "Export it for inference, without random operators.",
            )


def _drop_stored_inputs(graph: onnx.GraphProto) -> None:
    """Old files list every initializer among the inputs as well, which makes it overridable and hides the
    real input.
    """
    stored = {tensor.name for tensor in graph.initializer}
    kept = [value for value in graph.input if value.name not in stored]
    del graph.input[:]
    graph.input.extend(kept)


def _require_one_input_and_output(graph: onnx.GraphProto) -> None:
    for what, values in (("input", graph.input), ("output", graph.output)):
        if len(values) != 1:
            names = ", ".join(value.name[:40] for value in values[:5]) or "none"
            raise UserError(
                f"the model has {len(values)} {what}s ({names}); a teacher has one, "
                "images in and class scores out. Export the model with only that one."
            )


def _raise_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    version = next((item.version for item in model.opset_import if item.domain in ("", "ai.onnx")), 0)
    if version < OPSET:
        try:
            model = version_converter.convert_version(model, OPSET)
        except (RuntimeError, version_converter.ConvertError) as error:
            raise UserError(
                f"the graph uses opset {version} and cannot be converted to {OPSET} ({reason(error)}). "
                f"Export the model again with opset {OPSET} or newer."
            ) from error
    model.ir_version = max(model.ir_version, IR_VERSION)
    return model


def _store_constants(graph: onnx.GraphProto) -> None:
    """Turn Constant nodes that hold a tensor into initializers, so that a weight is found wherever the
    exporter put it.
    """
    kept = []
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            tensor = node.attribute[0].t
            tensor.name = node.output[0]
            graph.initializer.append(tensor)
        else:
            kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)


def _free_the_batch(graph: onnx.GraphProto) -> None:
    """Give input and output the same open batch size. Whether the graph keeps the promise is checked by
    running it.
    """
    fixed = input_shape(graph)[:1]
    if fixed and fixed[0] is not None:
        open_reshapes(graph, fixed[0])
    for value in (graph.input[0], graph.output[0]):
        dims = value.type.tensor_type.shape.dim
        if dims:
            dims[0].Clear()
            dims[0].dim_param = BATCH
    # Inferred shapes may carry the old batch size, and onnxruntime infers its own.
    del graph.value_info[:]


def _materialize_weights(model: onnx.ModelProto) -> None:
    """Replace weights that the graph computes from stored values alone by their value.

    Weight standardisation, weight norm, slices of a packed attention matrix and float16 storage all end in a
    fixed tensor; that tensor is what a deployed model multiplies with, hence what is quantized.
    """
    view = GraphView(model.graph)
    slots = [
        slot
        for slot in weight_slots(view)
        if slot.value not in view.initializers and kernel_at(view, slot) is None
    ]
    values = list(dict.fromkeys(slot.value for slot in slots))
    if not values:
        return
    names: dict[str, str] = {}
    for value, array in zip(values, _evaluate(model, values), strict=True):
        base = f"{_main_weight(view, value)}{EFFECTIVE}"
        taken = len([name for name in names.values() if name.startswith(base)])
        names[value] = f"{base}{taken + 1}" if taken else base
        model.graph.initializer.append(numpy_helper.from_array(array, names[value]))
    for slot in slots:
        slot.node.input[slot.index] = names[slot.value]


def _evaluate(model: onnx.ModelProto, values: list[str]) -> list[Any]:
    """The given values of the graph, which must depend on stored tensors only."""
    probe = _copy(model)
    del probe.graph.output[:], probe.graph.input[:]
    probe.graph.output.extend(onnx.helper.make_empty_tensor_value_info(value) for value in values)
    _drop_unused(probe.graph)
    return stored_values(open_session(probe.SerializeToString()))


def _main_weight(view: GraphView, value: str) -> str:
    """The largest stored tensor that `value` is computed from: its name is the one a user knows."""
    pending, stored = [value], []
    while pending:
        name = pending.pop()
        if name in view.initializers:
            stored.append(name)
        elif name in view.producers:
            pending.extend(view.producers[name].input)
    return max(stored, key=lambda name: math.prod(view.initializers[name].dims), default=value)


def _used_by(node: onnx.NodeProto) -> set[str]:
    """Every value a node reads, those read inside its bodies included."""
    names = set(node.input)
    for item in node.attribute:
        for body in [item.g, *item.graphs] if item.HasField("g") else item.graphs:
            for inner in body.node:
                names |= _used_by(inner)
            names |= {value.name for value in body.output}
    return names


def _drop_unused(graph: onnx.GraphProto) -> None:
    """Remove nodes and initializers that the output does not depend on."""
    needed = {value.name for value in graph.output}
    for index in range(len(graph.node) - 1, -1, -1):
        if needed.isdisjoint(graph.node[index].output):
            del graph.node[index]
        else:
            needed |= _used_by(graph.node[index])
    for index in range(len(graph.initializer) - 1, -1, -1):
        if graph.initializer[index].name not in needed:
            del graph.initializer[index]


def _drop_remarks(graph: onnx.GraphProto) -> None:
    """Remove the exporter's notes on each node: its stack traces carry paths of the user's machine, and can
    outweigh a small model.
    """
    for node in graph.node:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
        for item in node.attribute:
            for body in [item.g, *item.graphs] if item.HasField("g") else item.graphs:
                _drop_remarks(body)
