"""The latency of a whole family: files that differ only in their numbers are timed once for all.

Knows which candidates share a structure. Knows nothing of predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.deploy.calibration import Calibration
from engine.deploy.latency import NOT_MEASURED, Latency, Stopwatch
from engine.deploy.workshop import BuiltFile
from engine.exports.graph import float_model, pack_model
from engine.family.cost import stored_bits
from engine.family.kinds import AnyRecipe, CorrectedRecipe, MixedRecipe, StaticRecipe
from engine.types import Progress, Recipe


@dataclass(frozen=True, eq=False)
class FamilyLatency:
    """Latencies (M,) relative to the float teacher on this processor: `shipped` as any runtime opens the
    file, its weights kept packed; `unpacked` with weights made floats at load, nan where that is not
    possible.
    """

    shipped: NDArray[np.float64]
    spread: NDArray[np.float64]
    unpacked: NDArray[np.float64]


def structure(recipe: AnyRecipe) -> Hashable:
    """Return what decides a file's speed; the numbers in it do not."""
    if isinstance(recipe, MixedRecipe):
        return recipe  # its widths are its own
    if isinstance(recipe, StaticRecipe):
        return "integer", recipe.granularity, recipe.float_ends
    plain = recipe.recipe if isinstance(recipe, CorrectedRecipe) else recipe
    return stored_bits(plain.bits), plain.granularity, plain.float_ends


def time_family(
    calibration: Calibration,
    recipes: Sequence[AnyRecipe],
    files: Mapping[str, BuiltFile],
    on_progress: Progress | None = None,
    cancel: Callable[[], bool] | None = None,
) -> FamilyLatency:
    """Time every recipe against the float teacher, one for each structure; `files` are the tailored ones by
    name. What is cancelled stays nan.
    """
    teacher = calibration.teacher
    watch = Stopwatch(float_model(teacher), calibration.images[: max(2, calibration.batch)])
    known: dict[Hashable, tuple[Latency, Latency]] = {}
    for done, recipe in enumerate(recipes):
        key = structure(recipe)
        if key not in known and not (cancel is not None and cancel()):
            known[key] = _both(watch, _content(calibration, recipe, files), recipe)
        if on_progress is not None:
            on_progress(done + 1, len(recipes))
    pairs = [known.get(structure(recipe), (NOT_MEASURED, NOT_MEASURED)) for recipe in recipes]
    return FamilyLatency(
        np.array([shipped.ratio for shipped, _ in pairs]),
        np.array([shipped.spread for shipped, _ in pairs]),
        np.array([unpacked.ratio for _, unpacked in pairs]),
    )


def _content(calibration: Calibration, recipe: AnyRecipe, files: Mapping[str, BuiltFile]) -> bytes:
    if isinstance(recipe, Recipe):
        return pack_model(calibration.teacher, recipe).content
    return files[recipe.slug].model.path.read_bytes()


def _both(watch: Stopwatch, content: bytes, recipe: AnyRecipe) -> tuple[Latency, Latency]:
    shipped = watch.measure(content, unpacked=False)
    if isinstance(recipe, StaticRecipe):
        return shipped, NOT_MEASURED
    return shipped, watch.measure(content, unpacked=True)
