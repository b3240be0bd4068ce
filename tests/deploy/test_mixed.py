"""Mixed precision: the exact division of bits, layers measured once, within the memory, never worse than
uniform.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from engine.deploy import sensitivity
from engine.deploy.allocation import CHOICES, LayerTable, allocate, monotone
from engine.deploy.calibration import Calibration, calibrate_on
from engine.deploy.clipping import clipped
from engine.deploy.mixed import Choice, MixedFactory
from engine.deploy.probing import Probing, Reference, divergences
from engine.deploy.sensitivity import MEASURED, measure, n_probed
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


def test_many_layers_are_divided_as_a_solver_divides_them() -> None:
    rng, bits = np.random.default_rng(0), np.array(CHOICES)
    sizes = np.exp(rng.uniform(5, 13, (60, 1)))
    harm = np.exp(rng.normal(0, 2, (60, 1)) + rng.normal(0, 0.3, (60, 6))) * 4.0 ** -(bits - 2)
    table = LayerTable(
        tuple(map(str, range(60))), CHOICES, n_bytes=sizes * bits / 8, harm=monotone(harm, CHOICES)
    )
    for share in (0.08, 0.2, 0.6):
        limit = float((1 - share) * table.n_bytes[:, 0].sum() + share * table.n_bytes[:, -1].sum())
        found = allocate(table, limit)
        picks = [CHOICES.index(found[name]) for name in table.names]
        assert table.n_bytes[np.arange(60), picks].sum() <= limit
        solved = milp(
            table.harm.ravel(),
            integrality=np.ones(360),
            bounds=Bounds(0, 1),
            constraints=[
                LinearConstraint(np.kron(np.eye(60), np.ones(6)), 1, 1),
                LinearConstraint(table.n_bytes.reshape(1, -1) / limit, -np.inf, 1),
            ],
        )
        assert table.harm[np.arange(60), picks].sum() <= solved.fun * 1.001


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
    alone = dequantize(clipped(teacher.weights[kernel.name], kernel, 4).quantized)
    expected = divergences(probing.probs({}), probing.probs({kernel.name: alone})).mean()
    assert table.harm[2, MEASURED.index(4)] == pytest.approx(expected, rel=1e-3)
    monkeypatch.setattr(sensitivity, "Reference", None)  # nothing may be run again
    again = measure(calibration, tmp_path)
    np.testing.assert_array_equal(again.harm, table.harm)


def test_the_measurement_costs_at_most_half_a_family() -> None:
    for n_layers, n_calibration in ((10, 20), (53, 500), (400, 500), (161, 30)):
        n = n_probed(n_layers, n_calibration)
        assert 1 <= n <= 64
        assert n == 1 or n * n_layers * len(MEASURED) <= 36 * n_calibration


def test_a_comparison_ends_where_another_is_known_to_be_nearer(calibration: Calibration) -> None:
    teacher, kernel = calibration.teacher, calibration.teacher.kernels[2]
    reference = Reference.of(calibration, 40)
    coarse = {kernel.name: dequantize(clipped(teacher.weights[kernel.name], kernel, 2).quantized)}
    whole = reference.distance(coarse)
    expected = divergences(reference.probs, reference.probing.probs(coarse)).mean()
    assert whole.whole
    assert whole.value == pytest.approx(expected)
    early = reference.distance(coarse, limit=whole.value / 4)
    assert not early.whole
    assert whole.value / 4 < early.value < whole.value
    assert reference.distance(coarse, limit=whole.value) == whole
    broken = reference.distance({kernel.name: np.full(kernel.shape, np.nan, np.float32)})
    assert broken.value == pytest.approx(-np.log(1e-8))


def test_the_nearest_choice_is_that_of_measuring_all(calibration: Calibration, tmp_path: Path) -> None:
    """Whatever was given up early at another share, in whatever order."""
    factory = MixedFactory(calibration, tmp_path)
    reference = Reference.of(calibration, 40)
    for bits in (6, 3, 4, 2.5, 3):
        choices = factory.choices(MixedRecipe(share_at(calibration.teacher, bits)))
        kernels = [{n: dequantize(q) for n, q in factory.quantized(c).items()} for c in choices]
        distances = [reference.distance(k).value for k in kernels]
        found = factory.choose(MixedRecipe(share_at(calibration.teacher, bits)))
        assert found.key == choices[int(np.argmin(distances))].key


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
    reference = Reference.of(calibration, len(calibration.images))

    def distance(choice: Choice) -> float:
        found = {name: dequantize(item) for name, item in factory.quantized(choice).items()}
        return reference.distance(found).value

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
