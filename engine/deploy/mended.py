"""Weight-only candidates mended with calibration images: biases that give each channel its expected output
back, or rounding that looks at what a layer reads.

Knows where a channel's constant lies in a graph. Knows nothing of labels.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from engine.deploy.calibration import Calibration
from engine.deploy.mixed import MixedFactory, fixed_bytes
from engine.deploy.moments import Layer, collect_moments, mean_shift
from engine.deploy.rounding import optimised
from engine.deploy.tailored import TailoredModel
from engine.exports.graph import pack_kernels
from engine.family.cost import weight_bytes
from engine.family.kinds import CorrectedRecipe, MixedRecipe
from engine.family.quantize import Quantized, dequantize
from engine.family.weights import quantized_kernels, quantized_weights
from engine.types import Teacher


@dataclass(eq=False)
class MendingFactory:
    """Makes the corrected candidates of one teacher; what layers read is collected once."""

    calibration: Calibration
    mixed: MixedFactory

    @cached_property
    def layers(self) -> dict[str, Layer]:
        """The moments of every layer's inputs."""
        return collect_moments(self.calibration)

    def make(self, recipe: CorrectedRecipe | MixedRecipe) -> TailoredModel:
        """Build one candidate's file."""
        if isinstance(recipe, MixedRecipe):
            return self._mixed(recipe)
        if recipe.correction == "bc":
            return self._shifted(recipe)
        kernels = {kernel.name for kernel in quantized_kernels(self.teacher, recipe.recipe)}
        plain = quantized_weights(self.teacher, recipe.recipe)
        bits = dict.fromkeys(kernels, recipe.recipe.bits)
        return self._packed(recipe, self._rounded(bits, plain), weight_bytes(self.teacher, recipe.recipe))

    @property
    def teacher(self) -> Teacher:
        return self.calibration.teacher

    def _rounded(self, bits: dict[str, int], plain: dict[str, Quantized]) -> dict[str, Quantized]:
        """Round each layer with its second moments; one that could not be laid out stays as it is."""
        return {
            name: (
                optimised(self.teacher.weights[name], self.layers[name], width)
                if name in self.layers
                else plain[name]
            )
            for name, width in bits.items()
        }

    def _mixed(self, recipe: MixedRecipe) -> TailoredModel:
        bits = self.mixed.bits(recipe)
        made = self._rounded(bits, self.mixed.quantized(bits))
        model = self._packed(recipe, made, fixed_bytes(self.teacher) + self.mixed.n_bytes(bits))
        return TailoredModel(
            recipe=recipe,
            content=model.content,
            weight_bytes=model.weight_bytes,
            facts={**model.facts, "allocation": bits},
            notes=model.notes,
        )

    def _packed(
        self, recipe: CorrectedRecipe | MixedRecipe, made: dict[str, Quantized], n_bytes: float
    ) -> TailoredModel:
        model = pack_kernels(self.teacher, made, recipe.slug)
        done = sum(name in self.layers for name in made)
        note = f"{done} of {len(made)} layers were rounded with what they read on calibration images."
        return self._tailored(recipe, model, n_bytes, note)

    def _tailored(
        self, recipe: CorrectedRecipe | MixedRecipe, model: onnx.ModelProto, n_bytes: float, note: str
    ) -> TailoredModel:
        facts = {"calibration_images": list(self.calibration.digests)}
        return TailoredModel(
            recipe=recipe,
            content=model.SerializeToString(deterministic=True),
            weight_bytes=n_bytes,
            facts=facts,
            notes=(note,),
        )

    def _shifted(self, recipe: CorrectedRecipe) -> TailoredModel:
        """Fold each channel's expected loss of output into the constant that follows the layer."""
        made = quantized_weights(self.teacher, recipe.recipe)
        graph = onnx.ModelProto.FromString(self.teacher.graph).graph
        places = constants_behind(graph)
        changed: dict[str, NDArray[np.float32]] = {}
        for name, quantized in made.items():
            layer = self.layers.get(name)
            place = None if layer is None else places.get(layer.node.output[0])
            if layer is None or place is None:
                continue
            lost = mean_shift(layer, self.teacher.weights[name] - dequantize(quantized))
            changed[place.name] = (place.values + place.sign * lost).astype(np.float32)
        model = pack_kernels(self.teacher, made, recipe.slug)
        for tensor in model.graph.initializer:
            if tensor.name in changed:
                tensor.CopyFrom(numpy_helper.from_array(changed[tensor.name], tensor.name))
        note = f"The biases of {len(changed)} of {len(made)} layers were corrected on calibration images."
        return self._tailored(recipe, model, weight_bytes(self.teacher, recipe.recipe), note)


@dataclass(frozen=True, eq=False)
class Constant:
    """A stored number per channel that is added to a layer's output (sign 1) or taken from it (sign -1)."""

    name: str
    values: NDArray[np.float32]
    sign: int


def constants_behind(graph: onnx.GraphProto) -> dict[str, Constant]:
    """Return, by a layer's output, the constant of its own that can take a shift up: its bias, the mean of
    the BatchNorm behind it, or what is added next. A constant that several nodes read is left alone.
    """
    stored = {tensor.name: tensor for tensor in graph.initializer}
    reads: Counter[str] = Counter(name for node in graph.node for name in node.input)
    found: dict[str, Constant] = {}
    producers = {name: node for node in graph.node for name in node.output}
    for node in graph.node:
        if node.op_type in ("Conv", "Gemm") and len(node.input) > 2 and node.input[2]:
            _note(found, node.output[0], node.input[2], 1, stored, reads)
        elif node.op_type == "BatchNormalization" and reads[node.input[0]] == 1:
            if (layer := producers.get(node.input[0])) is not None and node.input[0] not in found:
                _note(found, layer.output[0], node.input[3], -1, stored, reads)
        elif node.op_type == "Add":
            for value, constant in (tuple(node.input), tuple(node.input)[::-1]):
                if value in producers and producers[value].op_type == "MatMul" and reads[value] == 1:
                    _note(found, value, constant, 1, stored, reads)
    return found


def _note(
    found: dict[str, Constant],
    output: str,
    name: str,
    sign: int,
    stored: dict[str, onnx.TensorProto],
    reads: Counter[str],
) -> None:
    if name in stored and reads[name] == 1 and len(stored[name].dims) == 1:
        found[output] = Constant(name, np.asarray(numpy_helper.to_array(stored[name]), np.float32), sign)
