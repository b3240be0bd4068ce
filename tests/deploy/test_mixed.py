"""Mixed precision: the exact division of bits, layers measured once, within the memory, never worse than
uniform.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from engine.deploy import sensitivity
from engine.deploy.allocation import LayerTable, allocate, monotone
from engine.deploy.calibration import Calibration, calibrate_on
from engine.deploy.clipping import clipped
from engine.deploy.mixed import Choice, MixedFactory
from engine.deploy.sensitivity import MEASURED, Probing, divergence, measure, n_probed
from engine.family.cost import weight_bytes
from engine.family.families import share_at
from engine.family.kinds import MixedRecipe
from engine.family.quantize import Quantized, dequantize
from engine.family.recipes import PERCENTILES, custom_family
from engine.family.weights import quantized_weights
from engine.types import Kernel, Recipe, UserError
from tests.tiny_teacher import tiny_teacher


@pytest.fixture
def calibration() -> Calibration:
    images = np.random.default_rng(2).standard_normal((40, 3, 16, 16)).astype(np.float32)
    return calibrate_on(tiny_teacher(width=16), images)


@pytest.mark.parametrize("seed", range(5))
def test_bits_are_divided_as_brute_force_divides_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_bytes = np.sort(rng.uniform(1, 100, (5, 3)), axis=1)
    harm = -np.sort(-rng.exponential(1, (5, 3)), axis=1)
    table = LayerTable(tuple("abcde"), (2, 4, 8), n_bytes, harm)
    limit = 0.5 * (n_bytes[:, 0].sum() + n_bytes[:, 2].sum())
    rows = np.arange(5)
    feasible = [p for p in product(range(3), repeat=5) if n_bytes[rows, p].sum() <= limit]
    best = min(harm[rows, p].sum() for p in feasible)
    found = allocate(table, limit)
    places = [table.bits.index(found[name]) for name in table.names]
    assert n_bytes[rows, places].sum() <= limit
    assert harm[rows, places].sum() == pytest.approx(best)


def test_too_little_memory_is_refused() -> None:
    table = LayerTable(("a",), (2, 4), np.array([[10.0, 20.0]]), np.array([[1.0, 0.0]]))
    with pytest.raises(UserError, match="at least 10 bytes"):
        allocate(table, 9)


def test_more_bits_never_count_as_more_harm() -> None:
    raised = monotone(np.array([[1.0, 0.2, 0.3]]), (2, 4, 8))
    np.testing.assert_array_equal(raised, [[1.0, 0.3, 0.3]])


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_a_clip_is_the_best_of_those_tried(bits: int) -> None:
    weights = np.random.default_rng(0).standard_t(3, (4, 3, 3, 3)).astype(np.float32)
    kernel = Kernel("k", weights.shape, (0,), "Conv")
    found = clipped(weights, kernel, bits)
    top = 2 ** (bits - 1) - 1
    shares = np.linspace(1.0, 0.3, 15) if bits <= 4 else np.linspace(1.0, 0.7, 5)
    total = 0.0
    for row in weights.reshape(4, -1).astype(np.float64):
        scales = np.abs(row).max() / top * shares
        total += min(((np.clip(np.rint(row / s), -top, top) * s - row) ** 2).sum() for s in scales)
    assert found.error == pytest.approx(total / weights.size, rel=1e-4)
    error = np.mean((dequantize(found.quantized) - weights) ** 2)
    assert found.error == pytest.approx(float(error), rel=1e-4)


def test_layers_are_measured_once_and_alone(
    calibration: Calibration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = measure(calibration, tmp_path)
    assert table.harm.shape == (4, 6)
    assert (np.diff(table.harm, axis=1) <= 0).all()
    teacher, kernel = calibration.teacher, calibration.teacher.kernels[2]
    probing = Probing.of(teacher, calibration.images, calibration.batch)
    alone = dequantize(clipped(teacher.weights[kernel.name], kernel, 5).quantized)
    reference = probing.probs({})
    expected = divergence(reference, probing.probs({kernel.name: alone}))
    assert table.harm[2, MEASURED.index(5)] == pytest.approx(expected, rel=1e-3)
    monkeypatch.setattr(sensitivity, "Probing", None)  # nothing may be run again
    again = measure(calibration, tmp_path)
    np.testing.assert_array_equal(again.harm, table.harm)


def test_the_measurement_costs_at_most_two_families() -> None:
    for n_layers, n_calibration in ((10, 20), (53, 500), (400, 500), (161, 30)):
        n = n_probed(n_layers, n_calibration)
        assert 1 <= n <= 64
        assert n == 1 or n * n_layers * len(MEASURED) <= 2 * 72 * n_calibration


def test_a_mixed_candidate_fits_and_is_no_worse_than_uniform(
    calibration: Calibration, tmp_path: Path
) -> None:
    teacher = calibration.teacher
    factory = MixedFactory(calibration, tmp_path)
    recipe = MixedRecipe(share_at(teacher, 4))
    made = factory.make(recipe)
    assert made.weight_bytes <= recipe.share * teacher.float_bytes
    bits = made.facts["allocation"]
    assert set(bits) == set(teacher.weights)
    probing = Probing.of(teacher, calibration.images, calibration.batch)
    reference = probing.probs({})

    def distance(choice: Choice) -> float:
        found = {name: dequantize(item) for name, item in factory.quantized(choice).items()}
        return probing.distance(reference, found)

    assert dict(factory.choose(recipe).bits) == bits
    nearest = distance(factory.choose(recipe))
    for percentile in (None, 99.0, 99.5, 100.0):
        assert nearest <= distance(Choice(dict.fromkeys(bits, 4), percentile)) + 1e-9


@pytest.mark.parametrize(
    "recipe", custom_family((3, 4), PERCENTILES, ("channel",), (False, True)), ids=lambda r: r.slug
)
def test_every_uniform_candidate_is_within_reach_of_its_own_memory(
    calibration: Calibration, tmp_path: Path, recipe: Recipe
) -> None:
    """At the memory of a candidate of the paper with one scale a channel, that very candidate is among what
    is compared, its float ends too: so a mixed one is never farther on the images it is chosen on.
    """
    teacher, factory = calibration.teacher, MixedFactory(calibration, tmp_path)
    share = weight_bytes(teacher, recipe) / teacher.float_bytes
    expected = quantized_weights(teacher, recipe)
    choices = factory.choices(MixedRecipe(share))
    assert all(factory.n_bytes(choice) <= share * teacher.float_bytes * 1.00001 for choice in choices)
    assert any(_same(factory.quantized(choice), expected) for choice in choices)


def _same(ours: dict[str, Quantized], theirs: dict[str, Quantized]) -> bool:
    return set(ours) == set(theirs) and all(
        np.array_equal(ours[name].codes, item.codes) and np.array_equal(ours[name].scales, item.scales)
        for name, item in theirs.items()
    )


def test_a_share_below_two_bits_is_refused(calibration: Calibration, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"mix-0\.01: the layers need at least"):
        MixedFactory(calibration, tmp_path).make(MixedRecipe(0.01))
