"""Write a folded graph with integer weights and activations: QuantizeLinear and DequantizeLinear around every
node that onnxruntime then runs on integers.

Knows ONNX and 8-bit codes. Where ranges come from and which nodes are meant is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from engine.deploy.integer_plan import IntegerPlan
from engine.deploy.ranges import Range
from engine.teacher.kernels import attribute
from engine.types import Floats

_LEVELS = 255
_TOP = 127

# codes and scales of a model's weights by name, axis, whether each channel has its scale, and `pairs`
KnownCodes = dict[tuple[str, int, bool, bool], tuple[NDArray[np.int8], NDArray[np.float32]]]


@dataclass(frozen=True)
class Affine:
    """number = scale * (code - zero), codes 0 to 255."""

    scale: np.float32
    zero: int

    @classmethod
    def of(cls, r: Range) -> Affine:
        """Spread the codes over a range; a dead one (always zero) gets scale 1."""
        scale = np.float32((r.high - r.low) / _LEVELS)
        if not scale > 0:
            return cls(np.float32(1), 0)
        return cls(scale, int(np.clip(np.rint(-r.low / scale), 0, _LEVELS)))


def integer_graph(
    model: onnx.ModelProto,
    plan: IntegerPlan,
    ranges: Mapping[str, Range],
    *,
    per_channel: bool,
    known: KnownCodes | None = None,
) -> onnx.ModelProto:
    """Return the model with every planned node between integers. `ranges` has one entry for each of
    `plan.measured`; `known` keeps the codes of weights for the model's next candidate.
    """
    writer = _Writer(model.graph, plan, ranges, per_channel, {} if known is None else known)
    made = onnx.ModelProto()
    made.CopyFrom(model)
    writer.write(made.graph)
    return made


class _Writer:
    def __init__(
        self,
        graph: onnx.GraphProto,
        plan: IntegerPlan,
        ranges: Mapping[str, Range],
        per_channel: bool,
        known: KnownCodes,
    ) -> None:
        self.graph, self.plan, self.per_channel, self.known = graph, plan, per_channel, known
        self.affine = {value: Affine.of(ranges[origin]) for value, origin in plan.ranged.items()}
        self.stored = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        self.initializers: dict[str, onnx.TensorProto] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.outputs = {item.name for item in graph.output}

    def write(self, target: onnx.GraphProto) -> None:
        """Fill the target, a copy of the graph, with the new nodes and weights."""
        for item in self.graph.input:
            self._round_trip(item.name, item.name)
        for index, node in enumerate(self.graph.node):
            self._copy(index, node)
        read = {name for node in self.nodes for name in node.input} | self.outputs
        kept = [tensor for tensor in self.graph.initializer if tensor.name in read]
        del target.node[:], target.initializer[:], target.value_info[:]
        target.node.extend(self.nodes)
        target.initializer.extend([*kept, *self.initializers.values()])

    def _copy(self, index: int, node: onnx.NodeProto) -> None:
        new = onnx.NodeProto()
        new.CopyFrom(node)
        new.name = ""  # the values have names enough, and a small file has no room for both
        for place, name in enumerate(node.input):
            new.input[place] = self._read(name)
        if index in self.plan.kernels:
            self._quantize_layer(node, new)
        for place, name in enumerate(node.output):
            if name in self.affine:
                new.output[place] = f"{name}:float"
        self.nodes.append(new)
        for name in node.output:
            self._round_trip(name, f"{name}:float")

    def _read(self, name: str) -> str:
        return f"{name}:value" if name in self.affine else name

    def _round_trip(self, name: str, source: str) -> None:
        """Put the value `name` through its codes: `source` -> codes -> `name:value`; a graph output keeps its
        name.
        """
        if name not in self.affine:
            return
        a = self.affine[name]
        self._constant(f"{name}:scale", np.asarray(a.scale, np.float32))
        self._constant(f"{name}:zero", np.asarray(a.zero, np.uint8))
        result = name if name in self.outputs else f"{name}:value"
        self._node("QuantizeLinear", [source, f"{name}:scale", f"{name}:zero"], f"{name}:codes")
        self._node("DequantizeLinear", [f"{name}:codes", f"{name}:scale", f"{name}:zero"], result)

    def _quantize_layer(self, node: onnx.NodeProto, new: onnx.NodeProto) -> None:
        """Replace the weight and the bias of a layer by integers; the bias has the scale its sum has."""
        name = node.input[1]
        axis = _channel_axis(node)
        pairs = not _is_depthwise(node, self.stored[name].shape)
        key = (name, axis, self.per_channel, pairs)
        if key not in self.known:
            self.known[key] = quantize_weight(
                self.stored[name], axis, per_channel=self.per_channel, pairs=pairs
            )
        codes, scales = self.known[key]
        new.input[1] = self._stored_integers(name, codes, scales, axis)
        if len(node.input) > 2 and node.input[2]:
            total = scales.astype(np.float64) * np.float64(self.affine[node.input[0]].scale)
            new.input[2] = self._stored_bias(node.input[2], node.output[0], total)

    def _stored_integers(
        self, name: str, codes: NDArray[np.int8], scales: NDArray[np.float32], axis: int
    ) -> str:
        value = f"{name}:value"
        if f"{name}:codes" not in self.initializers:
            self._constant(f"{name}:codes", codes)
            self._constant(f"{name}:scale", scales)
            axes: dict[str, Any] = {"axis": axis} if scales.ndim else {}
            inputs = [f"{name}:codes", f"{name}:scale"]
            if codes.ndim == 2:  # onnxruntime takes a product for an integer one only if the zero is stated
                self._constant(f"{name}:zero", np.zeros(scales.shape, np.int8))
                inputs.append(f"{name}:zero")
            self.nodes.append(helper.make_node("DequantizeLinear", inputs, [value], **axes))
        return value

    def _stored_bias(self, name: str, layer: str, scales: NDArray[np.float64]) -> str:
        """Store a bias as 32-bit integers; `layer` keeps biases apart that layers of other scales share."""
        key = f"{name}:{layer}"
        limit = 2**31 - 1
        scale = scales.astype(np.float32)
        codes = np.clip(np.rint(self.stored[name] / scale.astype(np.float64)), -limit, limit)
        self._constant(f"{key}:codes", codes.astype(np.int32))
        self._constant(f"{key}:scale", scale)
        axes: dict[str, Any] = {"axis": 0} if scale.ndim else {}
        inputs = [f"{key}:codes", f"{key}:scale"]
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{key}:value"], **axes))
        return f"{key}:value"

    def _constant(self, name: str, array: NDArray[np.generic]) -> None:
        self.initializers[name] = numpy_helper.from_array(np.asarray(array, order="C"), name)

    def _node(self, op: str, inputs: list[str], output: str) -> None:
        self.nodes.append(helper.make_node(op, inputs, [output]))


def _channel_axis(node: onnx.NodeProto) -> int:
    """The weight's axis of output channels."""
    if node.op_type == "Conv":
        return 0
    return 0 if node.op_type == "Gemm" and attribute(node, "transB", 0) else 1


def _is_depthwise(node: onnx.NodeProto, shape: tuple[int, ...]) -> bool:
    """Say whether each output channel reads one input channel only."""
    return node.op_type == "Conv" and shape[1] == 1 and int(attribute(node, "group", 1)) == shape[0]


def quantize_weight(
    weight: Floats, axis: int, *, per_channel: bool, pairs: bool
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return symmetric 8-bit codes and their scales: one along `axis`, or a single one (shape ()).

    Processors without VNNI (AVX2, AVX-512F) add two products of an unsigned and a signed byte in 16 bits, and
    cut a sum that does not fit. `pairs` chooses scales that leave no such sum: no two codes of one sign in an
    output channel add up to more than 128, since 255 * 128 fits. Without it the file would be one model on
    those processors and another one elsewhere. Depthwise kernels do not need it: their path does not cut.
    A channel of zeros keeps scale 1.
    """
    rows = np.moveaxis(np.asarray(weight, np.float64), axis, 0).reshape(weight.shape[axis], -1)
    exact = np.abs(rows).max(axis=1) / _TOP
    if pairs and rows.shape[1] > 1:
        exact = np.maximum(exact, np.maximum(_two_largest(rows), _two_largest(-rows)) / _TOP)
    if not per_channel:
        exact = exact.max(keepdims=True)
    exact = np.where(exact > np.finfo(np.float32).tiny, exact, 1.0)
    shape = [-1 if i == axis else 1 for i in range(weight.ndim)]
    codes = np.clip(np.rint(weight / exact.reshape(shape)), -_TOP, _TOP)
    return codes.astype(np.int8), np.asarray(exact if per_channel else exact[0], np.float32)


def _two_largest(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of the two largest entries of each row, those below zero counted as zero."""
    top: NDArray[np.float64] = np.maximum(np.partition(rows, -2, axis=1)[:, -2:], 0.0).sum(axis=1)
    return top


def n_integer_bytes(model: onnx.ModelProto) -> int:
    """Return the bytes of all stored numbers: what the weights take in the file."""
    return sum(
        len(t.raw_data) if t.HasField("raw_data") else numpy_helper.to_array(t).nbytes
        for t in model.graph.initializer
        if t.data_type != TensorProto.STRING
    )
