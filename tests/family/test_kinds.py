"""Names of every kind of candidate: what they state, and that they come back."""

from __future__ import annotations

import pytest

from engine.family.families import FAMILIES, expected_cost, make_family, parse_family, share_at, split_family
from engine.family.kinds import CorrectedRecipe, MixedRecipe, StaticRecipe, parse_any, tailored_of, traits_of
from engine.family.recipes import recipe_of, standard_family
from engine.types import Recipe, UserError
from tests.tiny_teacher import tiny_teacher

NAMES = (
    "b8a8-channel-minmax",
    "b8a8-tensor-p99.9",
    "b8a8-channel-p99.99-ends",
    "b8a8-channel-mse",
    "mix-0.14",
    "mix-0.1375",
    "mix-0.14-opt",
    "b4-channel-q100-bc",
    "b3-channel-q99.5-ends-opt",
)


@pytest.mark.parametrize("name", [*NAMES, "b4-tensor-q99"])
def test_a_name_comes_back(name: str) -> None:
    assert parse_any(name).slug == name


@pytest.mark.parametrize("name", NAMES)
def test_the_72_are_what_they_were(name: str) -> None:
    assert recipe_of(name) is None  # a tailored candidate is never taken for one of the grid
    assert tailored_of("b4-channel-q99.5-ends") is None


@pytest.mark.parametrize(
    "name",
    ["b8a8-channel", "b8a8-lastaxis-minmax", "mix-1.4", "mix-0", "mix-0.14-bc", "b4-channel-bc", "release-3"],
)
def test_other_names_are_nobodys(name: str) -> None:
    assert traits_of(name) is None
    with pytest.raises(UserError, match="is not a candidate name"):
        parse_any(name)


def test_what_a_name_states() -> None:
    assert traits_of("b8a8-tensor-mse-ends") == traits_of("b8a8-tensor-minmax-ends")
    static = traits_of("b8a8-tensor-mse-ends")
    assert static is not None
    assert (static.kind, static.bits, static.granularity, static.float_ends) == ("integer", 8, "tensor", True)
    mended = traits_of("b3-channel-q99.5-opt")
    assert mended is not None
    assert (mended.kind, mended.bits, mended.percentile) == ("corrected", 3, 99.5)
    mixed = traits_of("mix-0.2")
    assert mixed is not None
    assert (mixed.kind, mixed.bits) == ("mixed", None)


def test_the_paper_family_is_the_standard_one() -> None:
    assert make_family("paper", tiny_teacher()) == standard_family()


def test_the_deploy_family_has_every_kind_once() -> None:
    family = make_family("deploy", tiny_teacher(width=64), budget=0.2)
    slugs = [recipe.slug for recipe in family]
    assert len(slugs) == len(set(slugs))
    assert 40 <= len(slugs) <= 60
    kinds = {type(recipe) for recipe in family}
    assert kinds == {Recipe, StaticRecipe, MixedRecipe, CorrectedRecipe}
    assert {"mix-0.2", "mix-0.2-opt"} <= set(slugs)
    weights, tailored = split_family(family)
    assert len(weights) + len(tailored) == len(family)


def test_all_is_both_without_repeats() -> None:
    teacher = tiny_teacher(width=64)
    both = make_family("all", teacher)
    assert both[:72] == standard_family()
    assert set(both) == {*standard_family(), *make_family("deploy", teacher)}
    assert len(both) == len(set(both))


def test_a_mixed_share_is_what_uniform_bits_take() -> None:
    teacher = tiny_teacher(width=64)
    exact = expected_cost(teacher, Recipe(4, 100.0, "channel", False))
    assert exact <= share_at(teacher, 4) < exact + 0.01
    assert expected_cost(teacher, MixedRecipe(0.3)) == 0.3


def test_an_unknown_family_is_explained() -> None:
    assert [parse_family(name) for name in FAMILIES] == list(FAMILIES)
    with pytest.raises(UserError, match="paper, deploy, all"):
        parse_family("best")
