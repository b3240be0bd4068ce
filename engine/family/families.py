"""The families to choose from: the paper's 72, the candidates people deploy, or both.

Knows which recipes belong to which family and what they are expected to cost. Builds and runs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from engine.family.cost import cost
from engine.family.kinds import (
    RANGE_METHODS,
    AnyRecipe,
    CorrectedRecipe,
    Correction,
    MixedRecipe,
    StaticRecipe,
    Tailored,
)
from engine.family.quantize import n_output_channels
from engine.family.recipes import BITS, GRANULARITIES_STANDARD, PERCENTILES, custom_family
from engine.types import Recipe, TeacherFacts, UserError

FamilyName = Literal["paper", "deploy", "all"]
FAMILIES: tuple[FamilyName, ...] = get_args(FamilyName)
FAMILY_WORDS: dict[FamilyName, str] = {
    "paper": "weights only, made without images",
    "deploy": "weights only, weights and activations in 8 bits, mixed precision, corrected rounding",
    "all": "both families",
}
# bits of the uniform candidates whose memory mixed ones are offered at; fractions lie between two of them
_MIXED_AT = (2.5, 3.0, 3.5, 4.0, 5.0, 6.0)
_OPTIMISED_AT = (2.5, 3.0, 4.0)


def make_family(
    name: FamilyName, teacher: TeacherFacts, budget: float | None = None
) -> tuple[AnyRecipe, ...]:
    """Return a family's recipes in order; `paper` is the 72, or 36 if the teacher has no layer between its
    ends. `budget`, a share of the float memory, adds mixed candidates at just that.

    >>> len(FAMILIES)
    3
    """
    paper: tuple[AnyRecipe, ...] = custom_family(
        BITS, PERCENTILES, GRANULARITIES_STANDARD, possible_ends(teacher)
    )
    if name == "paper":
        return paper
    deploy = _deploy_family(teacher, budget)
    return deploy if name == "deploy" else tuple(dict.fromkeys([*paper, *deploy]))


def possible_ends(teacher: TeacherFacts) -> tuple[bool, ...]:
    """Return whether the first and the last layer may stay float: with nothing between them, nothing would be
    quantized.
    """
    return (False, True) if len(teacher.kernels) > 2 else (False,)


def _deploy_family(teacher: TeacherFacts, budget: float | None) -> tuple[AnyRecipe, ...]:
    ends = possible_ends(teacher)
    weights = custom_family((3, 4, 5, 6, 8), (99.5, 100.0), ("channel",), ends)
    static = [StaticRecipe(g, m, e) for g in ("channel", "tensor") for m in RANGE_METHODS for e in ends]
    corrected = [
        CorrectedRecipe(Recipe(bits=bits, percentile=100.0, granularity="channel", float_ends=e), c)
        for bits in (3, 4)
        for c in _corrections(teacher)
        for e in ends
    ]
    return (*weights, *static, *_mixed(teacher, budget), *corrected)


def _corrections(teacher: TeacherFacts) -> tuple[Correction, ...]:
    """Return the corrections worth trying: shifted biases help networks of convolutions and hurt transformers
    (docs/family.md has the figures).
    """
    n_convolutions = sum("Conv" in kernel.op for kernel in teacher.kernels)
    return ("bc", "opt") if 2 * n_convolutions >= len(teacher.kernels) else ("opt",)


def _mixed(teacher: TeacherFacts, budget: float | None) -> tuple[MixedRecipe, ...]:
    """Return mixed candidates along the teacher's own frontier and at the budget, smallest first."""
    plain = {share_at(teacher, bits) for bits in _MIXED_AT}
    optimised = {share_at(teacher, bits) for bits in _OPTIMISED_AT}
    if budget is not None and share_at(teacher, 2) <= budget < 1:
        plain.add(math.floor(budget * 1e4) / 1e4)
        optimised.add(math.floor(budget * 1e4) / 1e4)
    made = [MixedRecipe(s) for s in plain] + [MixedRecipe(s, True) for s in optimised]
    return tuple(sorted(made))


def share_at(teacher: TeacherFacts, bits: float) -> float:
    """Return the share of the float memory that uniform candidates of `bits` take, rounded up to a
    percent.
    """
    low, high = (
        cost(teacher, Recipe(bits=b, percentile=100.0, granularity="channel", float_ends=False))
        for b in (2, 8)
    )
    exact = low + (high - low) * (bits - 2) / 6
    return min(0.99, math.ceil(exact * 100) / 100)


def expected_cost(teacher: TeacherFacts, recipe: AnyRecipe) -> float:
    """Return a candidate's share of the float memory before it is built: exact for weight-only ones, the
    limit for mixed ones, an upper estimate for W8A8.
    """
    if isinstance(recipe, Recipe):
        return cost(teacher, recipe)
    if isinstance(recipe, CorrectedRecipe):
        return cost(teacher, recipe.recipe)
    if isinstance(recipe, MixedRecipe):
        return recipe.share
    plain = Recipe(bits=8, percentile=100.0, granularity=recipe.granularity, float_ends=recipe.float_ends)
    # BatchNorm goes, which makes up for what each channel gains: a bias of 32 bits and its scale
    biases = sum(4 * n_output_channels(kernel) for kernel in teacher.kernels)
    return cost(teacher, plain) + biases / teacher.float_bytes


def expected_costs(teacher: TeacherFacts, recipes: Sequence[AnyRecipe]) -> NDArray[np.float64]:
    """Return `expected_cost` of every recipe, shape (M,)."""
    return np.array([expected_cost(teacher, recipe) for recipe in recipes], np.float64)


def relative_time(
    name: FamilyName, teacher: TeacherFacts, n_images: int, recipes: Sequence[AnyRecipe]
) -> float:
    """Return about how long a run takes relative to the paper's family on the same images.

    Counted in images run: every candidate on every image; for tailored ones also the calibration images, and
    the layers one by one. Timing the files adds a few images each.
    """
    paper = 73 * max(n_images, 1)
    if name == "paper":
        return 1.0
    n_calibration = min(256, n_images // 2)
    layers = 4 * len(teacher.kernels) * min(64, n_calibration)
    timing = 60 * len(recipes)
    return ((len(recipes) + 1) * n_images + 3 * n_calibration + layers + timing) / paper


def split_family(recipes: Sequence[AnyRecipe]) -> tuple[tuple[Recipe, ...], tuple[Tailored, ...]]:
    """Return those made from weights alone, and those that need calibration images."""
    weights = tuple(recipe for recipe in recipes if isinstance(recipe, Recipe))
    return weights, tuple(recipe for recipe in recipes if not isinstance(recipe, Recipe))


def parse_family(text: str) -> FamilyName:
    """Return the family a word names; raise UserError otherwise."""
    for name in FAMILIES:
        if text.strip() == name:
            return name
    raise UserError(f"there is no family {text!r}.", f"Use one of: {', '.join(FAMILIES)}.", option="family")
