"""What each layer reads on calibration images: the mean and the second moments of the inputs that meet its
weights.

Knows how a layer's inputs are laid against its kernel. Knows nothing of rounding or bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np
import onnx
from numpy.typing import NDArray

from engine.deploy.calibration import Calibration
from engine.deploy.ranges import check_finite, watching
from engine.family.quantize import channel_rows
from engine.teacher.kernels import GraphView, Way, attribute, kernel_at, way_to, weight_slots
from engine.types import Floats, Kernel

IMAGES = 64
# rows that enter second moments for each input of a layer, and at least: they settle by then
_ROWS, _FEWEST_ROWS = 8, 2048
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
    n_images: int = IMAGES  # that will be taken in
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
        return order, np.stack([_inverse_factor(one) for one in ordered])

    def add(self, values: Floats) -> None:
        """Take in what the node read for a batch of images: all of it for the mean, as many places of each
        image as they need for the second moments.
        """
        most = -(-max(_ROWS * len(self.order), _FEWEST_ROWS) // self.n_images)
        seen = self._windows(np.asarray(values, np.float32))  # (n, groups, inputs, height, width, *window)
        n, groups, _, height, width, *window = seen.shape
        sides = [range(side) for side in window]
        sums = [seen[..., y, x].sum(axis=(0, 3, 4), dtype=np.float64) for y, x in product(*sides)]
        self.mean += np.stack(sums, axis=2).reshape(groups, -1)[:, self.order] / (height * width)
        places = _some(height * width, most)
        taken = seen[:, :, :, places // width, places % width].transpose(1, 0, 3, 2, 4, 5)
        columns = np.ascontiguousarray(taken).reshape(groups, n * len(places), -1)[:, :, self.order]
        for group, rows in enumerate(columns):
            self.second[group] += rows.T @ rows / np.float32(len(places))
        self.count += n

    def _windows(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return what meets the weights: a view (n, groups, inputs, height, width, *window)."""
        if self.node.op_type == "Conv":
            return _windows(values, self.node, self.groups, self.window)
        tokens = values.reshape(len(values), -1, values.shape[-1])
        return tokens.transpose(0, 2, 1)[:, None, :, None, :, None, None]


def _inverse_factor(matrix: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the upper triangular U with U.T @ U = the inverse of a positive definite matrix."""
    from scipy.linalg.lapack import dtrtri  # takes long to load, and only corrected rounding comes here

    # turned round, its lower factor becomes A with A @ A.T = matrix and A upper: U is the inverse of A
    turned = np.linalg.cholesky(matrix[::-1, ::-1])[::-1, ::-1]
    inverse, problem = dtrtri(turned, lower=0)
    assert problem == 0  # damping keeps the diagonal above zero
    return np.ascontiguousarray(inverse, np.float32)


def _some(n: int, most: int) -> NDArray[np.int64]:
    """Return at most so many of n places, seeded: evenly spaced ones could all lie in one column."""
    return np.sort(np.random.default_rng(0).permutation(n)[:most])


def _windows(
    values: NDArray[np.float32], node: onnx.NodeProto, groups: int, window: tuple[int, ...]
) -> NDArray[np.float32]:
    strides, dilations = (
        [int(v) for v in attribute(node, name, [1, 1])] for name in ("strides", "dilations")
    )
    reach = [d * (k - 1) + 1 for k, d in zip(window, dilations, strict=True)]
    padded = np.pad(values, ((0, 0), (0, 0), *_padding(node, values.shape[2:], reach, strides)))
    grouped = padded.reshape(len(padded), groups, -1, *padded.shape[2:])
    seen = np.lib.stride_tricks.sliding_window_view(grouped, tuple(reach), axis=(3, 4))
    return seen[..., :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]


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
    kernel. Raises UserError if one of them reads nan or infinity.
    """
    model = onnx.ModelProto.FromString(calibration.teacher.graph)
    layers = {layer.kernel.name: layer for layer in _layers(model.graph)}
    values = list(dict.fromkeys(layer.node.input[0] for layer in layers.values()))
    run, entry = watching(model, values), model.graph.input[0].name
    inside = [value for value in values if value != entry]
    n = min(IMAGES, len(calibration.images))
    for layer in layers.values():
        layer.n_images = n
    for start in range(0, n, calibration.batch):
        rows = calibration.images[start : min(n, start + calibration.batch)]
        seen = {entry: rows, **dict(zip(inside, run(inside, rows), strict=True))}
        for value in values:
            check_finite(seen[value], value, start)
        for layer in layers.values():
            layer.add(seen[layer.node.input[0]])
    for layer in layers.values():
        layer.mean /= max(layer.count, 1)
        layer.second /= np.float32(max(layer.count, 1))
    return layers


def _layers(graph: onnx.GraphProto) -> Iterator[Layer]:
    """Yield the layers whose weight is the second operand, only moved on its way and used once."""
    view = GraphView(graph)
    slots = [(slot, kernel_at(view, slot)) for slot in weight_slots(view)]
    names = [kernel.name for _, kernel in slots if kernel is not None]
    for slot, kernel in slots:
        if kernel is None or names.count(kernel.name) > 1 or slot.index != 1:
            continue
        way = way_to(view, slot)
        assert way is not None  # there is a kernel
        order = _input_order(slot.node, kernel, way)
        if order is None or len(order) > MOST_INPUTS:
            continue
        is_conv = slot.node.op_type == "Conv"
        groups = int(attribute(slot.node, "group", 1)) if is_conv else 1
        yield Layer(kernel=kernel, node=slot.node, order=order, groups=groups, window=way.shapes[-1][2:])


def _input_order(node: onnx.NodeProto, kernel: Kernel, way: Way) -> NDArray[np.int64] | None:
    """Return, for each input of a channel row of the kernel, its place among the operator's own; None if the
    layout is another, or channels lie in another order than the operator has them.
    """
    places = _places(node, way.shapes[-1])
    if places is None:
        return None
    inputs, outputs = (
        channel_rows(np.ascontiguousarray(way.back(array)), kernel)
        for array in (places.inputs, places.outputs)
    )
    if (outputs != np.arange(len(outputs))[:, None]).any() or (inputs != inputs[0]).any():
        return None
    return np.ascontiguousarray(inputs[0])


@dataclass(frozen=True, eq=False)
class _Places:
    """In the operator's layout of the weight: which input each weight multiplies, for which output."""

    inputs: NDArray[np.int64]
    outputs: NDArray[np.int64]


def _places(node: onnx.NodeProto, shape: tuple[int, ...]) -> _Places | None:
    if node.op_type == "Conv":
        if len(shape) != 4:
            return None
        inputs = np.arange(int(np.prod(shape[1:]))).reshape(shape[1:])
        outputs = np.arange(shape[0]).reshape(-1, 1, 1, 1)
        return _Places(np.broadcast_to(inputs, shape), np.broadcast_to(outputs, shape))
    transposed = node.op_type == "Gemm" and attribute(node, "transA", 0)
    if node.op_type not in ("Gemm", "MatMul") or len(shape) != 2 or transposed:
        return None
    rows, columns = (np.broadcast_to(a, shape) for a in np.ogrid[: shape[0], : shape[1]])
    flipped = node.op_type == "Gemm" and attribute(node, "transB", 0)
    return _Places(columns, rows) if flipped else _Places(rows, columns)


def mean_shift(layer: Layer, change: Floats) -> NDArray[np.float64]:
    """Return the expected change of each output channel, (channels,), when the weights change by `change`."""
    rows = channel_rows(np.asarray(change, np.float64), layer.kernel)
    grouped = rows.reshape(layer.groups, -1, rows.shape[1])
    shift: NDArray[np.float64] = np.einsum("gok,gk->go", grouped, layer.mean).reshape(-1)
    return shift
