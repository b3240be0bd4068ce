"""Round trips over the family: whatever framework and layout a teacher has, its exported candidates are the
judged ones.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.exports.graph import pack_model
from engine.exports.parity import check_weights, float_candidate, rounding_limit, run_file
from engine.exports.sizes import check_sizes, measure_sizes
from engine.exports.verification import verify
from engine.exports.writing import write
from engine.family.recipes import parse_slug, standard_family
from engine.family.weights import candidate_weights, check_family
from engine.samples import sample_names, sample_target
from engine.target import normalise, prepare
from engine.teacher.agreement import random_images
from engine.teacher.apart import Way
from engine.teacher.load import load_sample_teacher
from engine.types import Recipe, Teacher, UserError

pytestmark = pytest.mark.slow

FAMILY = standard_family()
# Every bit width with both granularities, percentiles and endpoints in turn: what a larger graph is given.
DOZEN = tuple(
    FAMILY[12 * bits + 4 * (bits % 3) + 2 * channel + (bits + channel) % 2]
    for bits in range(6)
    for channel in range(2)
)
WHOLE = ("torch-hand", "keras-hand")
LARGER = ("timm-resnet18", "timm-vit")
# fifty untrained depthwise layers in a row magnify every rounding
CHAOTIC = (
    "timm-mobilenetv2",
    "keras-mobilenetv2",
)


@functools.lru_cache(maxsize=3)
def _teacher(name: str) -> Teacher:
    from tests.teacher.importers.cases import BUILDERS

    return BUILDERS[name]().teacher


def _require_round_trip(
    teacher: Teacher, recipe: Recipe, images: NDArray[np.float32] | None = None, *, chaotic: bool = False
) -> None:
    """A chaotic network differs from itself by more than 1e-5 between optimization levels; there the measured
    spread is the limit.
    """
    images = random_images(3, teacher.preprocessing, 5) if images is None else images
    content, weights = pack_model(teacher, recipe).content, candidate_weights(teacher, recipe)
    candidate = float_candidate(teacher, weights)
    judged = run_file(candidate, images, teacher.output)
    limit = rounding_limit(candidate, images, teacher.output) if chaotic else 1e-5
    assert np.abs(run_file(content, images, teacher.output, Way("all")) - judged).max() < limit
    if recipe.percentile == 99.5:  # 72 recipes on many teachers have to stay affordable
        assert np.abs(run_file(content, images, teacher.output, Way("disabled")) - judged).max() < limit
        assert np.abs(run_file(content, images, teacher.output, Way(folded=True)) - judged).max() < 1e-5
    assert check_weights(content, teacher, recipe, weights).passed
    size = check_sizes(measure_sizes(teacher, recipe, content, 25))
    assert size.passed, size


def test_the_dozen_covers_every_option() -> None:
    assert {recipe.bits for recipe in DOZEN} == {2, 3, 4, 5, 6, 8}
    assert {recipe.percentile for recipe in DOZEN} == {99.0, 99.5, 100.0}
    assert {(recipe.granularity, recipe.float_ends) for recipe in DOZEN} == {
        (g, e) for g in ("tensor", "channel") for e in (False, True)
    }


@pytest.mark.parametrize("name", WHOLE)
def test_all_72_on_every_layout(name: str) -> None:
    for recipe in FAMILY:
        _require_round_trip(_teacher(name), recipe)


def test_last_axis_of_keras() -> None:
    for slug in ("b2-lastaxis-q99", "b4-lastaxis-q99.5-ends", "b8-lastaxis-q100"):
        _require_round_trip(_teacher("keras-hand"), parse_slug(slug))


@pytest.mark.parametrize("name", LARGER)
def test_a_dozen_on_larger_graphs(name: str) -> None:
    for recipe in DOZEN:
        _require_round_trip(_teacher(name), recipe)


@pytest.mark.parametrize("name", CHAOTIC)
def test_networks_that_magnify_rounding(name: str) -> None:
    for recipe in DOZEN[1::2]:
        _require_round_trip(_teacher(name), recipe, chaotic=True)


@pytest.mark.parametrize("name", sample_names(with_teacher=True))
def test_all_72_on_the_samples(name: str) -> None:
    try:
        teacher = load_sample_teacher(name)
    except UserError as error:
        pytest.skip(f"this sample does not ship its teacher: {error}")
    check_family(teacher, FAMILY)
    pixels = [
        prepare(np.repeat(image[..., None], 3, axis=-1), teacher.preprocessing)
        for image in sample_target().pool_images[:8]
    ]
    images = normalise(np.stack(pixels), teacher.preprocessing)
    for recipe in FAMILY:
        _require_round_trip(teacher, recipe, images)


@pytest.mark.parametrize("name", ["timm-vit", "timm-mobilenetv2"])
@pytest.mark.parametrize("slug", ["b2-channel-q99-ends", "b4-channel-q99.5"])
def test_certificate_of_a_transformer_and_a_depthwise_network_passes(
    name: str, slug: str, tmp_path: Path
) -> None:
    certificate = write(_teacher(name), parse_slug(slug), tmp_path)
    assert certificate.passed, [check for check in certificate.checks if not check.passed]
    assert len(certificate.checks) == 12
    assert verify(tmp_path).passed
