"""W8A8 candidates: all methods' ranges from one pass over the calibration images, and the file of each
recipe.

Knows the steps from teacher to file. Knows nothing of predictions or choice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import onnx
import onnxruntime as ort

from engine.deploy.calibration import Calibration
from engine.deploy.folding import folded_model, optimized
from engine.deploy.integer_graph import KnownCodes, integer_graph, n_integer_bytes
from engine.deploy.integer_plan import KERNEL_OPS, IntegerPlan, make_plan
from engine.deploy.ranges import Histogram, Range, collect, ranges_of
from engine.deploy.tailored import TailoredModel
from engine.exports.graph import finished
from engine.family.kinds import RangeMethod, StaticRecipe
from engine.types import Teacher, UserError

DIGITS_NOTE = (
    "Integer kernels add up in another order on other processors: the last digit of a probability may differ"
    " there. Codes are chosen so that no sum overflows on any of them."
)


@dataclass(eq=False)
class IntegerFactory:
    """Makes the W8A8 candidates of one teacher; the images are run once, when the first one is asked for."""

    calibration: Calibration
    _model: onnx.ModelProto = field(init=False)
    _plans: dict[bool, IntegerPlan] = field(init=False)
    _histograms: dict[str, Histogram] | None = None
    _ranges: dict[RangeMethod, dict[str, Range]] = field(default_factory=dict)
    _codes: KnownCodes = field(default_factory=dict)
    _fused: dict[tuple[str, bool], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._model = folded_model(self.calibration.teacher)
        self._plans = {ends: make_plan(self._model.graph, float_ends=ends) for ends in (False, True)}

    def histograms(self) -> dict[str, Histogram]:
        """Collect, once, the histogram of every value that any recipe needs."""
        if self._histograms is None:
            values = list(dict.fromkeys(v for plan in self._plans.values() for v in plan.measured))
            c = self.calibration
            self._histograms = collect(self._model, values, c.images, c.batch)
        return self._histograms

    def ranges(self, recipe: StaticRecipe) -> dict[str, Range]:
        """Return the range of every value a recipe needs; each method reads the histograms once."""
        if recipe.method not in self._ranges:
            self._ranges[recipe.method] = ranges_of(self.histograms(), recipe.method)
        found = self._ranges[recipe.method]
        return {value: found[value] for value in self._plans[recipe.float_ends].measured}

    def make(self, recipe: StaticRecipe) -> TailoredModel:
        """Build one candidate's file; raise UserError if no layer of the teacher can run on integers."""
        teacher, plan = self.calibration.teacher, self._plans[recipe.float_ends]
        if not plan.kernels:
            raise UserError(
                f"no layer of {teacher.name} can run on integers as {recipe.slug} asks"
                f" ({plan.n_layers} with stored weights were found). Leave this kind of candidate out."
            )
        ranges = self.ranges(recipe)
        per_channel = recipe.granularity == "channel"
        model = integer_graph(self._model, plan, ranges, per_channel=per_channel, known=self._codes)
        n_bytes = n_integer_bytes(model)
        content: bytes = finished(model, teacher, recipe.slug).SerializeToString(deterministic=True)
        # files that differ only in their numbers are fused alike
        key = (recipe.granularity, recipe.float_ends)
        fused = self._fused[key] = self._fused.get(key) or integer_layers(content)
        facts = {
            "integer_layers": fused,
            "layers": plan.n_layers,
            "kept_float": dict(plan.kept_float),
            "ranges": {value: [r.low, r.high] for value, r in ranges.items()},
            "calibration_images": list(self.calibration.digests),
        }
        return TailoredModel(
            recipe=recipe,
            content=content,
            weight_bytes=n_bytes,
            facts=facts,
            notes=_notes(plan, fused, ranges),
        )


def integer_layers(content: bytes) -> int:
    """Count the layers that onnxruntime really runs on integers on this processor."""
    level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    graph = onnx.ModelProto.FromString(optimized(content, level)).graph
    ops: Counter[str] = Counter(node.op_type for node in graph.node)
    integer = ("QLinearConv", "QGemm", "QLinearMatMul", "MatMulIntegerToFloat", "DynamicQuantizeMatMul")
    return sum(ops[op] for op in integer)


def float_operators_note(teacher: Teacher) -> str | None:
    """Say which operators of a teacher stay float in its W8A8 candidates, if any do."""
    found = _float_operators(make_plan(folded_model(teacher).graph, float_ends=False))
    return f"W8A8: {found[0].lower()}{found[1:]}" if found else None


def _float_operators(plan: IntegerPlan) -> str:
    rest = {op: n for op, n in plan.kept_float.items() if op not in KERNEL_OPS}
    if not rest:
        return ""
    listed = ", ".join(f"{n} {op}" for op, n in rest.items())
    return (
        "These operators stay float, because onnxruntime has no integer kernel for them or for what they"
        f" stand beside: {listed}."
    )


def _notes(plan: IntegerPlan, fused: int, ranges: dict[str, Range]) -> tuple[str, ...]:
    notes = [f"{fused} of {plan.n_layers} layers run on integers here."]
    if found := _float_operators(plan):
        notes.append(found)
    dead = sum(r.high == r.low for r in ranges.values())
    if dead:
        notes.append(
            f"{dead} value{'s were' if dead > 1 else ' was'} zero on every calibration image; they are kept"
            " at zero."
        )
    return (*notes, DIGITS_NOTE)
