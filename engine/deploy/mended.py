"""Weight-only candidates mended with calibration images: biases that give each channel its expected output
back, or rounding that looks at what a layer reads.

Knows what is mended. Where a shift goes in a graph and how a kernel is rounded are decided elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from engine.deploy.calibration import Calibration
from engine.deploy.mixed import Choice, Distances, Kernels, MixedFactory, layers_sentence
from engine.deploy.moments import Layer, collect_moments, mean_shift
from engine.deploy.rounding import optimised
from engine.deploy.shifting import constants_behind, give_biases
from engine.deploy.tailored import TailoredModel
from engine.exports.graph import pack_kernels
from engine.family.cost import weight_bytes
from engine.family.kinds import CorrectedRecipe, MixedRecipe
from engine.family.quantize import Quantized, dequantize
from engine.family.weights import quantized_weights
from engine.types import Teacher


@dataclass(eq=False)
class MendingFactory:
    """Makes the corrected candidates of one teacher; what layers read is collected once."""

    calibration: Calibration
    mixed: MixedFactory
    _found: dict[tuple[str, int], Quantized] = field(default_factory=dict)
    _distances: Distances = field(default_factory=dict)

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
        plain = quantized_weights(self.teacher, recipe.recipe)
        return self._packed(recipe, self._rounded(plain), weight_bytes(self.teacher, recipe.recipe))

    @property
    def teacher(self) -> Teacher:
        return self.calibration.teacher

    def _rounded(self, plain: Kernels) -> Kernels:
        """Round each layer with its second moments; one that could not be laid out stays as it is."""
        return {
            name: self._optimised(name, item.bits) if name in self.layers else item
            for name, item in plain.items()
        }

    def _optimised(self, name: str, bits: int) -> Quantized:
        if (name, bits) not in self._found:
            self._found[name, bits] = optimised(self.teacher.weights[name], self.layers[name], bits)
        return self._found[name, bits]

    def choose(self, recipe: MixedRecipe) -> Choice:
        """Choose among the same divisions of bits as without optimised rounding, each rounded so."""
        choices = [choice for choice in self.mixed.choices(recipe) if choice.percentile is None]
        return self.mixed.nearest(choices, self.quantized, self._distances)

    def quantized(self, choice: Choice) -> Kernels:
        """Return every kernel's integers at its own bits, rounded with what the layer reads."""
        return self._rounded(self.mixed.quantized(choice))

    def _mixed(self, recipe: MixedRecipe) -> TailoredModel:
        choice = self.choose(recipe)
        model = self._packed(recipe, self.quantized(choice), self.mixed.n_bytes(choice))
        return replace(
            model,
            facts={**model.facts, "allocation": dict(choice.bits)},
            notes=(layers_sentence(choice), *model.notes),
        )

    def _packed(self, recipe: CorrectedRecipe | MixedRecipe, made: Kernels, n_bytes: float) -> TailoredModel:
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
        """Fold each channel's expected loss of output into a constant that follows the layer, or give the
        layer a bias.
        """
        made = quantized_weights(self.teacher, recipe.recipe)
        places = constants_behind(onnx.ModelProto.FromString(self.teacher.graph).graph)
        changed: dict[str, NDArray[np.float32]] = {}
        given: dict[str, NDArray[np.float64]] = {}
        for layer in (self.layers[name] for name in made if name in self.layers):
            quantized, output = made[layer.kernel.name], layer.node.output[0]
            lost = mean_shift(layer, self.teacher.weights[layer.kernel.name] - dequantize(quantized))
            if output in places and places[output].values.size == lost.size:
                changed[places[output].name] = places[output].shifted(lost)
            elif layer.node.op_type == "Conv":
                given[output] = lost
        model = pack_kernels(self.teacher, made, recipe.slug)
        for tensor in model.graph.initializer:
            if tensor.name in changed:
                tensor.CopyFrom(numpy_helper.from_array(changed[tensor.name], tensor.name))
        added = give_biases(model.graph, given)
        n = len(changed) + len(given)
        note = f"The biases of {n} of {len(made)} layers were corrected on calibration images."
        return self._tailored(recipe, model, weight_bytes(self.teacher, recipe.recipe) + added, note)
