"""Recipes: the standard 72 or a custom grid, their names, and finding one by name or index.

Knows how candidates are called and ordered. Knows nothing of weights, cost, images or predictions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

from engine.types import Granularity, Recipe, UserError

BITS: tuple[int, ...] = (2, 3, 4, 5, 6, 8)
PERCENTILES: tuple[float, ...] = (99.0, 99.5, 100.0)
GRANULARITIES_STANDARD: tuple[Granularity, ...] = ("tensor", "channel")

_SLUG = re.compile(r"b(\d+)-(tensor|channel|lastaxis)-q(\d+(?:\.\d+)?)(-ends)?")


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
    return tuple(
        Recipe(bits=b, percentile=float(q), granularity=g, float_ends=e)
        for b, q, g, e in product(bits, percentiles, granularities, ends)
    )


def parse_slug(text: str) -> Recipe:
    """Return the recipe a slug such as `b4-channel-q99.5-ends` names (`q100` and `q100.0` alike); raise
    UserError otherwise.

    >>> parse_slug("b4-channel-q99.5-ends").bits
    4
    """
    match = _SLUG.fullmatch(text.strip())
    if match is None:
        raise UserError(
            f"{text!r} is not a candidate name. Write it like b4-channel-q99.5 or b8-tensor-q100-ends."
        )
    bits, granularity, percentile, ends = match.groups()
    named: dict[str, Granularity] = {"tensor": "tensor", "channel": "channel", "lastaxis": "lastaxis"}
    return Recipe(
        bits=int(bits),
        percentile=float(percentile),
        granularity=named[granularity],
        float_ends=ends is not None,
    )


def is_slug(text: str) -> bool:
    """Whether the text has the form of a slug, be its numbers possible or not."""
    return _SLUG.fullmatch(text.strip()) is not None


def recipe_of(name: str) -> Recipe | None:
    """Return the recipe a candidate's name states, or None for a candidate that came from elsewhere.

    >>> recipe_of("b4-channel-q99.5-ends").bits
    4
    >>> recipe_of("release-2024") is None
    True
    """
    try:
        return parse_slug(name)
    except UserError:
        return None


def recipes_of(names: Sequence[str]) -> tuple[Recipe, ...] | None:
    """Return the recipe of every candidate, or None as soon as one of them came from elsewhere."""
    found = [recipe for recipe in map(recipe_of, names) if recipe is not None]
    return tuple(found) if len(found) == len(names) else None


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
