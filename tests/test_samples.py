"""Every sample opens through the public path, is what the README says it is, and is stored without changing a
pick.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.decide.choose import METHODS, choose, statistics_of
from engine.family.kinds import traits_of
from engine.family.recipes import standard_family
from engine.predictions.deployed import read_allocation
from engine.predictions.file import load_sample_predictions
from engine.rules.label_free import LABEL_FREE
from engine.rules.sampling import draw_sample
from engine.samples import (
    DIGIT_CLASSES,
    DIGIT_PREPROCESSING,
    FOLDER,
    POOL_SIZE,
    SAMPLES,
    TEST_SIZE,
    sample_names,
    sample_target,
)
from engine.teacher.load import load_sample_teacher
from engine.types import Predictions, Teacher, UserError
from sample_models.measure import truth_of

TEACHERS = sample_names(with_teacher=True)


def test_committed_files_stay_small() -> None:
    # 8 MB of teachers and predictions, and 2 MB for the ten files from other tools with theirs
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.suffix != ".pyc") < 10e6


def test_catalogue_covers_every_importer_and_the_photographs() -> None:
    suffixes = {Path(sample.teacher).suffix for sample in SAMPLES.values() if sample.teacher}
    assert suffixes == {".pt2", ".keras", ".onnx"}
    assert set(sample_names()) - set(TEACHERS) == {
        "digits-deploy",
        "digits-files",
        "pacs-sketch",
        "pacs-cartoon",
    }


def test_importing_samples_loads_no_framework() -> None:
    code = (
        "import sys, engine.samples; print(sorted({'torch', 'keras', 'onnx', 'onnxruntime', 'sklearn', 'PIL'}"
        " & set(sys.modules)))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_target_is_scikit_learns_digits_split_without_overlap() -> None:
    from sklearn.datasets import load_digits

    target, original = sample_target(), load_digits()
    images = np.concatenate([target.pool_images, target.test_images])
    labels = np.concatenate([target.pool_labels, target.test_labels])
    assert target.pool_images.shape == (POOL_SIZE, 32, 32)
    assert images.dtype == np.uint8
    assert len(images) == POOL_SIZE + TEST_SIZE
    # Averaging 4x4 blocks undoes the enlargement up to its smoothing: each image is nearest to its own
    # original.
    small = images.reshape(-1, 8, 4, 8, 4).mean(axis=(2, 4)).reshape(len(images), -1) * (16 / 255)
    source = original.data
    distances = (small**2).sum(1)[:, None] - 2 * small @ source.T + (source**2).sum(1)
    matches = distances.argmin(axis=1)
    assert len(np.unique(matches)) >= 898  # no image twice, but for near-twins that smoothing confuses
    assert np.array_equal(original.target[matches], labels)
    assert not {image.tobytes() for image in target.pool_images} & {
        image.tobytes() for image in target.test_images
    }


def test_target_is_shuffled_and_the_same_every_time() -> None:
    first, second = sample_target(), sample_target()
    assert np.array_equal(first.pool_images, second.pool_images)
    # both halves of the pool see all classes
    assert np.bincount(first.pool_labels[:150], minlength=10).min() >= 5
    assert np.bincount(first.pool_labels[150:], minlength=10).min() >= 5


@pytest.mark.parametrize("name", sample_names(of_recipes=True))
def test_predictions_hold_the_whole_family_with_labels_and_test_part(name: str) -> None:
    predictions = load_sample_predictions(name)
    photo = SAMPLES[name].target == "photo"
    assert predictions.names == tuple(recipe.slug for recipe in standard_family())
    assert predictions.candidates.shape == ((72, 300, 7) if photo else (72, 300, 10))
    assert predictions.candidates_test is not None
    assert predictions.labels_test is not None
    assert predictions.candidates_test.shape[1] == (900 if photo else 600)
    assert predictions.calibration == predictions.n_images // 2
    assert (predictions.labels >= 0).all()
    assert predictions.cost is not None
    assert 0 < predictions.cost.min() < predictions.cost.max() < 1
    assert predictions.class_names is not None
    assert not predictions.missing


@pytest.mark.parametrize("name", sample_names(of_recipes=True))
def test_predictions_show_a_real_choice(name: str) -> None:
    """The candidates differ enough to matter, some are useless, and the best is far better than chance."""
    predictions = load_sample_predictions(name)
    assert predictions.candidates_test is not None
    assert predictions.labels_test is not None
    labels = predictions.labels_test
    probs = np.maximum(
        predictions.candidates_test[:, np.arange(len(labels)), labels].astype(np.float64), 1e-8
    )
    losses = -np.log(probs).mean(axis=1)
    assert np.ptp(losses) > 1
    assert losses.min() < 0.9 * np.log(predictions.n_classes)


def test_the_deploy_family_ships_every_kind_with_times_and_bits() -> None:
    predictions = load_sample_predictions("digits-deploy")
    kinds = {traits.kind for traits in map(traits_of, predictions.names) if traits is not None}
    assert kinds == {"weights", "integer", "mixed", "corrected"}
    assert 40 <= predictions.n_candidates <= 60
    assert predictions.latency is not None
    assert np.isfinite(predictions.latency).all()
    mixed = {name for name in predictions.names if name.startswith("mix-")}
    assert set(read_allocation(predictions.allocation)) == mixed
    assert np.array_equal(predictions.labels, sample_target().pool_labels)
    assert predictions.has_test


def test_digit_predictions_carry_the_targets_labels() -> None:
    predictions, target = load_sample_predictions("digits-resnet"), sample_target()
    assert np.array_equal(predictions.labels, target.pool_labels)
    assert np.array_equal(predictions.labels_test, target.test_labels)


def test_unknown_sample_is_refused_with_the_list() -> None:
    with pytest.raises(UserError, match="digits-resnet"):
        load_sample_predictions("digits-vgg")


def test_predictions_only_sample_has_no_teacher() -> None:
    with pytest.raises(UserError, match="predictions only"):
        load_sample_teacher("pacs-sketch")


def test_rendered_digits_are_reproducible_and_all_different() -> None:
    from sample_models.digits import render_digits

    first, again, other = render_digits(40, 3), render_digits(40, 3), render_digits(40, 4)
    assert first.images.shape == (40, 32, 32)
    assert np.array_equal(first.images, again.images)
    assert not np.array_equal(first.images, other.images)
    ink = (first.images > 128).mean(axis=(1, 2))
    assert ink.max() < 0.6  # bright ink on a dark ground, as the target


def test_every_font_draws_ten_different_digits() -> None:
    from PIL import ImageFont

    from sample_models.digits import _glyph, font_files

    for path in font_files():
        font = ImageFont.truetype(str(path), size=48)
        glyphs = {_glyph(digit, font).tobytes() for digit in "0123456789"}
        assert len(glyphs) == 10, path.name  # a symbol or last-resort font would repeat its box


def _probabilities(teacher: Teacher, images: NDArray[np.uint8]) -> NDArray[np.float32]:
    from scipy.special import softmax

    from engine.target import normalise, prepare
    from engine.teacher.runtime import open_session, run

    pixels = np.stack(
        [prepare(np.repeat(image[..., None], 3, axis=2), teacher.preprocessing) for image in images]
    )
    outputs = run(open_session(teacher.graph), normalise(pixels, teacher.preprocessing))
    return softmax(outputs, axis=1) if teacher.output == "logits" else outputs


@pytest.mark.slow
@pytest.mark.parametrize("name", TEACHERS)
def test_teacher_opens_by_its_spec_and_predicts_what_ships(name: str) -> None:
    from engine.teacher.load import load_teacher

    target, shipped = sample_target(), load_sample_predictions(name)
    probs = _probabilities(load_teacher(f"sample:{name}"), target.pool_images)
    assert np.abs(probs - shipped.teacher).max() < 1e-3
    metrics = json.loads((FOLDER / "metrics.json").read_text())[name]
    assert abs(np.mean(probs.argmax(axis=1) == target.pool_labels) - metrics["target_accuracy"]) < 0.05


@pytest.mark.slow
def test_bare_weights_open_with_the_name_of_their_architecture() -> None:
    from engine.teacher.load import load_teacher

    teacher = load_teacher(
        FOLDER / "digits-efficientnet.safetensors",
        arch="test_efficientnet",
        classes=10,
        preprocessing=DIGIT_PREPROCESSING,
        class_names=DIGIT_CLASSES,
    )
    target = sample_target()
    expected = json.loads((FOLDER / "metrics.json").read_text())["digits-efficientnet"]["target_accuracy"]
    assert (
        abs(
            np.mean(_probabilities(teacher, target.test_images).argmax(axis=1) == target.test_labels)
            - expected
        )
        < 0.05
    )


@pytest.fixture(scope="module")
def recomputed(tmp_path_factory: pytest.TempPathFactory) -> Predictions:
    from sample_models.families import predict_digits

    return predict_digits(
        load_sample_teacher("digits-resnet"), sample_target(), tmp_path_factory.mktemp("store")
    )


def test_rounding_keeps_the_predicted_class_where_it_makes_a_tie() -> None:
    from sample_models.families import _rounded

    probs = np.array([[[0.300001, 0.300002, 0.399997], [0.4999999, 0.5, 1e-7]]])
    rounded = _rounded(probs, 9)
    assert rounded.argmax(axis=-1).tolist() == [[2, 1]]
    assert np.abs(rounded / probs - 1).max() < 2**-7


@pytest.mark.slow
def test_rounding_for_shipment_changes_no_pick(recomputed: Predictions) -> None:
    shipped = load_sample_predictions("digits-resnet")
    assert not np.array_equal(shipped.candidates, recomputed.candidates)
    assert np.abs(shipped.candidates - recomputed.candidates).max() < 1e-4
    assert np.array_equal(truth_of(shipped).accuracies, truth_of(recomputed).accuracies)
    np.testing.assert_allclose(truth_of(shipped).losses, truth_of(recomputed).losses, rtol=5e-4)
    pools = [statistics_of(predictions) for predictions in (shipped, recomputed)]
    for method in METHODS:
        for n in (10, 25, 100, 300):
            for repetition in range(1 if method in LABEL_FREE else 10):
                sample = draw_sample(shipped.labels, n, n_classes=10, repetition=repetition)
                half, full = (
                    choose(method, predictions, sample, pool=pool, repetition=repetition)
                    for predictions, pool in zip((shipped, recomputed), pools, strict=True)
                )
                assert half.index == full.index, (method, n, repetition)
