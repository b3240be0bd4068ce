"""Candidates beside the weight-only grid: how they are called, and what any name says about its candidate.

Knows names. How these candidates are made, which takes calibration images, is not known here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from engine.family.recipes import is_slug, parse_slug, recipe_of
from engine.types import Recipe, UserError

RangeMethod = Literal["minmax", "p99.9", "p99.99", "mse"]
RANGE_METHODS: tuple[RangeMethod, ...] = get_args(RangeMethod)
WeightScales = Literal["tensor", "channel"]
Correction = Literal["bc", "opt"]
Kind = Literal["weights", "integer", "mixed", "corrected"]

_STATIC = re.compile(r"b8a8-(tensor|channel)-(minmax|p99\.9|p99\.99|mse)(-ends)?")
_MIXED = re.compile(r"mix-(0?\.\d+)(-opt)?")
_CORRECTED = re.compile(r"(b\d.*?)-(bc|opt)")


@dataclass(frozen=True, order=True)
class StaticRecipe:
    """Weights and activations in 8 bits; activations over ranges that `method` reads off calibration
    images.
    """

    granularity: WeightScales
    method: RangeMethod
    float_ends: bool

    @property
    def slug(self) -> str:
        """The candidate's stable name, e.g. `b8a8-channel-p99.99-ends`."""
        return f"b8a8-{self.granularity}-{self.method}{'-ends' if self.float_ends else ''}"


@dataclass(frozen=True, order=True)
class MixedRecipe:
    """Each layer with its own bits, so that all weights together take at most `share` of the float memory.

    `optimised` rounds with the calibration images' second moments instead of to the nearest code.
    """

    share: float
    optimised: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise UserError(
                f"mixed precision at {self.share:g} of the float memory is not possible. Give a share between"
                " 0 and 1, e.g. mix-0.14."
            )

    @property
    def slug(self) -> str:
        """The candidate's stable name, e.g. `mix-0.14`."""
        return f"mix-{self.share:g}{'-opt' if self.optimised else ''}"


@dataclass(frozen=True, order=True)
class CorrectedRecipe:
    """A weight-only recipe mended with calibration images: its biases (`bc`) or its rounding (`opt`)."""

    recipe: Recipe
    correction: Correction

    @property
    def slug(self) -> str:
        """The candidate's stable name, e.g. `b4-channel-q100-bc`."""
        return f"{self.recipe.slug}-{self.correction}"


Tailored = StaticRecipe | MixedRecipe | CorrectedRecipe
AnyRecipe = Recipe | Tailored


@dataclass(frozen=True)
class Traits:
    """What a name states about its candidate; None where it states nothing."""

    kind: Kind
    bits: int | None = None
    granularity: str | None = None
    percentile: float | None = None
    float_ends: bool | None = None


def parse_any(text: str) -> AnyRecipe:
    """Return the recipe of any kind that a slug names; raise UserError if it names none.

    >>> parse_any("b8a8-channel-p99.99-ends").method
    'p99.99'
    >>> parse_any("mix-0.14").share
    0.14
    """
    name = text.strip()
    if (tailored := tailored_of(name)) is not None:
        return tailored
    if not is_slug(name):
        raise UserError(
            f"{text!r} is not a candidate name. Write it like b4-channel-q99.5, b8a8-channel-minmax, mix-0.14"
            " or b4-channel-q100-bc."
        )
    return parse_slug(name)


def tailored_of(name: str) -> Tailored | None:
    """Return the recipe that needs calibration images a name states, or None for every other name."""
    if match := _STATIC.fullmatch(name):
        scales: WeightScales = "tensor" if match[1] == "tensor" else "channel"
        method = next(known for known in RANGE_METHODS if known == match[2])
        return StaticRecipe(scales, method, match[3] is not None)
    if match := _MIXED.fullmatch(name):
        return MixedRecipe(float(match[1]), match[2] is not None) if float(match[1]) > 0 else None
    if match := _CORRECTED.fullmatch(name):
        base = recipe_of(match[1])
        return None if base is None else CorrectedRecipe(base, "bc" if match[2] == "bc" else "opt")
    return None


def traits_of(name: str) -> Traits | None:
    """Return what a candidate's name states, of whichever kind; None if it came from elsewhere.

    >>> traits_of("b8a8-tensor-minmax").bits
    8
    >>> traits_of("mix-0.14").bits is None
    True
    """
    recipe = recipe_of(name)
    if recipe is not None:
        return _weight_traits("weights", recipe)
    tailored = tailored_of(name)
    if isinstance(tailored, CorrectedRecipe):
        return _weight_traits("corrected", tailored.recipe)
    if isinstance(tailored, StaticRecipe):
        return Traits(
            kind="integer",
            bits=8,
            granularity=tailored.granularity,
            percentile=None,
            float_ends=tailored.float_ends,
        )
    return None if tailored is None else Traits("mixed")


def _weight_traits(kind: Kind, recipe: Recipe) -> Traits:
    return Traits(
        kind=kind,
        bits=recipe.bits,
        granularity=recipe.granularity,
        percentile=recipe.percentile,
        float_ends=recipe.float_ends,
    )
