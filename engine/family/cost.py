"""What a candidate costs in memory, what a budget means, and which candidates fit it.

Knows sizes of weights. Knows nothing of images or predictions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.family.kinds import CorrectedRecipe, StaticRecipe, tailored_of
from engine.family.quantize import n_scales
from engine.family.recipes import recipe_of
from engine.family.weights import quantized_kernels
from engine.types import Bools, Floats, Recipe, Teacher, TeacherFacts, UserError

CONTAINERS: tuple[int, ...] = (2, 4, 8)  # widths of the integers that an ONNX file can hold

_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_BUDGET = re.compile(r"([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*(%|[a-zA-Z]*)")
# bytes of the two nodes that unpack a kernel, with their names; measured on exports of small networks
_NODES = 100
FLOAT_BYTES = 4  # of a teacher's weight: kernels are float32
_SLACK = 1e-9  # a budget typed as 0.22 admits a candidate whose cost is 0.22 up to rounding


def weight_bytes(teacher: TeacherFacts, recipe: Recipe) -> float:
    """Return the candidate's weight memory in bytes: packed codes at their true width, float32 scales, the
    rest as stored.

    The rest is every other initializer of the graph (biases, norms, float endpoints), as in
    `teacher.float_bytes`.
    """
    total = float(teacher.float_bytes)
    for kernel in quantized_kernels(teacher, recipe):
        total += kernel.size * (recipe.bits / 8 - FLOAT_BYTES)
        total += 4 * n_scales(kernel, recipe.granularity)
    return total


def file_bytes(teacher: Teacher, recipe: Recipe) -> float:
    """Return about how many bytes the candidate takes as an ONNX file: codes in the integers ONNX has, scales
    and zero points, and the rest of the teacher's graph as stored.
    """
    return graph_bytes(teacher, recipe, len(teacher.graph))


def graph_bytes(teacher: TeacherFacts, recipe: Recipe, n_bytes: int) -> float:
    """Return `file_bytes` of a teacher whose graph is not at hand, only how many bytes it has."""
    total, width = float(n_bytes), stored_bits(recipe.bits)
    for kernel in quantized_kernels(teacher, recipe):
        total += kernel.size * (width / 8 - FLOAT_BYTES)
        total += n_scales(kernel, recipe.granularity) * (4 + width / 8) + _NODES
    return total


def cost(teacher: TeacherFacts, recipe: Recipe) -> float:
    """Return C(g): the candidate's weight memory relative to the float teacher's."""
    return weight_bytes(teacher, recipe) / teacher.float_bytes


def costs(teacher: TeacherFacts, family: Sequence[Recipe]) -> NDArray[np.float64]:
    """Return C(g) of every recipe, shape (M,)."""
    return np.array([cost(teacher, recipe) for recipe in family], np.float64)


def stored_bits(bits: int) -> int:
    """Return the width of the smallest ONNX integer that holds codes of `bits`: 2, 4 or 8.

    >>> [stored_bits(bits) for bits in (2, 3, 4, 5, 6, 8)]
    [2, 4, 4, 8, 8, 8]
    """
    return next(width for width in CONTAINERS if width >= bits)


def stored_costs(names: Sequence[str], costs: Floats) -> NDArray[np.float64]:
    """Return the memory of every candidate as ONNX stores it, relative to the float teacher, shape (M,); nan
    where it is not known.

    ONNX has integers of 2, 4 and 8 bits only: a candidate of 5 bits takes what its sibling of 8 bits costs.
    """
    recipes = [recipe_of(name) for name in names]
    known = dict(zip(recipes, np.asarray(costs, np.float64), strict=True))
    stored = np.full(len(names), np.nan)
    for index, (name, own) in enumerate(zip(names, recipes, strict=True)):
        tailored = tailored_of(name)
        if isinstance(tailored, StaticRecipe):
            stored[index] = costs[index]  # whole bytes, as counted
        recipe = tailored.recipe if isinstance(tailored, CorrectedRecipe) else own
        if recipe is not None:
            stored[index] = known.get(replace(recipe, bits=stored_bits(recipe.bits)), np.nan)
    return stored


@dataclass(frozen=True)
class SizeBudget:
    """A limit in bytes on the file that ships, as opposed to a share of the float teacher's memory."""

    n_bytes: float


def read_budget(text: str | None) -> float | SizeBudget | None:
    """Return the limit that "0.22", "22%" (a share) or "1.1MB" (a size of the file) means; None for none.

    Raises UserError if the text is none of these, or is not above zero.
    """
    if text is None:
        return None
    match = _BUDGET.fullmatch(text.strip())
    if match is None or match[2].lower() not in _UNITS:
        return parse_budget(text, 1 if match is None else None)
    return SizeBudget(parse_budget(text, 1))


def parse_budget(text: str, teacher_bytes: int | None = None) -> float:
    """Return a memory budget relative to the float teacher, from "0.22", "22%", "1.1MB" or "800kB" (MB =
    1,000,000 bytes).

    Sizes need `teacher_bytes`. Raises UserError if the text is none of these, or is not above zero.

    >>> parse_budget("22%"), parse_budget("1.1MB", 4_400_000)
    (0.22, 0.25)
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
