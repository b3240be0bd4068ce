"""What each layer reads on calibration images: the mean and the second moments of the inputs that meet its
weights.

Knows how a layer's inputs are laid against its kernel. Knows nothing of rounding or bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import onnx
from numpy.typing import NDArray

from engine.deploy.calibration import Calibration
from engine.deploy.ranges import watching
from engine.family.quantize import channel_rows
from engine.teacher.kernels import GraphView, Slot, attribute, kernel_at, weight_slots
from engine.types import Floats, Kernel

IMAGES = 64
_POSITIONS = 196  # of a layer's output in one image that are taken, evenly spaced
_DAMPING = 0.01  # of the mean second moment, added to the diagonal: few images leave it singular
MOST_INPUTS = 4700  # a kernel that reads more would need gigabytes of second moments; it is left alone


@dataclass(eq=False)
class Layer:
    """A kernel, the node it is used in, and moments of what it reads, in the order of the kernel's own
    `channel_rows`: mean (groups, fan_in), second (groups, fan_in, fan_in).
    """

    kernel: Kernel
    node: onnx.NodeProto
    order: NDArray[np.int64]  # of the operator's inputs in the kernel's layout
    groups: int
    window: tuple[int, ...]  # the sides of a convolution's kernel
    mean: NDArray[np.float64] = field(init=False)
    second: NDArray[np.float32] = field(init=False)
    count: int = 0

    def __post_init__(self) -> None:
        fan_in = len(self.order)
        self.mean = np.zeros((self.groups, fan_in))
        self.second = np.zeros((self.groups, fan_in, fan_in), np.float32)

    @cached_property
    def factor(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The inputs by importance, most important first, and in that order the upper Cholesky factor of the
        inverse of the damped second moments, (groups, fan_in, fan_in).
        """
        order = np.argsort(-np.diagonal(self.second, axis1=1, axis2=2).mean(axis=0), kind="stable")
        ordered = self.second[:, order][:, :, order].astype(np.float64)
        n = ordered.shape[1]
        damping = np.maximum(_DAMPING * np.trace(ordered, axis1=1, axis2=2) / n, 1e-12)
        ordered += damping[:, None, None] * np.eye(n)
        inverse = np.linalg.inv(ordered)
        lower = np.linalg.cholesky((inverse + inverse.transpose(0, 2, 1)) / 2)
        # inverse = lower @ lower.T = U.T @ U, so the upper factor U is the transpose
        return order, np.ascontiguousarray(lower.transpose(0, 2, 1), np.float32)

    def add(self, values: Floats) -> None:
        """Take in what the node read for a batch of images."""
        seen = self._columns(values)[:, :, self.order]
        self.mean += seen.sum(axis=1, dtype=np.float64)
        self.second += seen.transpose(0, 2, 1) @ seen
        self.count += seen.shape[1]

    def _columns(self, values: Floats) -> NDArray[np.float32]:
        """Return the inputs as (groups, n, fan_in), in the operator's order."""
        if self.node.op_type != "Conv":
            return np.asarray(values, np.float32).reshape(1, -1, values.shape[-1])
        return _patches(values, self.node, self.groups, self.window)


def _patches(
    values: Floats, node: onnx.NodeProto, groups: int, window: tuple[int, ...]
) -> NDArray[np.float32]:
    """Return the windows a convolution sees at some positions: (groups, n * positions, fan_in)."""
    strides, dilations = (
        [int(v) for v in attribute(node, name, [1, 1])] for name in ("strides", "dilations")
    )
    reach = [d * (k - 1) + 1 for k, d in zip(window, dilations, strict=True)]
    padded = np.pad(values, ((0, 0), (0, 0), *_padding(node, values.shape[2:], reach, strides)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, tuple(reach), axis=(2, 3))
    seen = seen[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
    n, channels, height, width = seen.shape[:4]
    places = np.arange(height * width)[:: max(1, height * width // _POSITIONS)]
    taken = seen[:, :, places // width, places % width]  # (n, channels, positions, *window)
    taken = taken.reshape(n, groups, channels // groups, len(places), -1).transpose(1, 0, 3, 2, 4)
    return np.ascontiguousarray(taken, np.float32).reshape(groups, n * len(places), -1)


def _padding(
    node: onnx.NodeProto, size: tuple[int, ...], reach: list[int], strides: list[int]
) -> list[tuple[int, int]]:
    kind = attribute(node, "auto_pad", b"NOTSET").decode()
    if kind in ("NOTSET", "VALID"):
        pads = [0] * 4 if kind == "VALID" else [int(v) for v in attribute(node, "pads", [0] * 4)]
        return [(pads[0], pads[2]), (pads[1], pads[3])]
    total = [max(0, (-(-s // t) - 1) * t + r - s) for s, r, t in zip(size, reach, strides, strict=True)]
    return [(t - t // 2, t // 2) if kind == "SAME_LOWER" else (t // 2, t - t // 2) for t in total]


def collect_moments(calibration: Calibration) -> dict[str, Layer]:
    """Run some calibration images once and return the moments of every layer that can be laid out, by
    kernel.
    """
    model = onnx.ModelProto.FromString(calibration.teacher.graph)
    layers = {layer.kernel.name: layer for layer in _layers(model.graph)}
    values = list(dict.fromkeys(layer.node.input[0] for layer in layers.values()))
    session = watching(model, values)
    entry = session.get_inputs()[0].name
    inside = [value for value in values if value != entry]
    for start in range(0, min(IMAGES, len(calibration.images)), calibration.batch):
        rows = calibration.images[start : start + calibration.batch]
        seen = {entry: rows, **dict(zip(inside, session.run(inside, {entry: rows}), strict=True))}
        for layer in layers.values():
            layer.add(seen[layer.node.input[0]])
    for layer in layers.values():
        layer.mean /= max(layer.count, 1)
        layer.second /= np.float32(max(layer.count, 1))
    return layers


def _layers(graph: onnx.GraphProto) -> Iterator[Layer]:
    """Yield the layers whose weight is the second operand and only transposed on its way, used once."""
    view = GraphView(graph)
    slots = [(slot, kernel_at(view, slot)) for slot in weight_slots(view)]
    names = [kernel.name for _, kernel in slots if kernel is not None]
    for slot, kernel in slots:
        if kernel is None or names.count(kernel.name) > 1 or slot.index != 1:
            continue
        perms = _transposes(view, slot)
        if perms is None:
            continue
        shape = kernel.shape
        for perm in perms:
            shape = tuple(shape[axis] for axis in perm)
        order = _input_order(slot.node, kernel, shape, perms)
        if order is None or len(order) > MOST_INPUTS:
            continue
        is_conv = slot.node.op_type == "Conv"
        groups = int(attribute(slot.node, "group", 1)) if is_conv else 1
        yield Layer(kernel=kernel, node=slot.node, order=order, groups=groups, window=shape[2:])


def _transposes(view: GraphView, slot: Slot) -> list[tuple[int, ...]] | None:
    """Return the transposes between a stored weight and the operator, first one first; None if it is moved
    otherwise.
    """
    perms: list[tuple[int, ...]] = []
    value = slot.value
    while value not in view.initializers:
        move = view.producers[value]
        if move.op_type != "Transpose":
            return None
        perms.insert(0, tuple(attribute(move, "perm", ())))
        value = move.input[0]
    return perms


def _input_order(
    node: onnx.NodeProto, kernel: Kernel, shape: tuple[int, ...], perms: list[tuple[int, ...]]
) -> NDArray[np.int64] | None:
    """Return, for each input of a channel row of the kernel, its place among the operator's own, whose weight
    has `shape`; None if the layout is another.
    """
    places = _places(node, shape)
    if places is None:
        return None
    for perm in perms[::-1]:
        places = places.transpose(np.argsort(perm))
    rows = channel_rows(np.ascontiguousarray(places), kernel)
    return np.ascontiguousarray(rows[0]) if (rows == rows[0]).all() else None


def _places(node: onnx.NodeProto, shape: tuple[int, ...]) -> NDArray[np.int64] | None:
    """Return, in the operator's layout of the weight, which of its inputs each weight multiplies."""
    if node.op_type == "Conv":
        if len(shape) != 4:
            return None
        fan_in = int(np.prod(shape[1:]))
        return np.broadcast_to(np.arange(fan_in).reshape(shape[1:]), shape)
    transposed = node.op_type == "Gemm" and attribute(node, "transA", 0)
    if node.op_type not in ("Gemm", "MatMul") or len(shape) != 2 or transposed:
        return None
    if node.op_type == "Gemm" and attribute(node, "transB", 0):
        return np.broadcast_to(np.arange(shape[1]), shape)
    return np.broadcast_to(np.arange(shape[0])[:, None], shape)


def mean_shift(layer: Layer, change: Floats) -> NDArray[np.float64]:
    """Return the expected change of each output channel, (channels,), when the weights change by `change`."""
    rows = channel_rows(np.asarray(change, np.float64), layer.kernel)
    grouped = rows.reshape(layer.groups, -1, rows.shape[1])
    shift: NDArray[np.float64] = np.einsum("gok,gk->go", grouped, layer.mean).reshape(-1)
    return shift
