"""The family of candidates: the standard 72 recipes or a custom grid, what each one costs in memory, and
which fit a budget.

Knows recipes and a teacher's kernels. Knows nothing of images or predictions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from engine.quantize import Percentiles, Quantized, dequantize, n_scales, quantize
from engine.types import Bools, Floats, Granularity, Kernel, Recipe, Teacher, UserError

BITS: tuple[int, ...] = (2, 3, 4, 5, 6, 8)
PERCENTILES: tuple[float, ...] = (99.0, 99.5, 100.0)
CONTAINERS: tuple[int, ...] = (2, 4, 8)  # widths of the integers that an ONNX file can hold
GRANULARITIES_STANDARD: tuple[Granularity, ...] = ("tensor", "channel")

_SLUG = re.compile(r"b(\d+)-(tensor|channel|lastaxis)-q(\d+(?:\.\d+)?)(-ends)?")
_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_BUDGET = re.compile(r"([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*(%|[a-zA-Z]*)")
_SLACK = 1e-9  # a budget typed as 0.22 admits a candidate whose cost is 0.22 up to rounding


# --- recipes ------------------------------------------------------------------------------


def standard_family(granularity: Granularity = "channel") -> tuple[Recipe, ...]:
    """Return the 72 recipes in index order: bits slowest, then percentile, then tensor before channel, then
    endpoints.

    `granularity` is what stands beside "tensor": true output channels, or "lastaxis" as in the paper's Keras
    code.
    """
    return custom_family(BITS, PERCENTILES, ("tensor", granularity), (False, True))


def custom_family(
    bits: Sequence[int],
    percentiles: Sequence[float],
    granularities: Sequence[Granularity],
    ends: Sequence[bool],
) -> tuple[Recipe, ...]:
    """Return every combination in the order of the standard family; raise UserError if an axis is empty or
    has a repeat.
    """
    axes: dict[str, Sequence[object]] = {
        "bit width": bits,
        "percentile": percentiles,
        "granularity": granularities,
        "endpoint option": ends,
    }
    for name, values in axes.items():
        if not values:
            raise UserError(f"the grid has no {name}, so it has no candidate. Choose at least one.")
        if len(set(values)) < len(values):
            raise UserError(f"the grid lists a {name} twice: {', '.join(map(str, values))}. List each once.")
    return tuple(Recipe(b, float(q), g, e) for b, q, g, e in product(bits, percentiles, granularities, ends))


def parse_slug(text: str) -> Recipe:
    """Return the recipe a slug such as `b4-channel-q99.5-ends` names (`q100` and `q100.0` alike); raise
    UserError otherwise.
    """
    match = _SLUG.fullmatch(text.strip())
    if match is None:
        raise UserError(
            f"{text!r} is not a candidate name. Write it like b4-channel-q99.5 or b8-tensor-q100-ends."
        )
    bits, granularity, percentile, ends = match.groups()
    named: dict[str, Granularity] = {"tensor": "tensor", "channel": "channel", "lastaxis": "lastaxis"}
    return Recipe(int(bits), float(percentile), named[granularity], ends is not None)


def parse_candidate(text: str, family: Sequence[Recipe]) -> Recipe:
    """Return the member of the family that a slug or an index 0..M-1 names; raise UserError if there is
    none.
    """
    if re.fullmatch(r"-?\d+", text.strip()):
        index = int(text)
        if not 0 <= index < len(family):
            raise UserError(
                f"candidate {index} does not exist; this family has 0 to {len(family) - 1}. Give one of"
                " those, or a name."
            )
        return family[index]
    recipe = parse_slug(text)
    if recipe not in family:
        raise UserError(
            f"candidate {recipe.slug} is not in this family of {len(family)}. Give one of its names, e.g."
            f" {family[0].slug}."
        )
    return recipe


# --- a candidate's weights ----------------------------------------------------------------


def quantized_kernels(teacher: Teacher, recipe: Recipe) -> tuple[Kernel, ...]:
    """Return the kernels the recipe quantizes: all, or all but the first and the last when endpoints stay
    float.
    """
    return teacher.kernels[1:-1] if recipe.float_ends else teacher.kernels


def check_family(teacher: Teacher, recipes: Iterable[Recipe]) -> None:
    """Raise UserError if a recipe makes no sense for this teacher: nothing to quantize, or `lastaxis` on
    another layout.
    """
    for recipe in recipes:
        if not quantized_kernels(teacher, recipe):
            raise UserError(
                f"{recipe.slug} keeps the first and the last layer float, and {teacher.name} has only"
                f" {len(teacher.kernels)} quantizable layers: nothing is left to quantize. Leave out the"
                " endpoint option."
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


# --- cost and budget ----------------------------------------------------------------------


def weight_bytes(teacher: Teacher, recipe: Recipe) -> float:
    """Return the candidate's weight memory in bytes: packed codes at their true width, float32 scales, the
    rest as stored.

    The rest is every other initializer of the graph (biases, norms, float endpoints), as in
    `teacher.float_bytes`.
    """
    total = float(teacher.float_bytes)
    for kernel in quantized_kernels(teacher, recipe):
        total += kernel.size * (recipe.bits / 8 - teacher.weights[kernel.name].dtype.itemsize)
        total += 4 * n_scales(kernel, recipe.granularity)
    return total


def cost(teacher: Teacher, recipe: Recipe) -> float:
    """Return C(g): the candidate's weight memory relative to the float teacher's."""
    return weight_bytes(teacher, recipe) / teacher.float_bytes


def costs(teacher: Teacher, family: Sequence[Recipe]) -> NDArray[np.float64]:
    """Return C(g) of every recipe, shape (M,)."""
    return np.array([cost(teacher, recipe) for recipe in family], np.float64)


def stored_bits(bits: int) -> int:
    """Return the width of the smallest ONNX integer that holds codes of `bits`: 2, 4 or 8."""
    return next(width for width in CONTAINERS if width >= bits)


def stored_costs(names: Sequence[str], costs: Floats) -> NDArray[np.float64]:
    """Return the memory of every candidate as ONNX stores it, relative to the float teacher, shape (M,); nan
    where it is not known.

    ONNX has integers of 2, 4 and 8 bits only: a candidate of 5 bits takes what its sibling of 8 bits costs.
    """
    by_name = dict(zip(names, np.asarray(costs, np.float64), strict=True))
    stored = np.full(len(by_name), np.nan)
    for index, name in enumerate(names):
        if match := _SLUG.fullmatch(name):
            bits = int(match[1])
            sibling = f"b{stored_bits(bits)}{name[1 + len(match[1]) :]}" if bits <= CONTAINERS[-1] else name
            stored[index] = by_name.get(sibling, np.nan)
    return stored


def parse_budget(text: str, teacher_bytes: int | None = None) -> float:
    """Return a memory budget relative to the float teacher, from "0.22", "22%", "1.1MB" or "800kB" (MB =
    1,000,000 bytes).

    Sizes need `teacher_bytes`. Raises UserError if the text is none of these, or is not above zero.
    """
    match = _BUDGET.fullmatch(text.strip())
    if match is None:
        size = "" if teacher_bytes is None else " or 1.1MB"
        raise UserError(
            f"the budget {text!r} is not a share{' or a size' if size else ''}. Write it like 0.22 or"
            f" 22%{size}."
        )
    number, unit = float(match[1]), match[2].lower()
    if unit in _UNITS and teacher_bytes is None:
        raise UserError(
            f"the budget {text!r} is a size, and the teacher's size is unknown here. Give a share such as"
            " 0.22 or 22%."
        )
    if unit == "" and number > 1:
        hint = f"{match[1]}% for a percentage" if number <= 100 else "a share of at most 1, e.g. 0.22"
        size = "" if teacher_bytes is None else f", or {match[1]}MB for a size"
        raise UserError(f"the budget {text!r} is more than the whole teacher. Write {hint}{size}.")
    if unit not in ("", "%", *_UNITS):
        raise UserError(f"the budget {text!r} has the unknown unit {match[2]!r}. Use %, kB, MB or GB.")
    share = (
        number / 100
        if unit == "%"
        else number * _UNITS[unit] / teacher_bytes
        if unit and teacher_bytes
        else number
    )
    if not 0 < share < float("inf"):
        raise UserError(f"the budget {text!r} leaves no memory at all. Give more than 0, e.g. 22%.")
    return share


def admissible(costs: Floats, budget: float | None) -> Bools:
    """Return which candidates fit the budget, shape (M,) bool; all of them when there is no budget."""
    limit = np.inf if budget is None else budget + _SLACK
    return np.asarray(costs, np.float64) <= limit
