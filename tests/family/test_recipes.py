"""The family: the standard order written out as the protocol's index formula, costs counted by hand, slugs
and budgets.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.exports.graph import pack_model
from engine.family.cost import admissible, cost, costs, parse_budget, stored_costs, weight_bytes
from engine.family.quantize import Percentiles, dequantize
from engine.family.recipes import (
    BITS,
    PERCENTILES,
    custom_family,
    parse_candidate,
    parse_slug,
    standard_family,
)
from engine.family.weights import candidate_weights, check_family, quantized_kernels, quantized_weights
from engine.types import Recipe, UserError
from tests.tiny_teacher import tiny_teacher


@pytest.mark.parametrize("granularity", ["channel", "lastaxis"])
def test_standard_family_is_in_index_order(granularity: str) -> None:
    family = standard_family(granularity)
    assert len(family) == len(set(family)) == 72
    for i, recipe in enumerate(family):
        assert recipe == Recipe(
            BITS[i // 12], PERCENTILES[(i // 4) % 3], ("tensor", granularity)[(i // 2) % 2], bool(i % 2)
        )
    assert family[0].slug == "b2-tensor-q99"
    assert family[71].slug == f"b8-{granularity}-q100-ends"


def test_custom_grids() -> None:
    family = custom_family((7,), (95, 100), ("lastaxis",), (True,))
    assert [recipe.slug for recipe in family] == ["b7-lastaxis-q95-ends", "b7-lastaxis-q100-ends"]
    with pytest.raises(UserError, match="no bit width"):
        custom_family((), (99.0,), ("channel",), (False,))
    with pytest.raises(UserError, match="twice"):
        custom_family((4, 4), (99.0,), ("channel",), (False,))
    with pytest.raises(UserError, match="2 to 8"):
        custom_family((9,), (99.0,), ("channel",), (False,))


@pytest.mark.parametrize(
    "recipe",
    [*standard_family(), *standard_family("lastaxis"), Recipe(7, 73.25, "tensor", True)],
    ids=lambda r: r.slug,
)
def test_slugs_round_trip(recipe: Recipe) -> None:
    assert parse_slug(recipe.slug) == recipe


def test_slugs_are_read_with_or_without_decimals() -> None:
    assert parse_slug("b4-channel-q100.0") == parse_slug(" b4-channel-q100 ")
    for text in (
        "",
        "b4",
        "b4-channel",
        "b4-row-q99",
        "b4-channel-q99.5-end",
        "B4-channel-q99",
        "b9-channel-q99",
        "b4-channel-q101",
    ):
        with pytest.raises(UserError):
            parse_slug(text)


def test_candidates_by_index_or_name() -> None:
    family = standard_family()
    assert parse_candidate("0", family) == family[0]
    assert parse_candidate("71", family) == parse_candidate("b8-channel-q100-ends", family) == family[71]
    for text, words in (
        ("72", "0 to 71"),
        ("-1", "0 to 71"),
        ("b7-channel-q100", "not in this family"),
        ("best", "not a candidate name"),
    ):
        with pytest.raises(UserError, match=words):
            parse_candidate(text, family)


def test_endpoints_stay_float() -> None:
    teacher = tiny_teacher()
    assert [k.name for k in quantized_kernels(teacher, Recipe(4, 100, "channel", True))] == [
        "depthwise",
        "point",
    ]
    assert len(quantized_kernels(teacher, Recipe(4, 100, "channel", False))) == 4


def test_a_family_that_cannot_be_is_refused() -> None:
    teacher = tiny_teacher()
    check_family(teacher, standard_family())
    with pytest.raises(UserError, match="Keras"):
        check_family(teacher, standard_family("lastaxis"))
    object.__setattr__(teacher, "kernels", teacher.kernels[:2])
    with pytest.raises(UserError, match="nothing is left"):
        check_family(teacher, standard_family())


def test_candidate_weights_are_the_dequantized_codes_and_leave_the_teacher_alone() -> None:
    teacher = tiny_teacher()
    before = {name: array.copy() for name, array in teacher.weights.items()}
    family = standard_family()
    shared = Percentiles.for_recipes(teacher.weights, family)
    for recipe in family[::7]:
        weights = candidate_weights(teacher, recipe, shared)
        codes = quantized_weights(teacher, recipe)
        assert list(weights) == [kernel.name for kernel in quantized_kernels(teacher, recipe)]
        for name, array in weights.items():
            assert array.dtype == np.float32
            np.testing.assert_array_equal(array, dequantize(codes[name]))
            assert len(np.unique(array)) > 1
    for name, array in teacher.weights.items():
        np.testing.assert_array_equal(array, before[name])


def test_more_bits_come_closer_to_the_teacher() -> None:
    teacher = tiny_teacher()
    errors = [
        sum(
            float(((w - teacher.weights[n]) ** 2).sum())
            for n, w in candidate_weights(teacher, Recipe(b, 100, "channel", False)).items()
        )
        for b in BITS
    ]
    assert errors == sorted(errors, reverse=True)


def test_cost_counted_by_hand() -> None:
    teacher = tiny_teacher(n_classes=4, width=8)
    # kernels 216 + 72 + 128 + 64 weights; BatchNorm 4 * 8 and the head's bias 4 stay float
    assert teacher.float_bytes == 4 * (216 + 72 + 128 + 64 + 32 + 4)
    assert weight_bytes(teacher, Recipe(4, 99, "tensor", False)) == 480 / 2 + 4 * 4 + 4 * 36
    assert (
        weight_bytes(teacher, Recipe(3, 99, "channel", False)) == 480 * 3 / 8 + 4 * (8 + 8 + 16 + 4) + 4 * 36
    )
    assert weight_bytes(teacher, Recipe(8, 99, "tensor", True)) == 200 + 4 * 2 + 4 * (36 + 216 + 64)
    assert cost(teacher, Recipe(4, 99, "tensor", False)) == pytest.approx(400 / 2064)
    all_costs = costs(teacher, standard_family())
    assert all_costs.shape == (72,)
    assert ((all_costs > 0) & (all_costs < 1)).all()


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("0.22", 0.22),
        (" 22% ", 0.22),
        ("1", 1.0),
        ("1.1MB", 0.11),
        ("800kB", 0.08),
        ("500 KB", 0.05),
        ("1MiB", 0.1048576),
        (".5", 0.5),
        ("1e-1", 0.1),
    ],
)
def test_budgets_are_read(text: str, share: float) -> None:
    assert parse_budget(text, 10_000_000) == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "lots", "22", "-0.1", "0", "0%", "5 parsecs", "nan", "inf", "1,1MB"])
def test_budgets_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="budget"):
        parse_budget(text, 10_000_000)


def test_a_size_needs_the_teacher() -> None:
    with pytest.raises(UserError, match="size"):
        parse_budget("1MB", None)
    for text in ("abc", "22", "1e9"):  # where sizes cannot be read, none is suggested
        with pytest.raises(UserError) as caught:
            parse_budget(text, None)
        assert "MB" not in str(caught.value)


def test_stored_costs_are_those_of_the_next_container() -> None:
    names = (
        "b2-tensor-q100",
        "b3-tensor-q100",
        "b4-tensor-q100",
        "b5-tensor-q100",
        "b6-tensor-q99",
        "b8-tensor-q100",
        "mine",
    )
    stored = stored_costs(names, np.array([0.07, 0.1, 0.13, 0.16, 0.19, 0.25, 0.3]))
    # b8-tensor-q99 is not there
    np.testing.assert_array_equal(stored, [0.07, 0.13, 0.13, 0.25, np.nan, 0.25, np.nan])


def test_stored_costs_are_what_the_file_takes() -> None:
    """The packed tensors of a real file against the cost of the sibling that the file's integers belong
    to.
    """
    teacher = tiny_teacher()
    family = standard_family()
    stored = stored_costs([recipe.slug for recipe in family], costs(teacher, family))
    for index in (3, 15, 39, 51, 63):
        packed = pack_model(teacher, family[index])
        sibling = replace(family[index], bits=packed.container_bits)
        assert stored[index] == pytest.approx(cost(teacher, sibling))


def test_admissible_forgives_rounding_only() -> None:
    values = np.array([0.1 + 0.2, 0.3, 0.300001])
    assert admissible(values, 0.3).tolist() == [True, True, False]
    assert admissible(values, None).all()
