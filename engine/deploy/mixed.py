"""Mixed precision: each layer with the bits that spoil least within a share of the float memory, checked
against the uniform choice.

Knows allocation and packing. Knows nothing of labels or of the rest of the family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.deploy.allocation import CHOICES, LayerTable, allocate
from engine.deploy.calibration import Calibration
from engine.deploy.clipping import clipped
from engine.deploy.sensitivity import Probing, measure, n_probed
from engine.deploy.tailored import TailoredModel
from engine.exports.graph import pack_kernels
from engine.family.kinds import MixedRecipe
from engine.family.quantize import Quantized, dequantize
from engine.types import Floats, Progress, Teacher, UserError


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
    _table: LayerTable | None = None
    _made: dict[tuple[str, int], Quantized] = field(default_factory=dict)
    _probing: Probing | None = None
    _reference: Floats | None = None

    def table(self) -> LayerTable:
        """Measure every layer, or find it in the store."""
        if self._table is None:
            self._table = measure(self.calibration, self.store, self.on_progress)
        return self._table

    def make(self, recipe: MixedRecipe) -> TailoredModel:
        """Build one candidate's file; raise UserError if the share is too small for this teacher."""
        teacher, bits = self.calibration.teacher, self.bits(recipe)
        model = pack_kernels(teacher, self.quantized(bits), recipe.slug)
        return TailoredModel(
            recipe=recipe,
            content=model.SerializeToString(deterministic=True),
            weight_bytes=fixed_bytes(teacher) + self.n_bytes(bits),
            facts={"allocation": dict(bits), "calibration_images": list(self.calibration.digests)},
            notes=(_sentence(bits),),
        )

    def bits(self, recipe: MixedRecipe) -> dict[str, int]:
        """Return the bits of each layer; raise UserError if the share is too small for this teacher."""
        teacher = self.calibration.teacher
        left = recipe.share * teacher.float_bytes - fixed_bytes(teacher)
        try:
            return self._best(allocate(self.table(), left), left)
        except UserError as error:
            raise error.about(recipe.slug) from None

    def quantized(self, bits: Mapping[str, int]) -> dict[str, Quantized]:
        """Return every kernel's integers at its own bits."""
        teacher = self.calibration.teacher
        for kernel in teacher.kernels:
            key = (kernel.name, bits[kernel.name])
            if key not in self._made:
                self._made[key] = clipped(teacher.weights[kernel.name], kernel, bits[kernel.name]).quantized
        return {name: self._made[name, width] for name, width in bits.items()}

    def _best(self, found: dict[str, int], left: float) -> dict[str, int]:
        """Return the allocation found, or the uniform one if that is nearer to the teacher: single layers do
        not tell how their errors add up.
        """
        uniform = self._uniform(left)
        if uniform is None or uniform == found:
            return found
        return min((found, uniform), key=self._distance)

    def _uniform(self, left: float) -> dict[str, int] | None:
        names = self.table().names
        fitting = [bits for bits in CHOICES if self.n_bytes(dict.fromkeys(names, bits)) <= left]
        return dict.fromkeys(names, max(fitting)) if fitting else None

    def n_bytes(self, bits: Mapping[str, int]) -> float:
        """Return what the kernels take at these bits, scales counted."""
        table = self.table()
        places = [table.bits.index(bits[name]) for name in table.names]
        return float(sum(table.n_bytes[row, place] for row, place in enumerate(places)))

    def _distance(self, bits: Mapping[str, int]) -> float:
        if self._probing is None or self._reference is None:
            c = self.calibration
            n = n_probed(len(c.teacher.kernels), len(c.images))
            self._probing = Probing.of(c.teacher, c.images[:n], c.batch)
            self._reference = self._probing.probs({})
        floats = {name: dequantize(item) for name, item in self.quantized(bits).items()}
        return self._probing.distance(self._reference, floats)


def _sentence(bits: Mapping[str, int]) -> str:
    counts = {width: sum(b == width for b in bits.values()) for width in CHOICES}
    listed = ", ".join(f"{n} with {width} bits" for width, n in counts.items() if n)
    return f"Layers: {listed}."
