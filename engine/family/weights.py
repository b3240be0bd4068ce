"""A candidate's weights: which kernels a recipe quantizes, their codes and scales, and the floats that are
judged.

Knows a teacher's kernels and the quantizer. Knows nothing of cost, images or predictions.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from engine.family.quantize import Percentiles, Quantized, dequantize, quantize
from engine.types import Kernel, Recipe, Teacher, TeacherFacts, UserError


def quantized_kernels(teacher: TeacherFacts, recipe: Recipe) -> tuple[Kernel, ...]:
    """Return the kernels the recipe quantizes: all, or all but the first and the last when endpoints stay
    float.
    """
    return teacher.kernels[1:-1] if recipe.float_ends else teacher.kernels


def ends_note(teacher: TeacherFacts) -> str | None:
    """Say that float ends would leave nothing to quantize, if that is so."""
    n_layers = len(teacher.kernels)
    if n_layers > 2:
        return None
    layers = "one quantizable layer" if n_layers == 1 else "two quantizable layers"
    return (
        f"{teacher.name} has only {layers}: candidates that keep the first and the last float are left out."
    )


def check_family(teacher: TeacherFacts, recipes: Iterable[Recipe]) -> None:
    """Raise UserError if a recipe makes no sense for this teacher: nothing to quantize, or `lastaxis` on
    another layout.
    """
    for recipe in recipes:
        if not quantized_kernels(teacher, recipe):
            raise UserError(
                f"{recipe.slug} keeps the first and the last layer float, and {teacher.name} has no others:"
                " nothing is left to quantize.",
                "Quantize the ends too.",
                option="ends",
            )
        if recipe.granularity == "lastaxis" and not any(
            len(kernel.shape) - 1 in kernel.axes for kernel in teacher.kernels
        ):
            raise UserError(
                f"{recipe.slug} puts one scale on each index of the last axis, which holds output channels in"
                f" Keras layouts only; {teacher.name} stores them elsewhere. Use channel."
            )


def quantized_weights(
    teacher: Teacher, recipe: Recipe, percentiles: Percentiles | None = None
) -> dict[str, Quantized]:
    """Return codes and scales of every kernel the recipe quantizes, by name. Pass `percentiles` when building
    many candidates.
    """
    found = percentiles if percentiles is not None else Percentiles.for_recipes(teacher.weights, [recipe])
    return {
        kernel.name: quantize(teacher.weights[kernel.name], kernel, recipe, found)
        for kernel in quantized_kernels(teacher, recipe)
    }


def candidate_weights(
    teacher: Teacher, recipe: Recipe, percentiles: Percentiles | None = None
) -> dict[str, NDArray[np.float32]]:
    """Return the dequantized kernels by name: only those that differ from the teacher's. These exact floats
    are what is judged.
    """
    return {
        name: dequantize(quantized)
        for name, quantized in quantized_weights(teacher, recipe, percentiles).items()
    }
