"""Mixed precision: each layer with the bits that spoil least within a share of the float memory, checked
against the uniform candidates that fit there too.

Knows allocation and packing. Knows nothing of labels or of the rest of the family.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from engine.deploy.allocation import CHOICES, FLOAT, LayerTable, allocate, kernel_bytes
from engine.deploy.calibration import Calibration
from engine.deploy.clipping import clipped
from engine.deploy.probing import Distance, Reference
from engine.deploy.sensitivity import IMAGES, measure
from engine.deploy.tailored import TailoredModel
from engine.exports.graph import pack_kernels
from engine.family.kinds import MixedRecipe
from engine.family.quantize import Percentiles, Quantized, dequantize, quantize
from engine.family.recipes import PERCENTILES
from engine.types import Progress, Recipe, Teacher, UserError

_TRIED_BELOW = 5  # bits: from here on a clip at the least squared error is as near as any
_SLACK = 1e-6  # of the memory: a share that was a quotient admits what it was made of

Kernels = dict[str, Quantized]
Distances = dict[Hashable, Distance]


@dataclass(frozen=True, eq=False)
class Choice:
    """Bits for each layer (`FLOAT`: left alone) and where weights are clipped: at a percentile of every
    channel, or None for the least squared error.
    """

    bits: Mapping[str, int]
    percentile: float | None = None

    @property
    def key(self) -> Hashable:
        """What tells it from others: uniform choices come up again at many shares."""
        return tuple(self.bits.items()), self.percentile


def fixed_bytes(teacher: Teacher) -> float:
    """Return the bytes that no choice of bits changes: biases, norms, whatever is no kernel."""
    return teacher.float_bytes - sum(4.0 * kernel.size for kernel in teacher.kernels)


@dataclass(eq=False)
class MixedFactory:
    """Makes the mixed candidates of one teacher; layers are measured once, when the first one is asked
    for.
    """

    calibration: Calibration
    store: Path
    on_progress: Progress | None = None
    _made: dict[tuple[str, int, float | None], Quantized] = field(default_factory=dict)
    _distances: Distances = field(default_factory=dict)

    @cached_property
    def table(self) -> LayerTable:
        """What every layer spoils, measured now or found in the store."""
        return measure(self.calibration, self.store, self.on_progress)

    @cached_property
    def _reference(self) -> Reference:
        return Reference.of(self.calibration, IMAGES)

    @cached_property
    def _percentiles(self) -> Percentiles:
        return Percentiles(self.calibration.teacher.weights, PERCENTILES)

    def make(self, recipe: MixedRecipe) -> TailoredModel:
        """Build one candidate's file; raise UserError if the share is too small for this teacher."""
        teacher, choice = self.calibration.teacher, self.choose(recipe)
        model = pack_kernels(teacher, self.quantized(choice), recipe.slug)
        return TailoredModel(
            recipe=recipe,
            content=model.SerializeToString(deterministic=True),
            weight_bytes=self.n_bytes(choice),
            facts={"allocation": dict(choice.bits), "calibration_images": list(self.calibration.digests)},
            notes=(layers_sentence(choice),),
        )

    def choose(self, recipe: MixedRecipe) -> Choice:
        """Return the choice that is nearest to the teacher on calibration images."""
        return self.nearest(self.choices(recipe), self.quantized, self._distances)

    def choices(self, recipe: MixedRecipe) -> list[Choice]:
        """Return what may be nearest within the share: the division of least harm in sum, and the uniform
        ones, since single layers do not tell how their errors add up. Raises UserError if nothing fits.
        """
        limit = recipe.share * self.calibration.teacher.float_bytes * (1 + _SLACK)
        try:
            found = allocate(self.table, limit - fixed_bytes(self.calibration.teacher))
        except UserError as error:
            raise error.about(recipe.slug) from None
        uniform = [bits for ends in (False, True) if (bits := self._uniform(limit, ends)) is not None]
        coarse = [bits for bits in uniform if min(bits.values()) < _TRIED_BELOW]
        clipped_too = [found, *coarse] if coarse else []
        return [
            *(Choice(bits) for bits in (found, *uniform)),
            *(Choice(bits, percentile) for bits in clipped_too for percentile in PERCENTILES),
        ]

    def nearest(
        self, choices: Sequence[Choice], made: Callable[[Choice], Kernels], known: Distances
    ) -> Choice:
        """Return the choice whose kernels, as `made` makes them, change the teacher's answers least; `known`
        keeps the distances of kernels made so.
        """
        best, least = choices[0], np.inf
        for choice in choices if len(choices) > 1 else ():
            found = known.get(choice.key)
            if found is None or (not found.whole and found.value <= least):
                kernels = {name: dequantize(item) for name, item in made(choice).items()}
                found = known[choice.key] = self._reference.distance(kernels, least)
            if found.whole and found.value < least:
                best, least = choice, found.value
        return best

    def quantized(self, choice: Choice) -> Kernels:
        """Return every kernel's integers at its own bits; those left float are not among them."""
        kernels = {kernel.name: kernel for kernel in self.calibration.teacher.kernels}
        for name, bits in choice.bits.items():
            key, weights = (name, bits, choice.percentile), self.calibration.teacher.weights[name]
            if bits == FLOAT or key in self._made:
                continue
            if choice.percentile is None:
                self._made[key] = clipped(weights, kernels[name], bits).quantized
            else:
                recipe = Recipe(bits, choice.percentile, "channel", False)
                self._made[key] = quantize(weights, kernels[name], recipe, self._percentiles)
        widths = {name: bits for name, bits in choice.bits.items() if bits != FLOAT}
        return {name: self._made[name, bits, choice.percentile] for name, bits in widths.items()}

    def _uniform(self, limit: float, ends: bool) -> dict[str, int] | None:
        """Return the most bits for all layers that fit, with the first and the last layer float or not."""
        names = [kernel.name for kernel in self.calibration.teacher.kernels]
        if ends and len(names) < 3:
            return None
        kept = {names[0]: FLOAT, names[-1]: FLOAT} if ends else {}
        tried = [Choice({**dict.fromkeys(names, bits), **kept}) for bits in CHOICES]
        fitting = [choice for choice in tried if self.n_bytes(choice) <= limit]
        return dict(fitting[-1].bits) if fitting else None

    def n_bytes(self, choice: Choice) -> float:
        """Return what the weights take at these bits: kernels at their true width, scales, and the rest."""
        teacher = self.calibration.teacher
        kernels = sum(kernel_bytes(kernel, choice.bits[kernel.name]) for kernel in teacher.kernels)
        return fixed_bytes(teacher) + kernels


def layers_sentence(choice: Choice) -> str:
    """Say how many layers have how many bits, and how they are clipped."""
    counts = {width: sum(b == width for b in choice.bits.values()) for width in (*CHOICES, FLOAT)}
    words = {width: "float" if width == FLOAT else f"with {width} bits" for width in counts}
    listed = ", ".join(f"{n} {words[width]}" for width, n in counts.items() if n)
    clip = "" if choice.percentile is None else f"; weights clipped at the {choice.percentile:g}th percentile"
    return f"Layers: {listed}{clip}."
