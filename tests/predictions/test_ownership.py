"""Predictions that belong to the teacher, by fingerprint or, in older files, by what gives another model
away.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.family.cost import costs
from engine.family.recipes import standard_family
from engine.predictions.file import load_predictions, save_predictions
from engine.predictions.gather import predict
from engine.predictions.ownership import check_predictions
from engine.target import open_images
from engine.types import Predictions, Preprocessing, UserError
from tests.tiny_teacher import tiny_teacher

TEACHER = tiny_teacher()
FAMILY = standard_family()[:2]
PREDICTIONS = Predictions(
    teacher=np.full((3, 4), 0.25),
    candidates=np.full((2, 3, 4), 0.25),
    labels=np.full(3, -1),
    names=tuple(recipe.slug for recipe in FAMILY),
    calibration=1,
    cost=costs(TEACHER, FAMILY),
)


def test_predictions_of_this_teacher_pass() -> None:
    check_predictions(PREDICTIONS, TEACHER)
    check_predictions(replace(PREDICTIONS, cost=None), TEACHER)
    rounded = np.round(costs(TEACHER, FAMILY), 3)  # as a file written by hand may have them
    check_predictions(replace(PREDICTIONS, cost=rounded), TEACHER)
    check_predictions(replace(PREDICTIONS, names=("mine", "yours"), cost=np.array([0.5, 0.6])), TEACHER)


def test_another_models_predictions_are_refused() -> None:
    with pytest.raises(UserError, match=r"have 4 classes and .* has 5"):
        check_predictions(PREDICTIONS, tiny_teacher(n_classes=5))
    with pytest.raises(UserError, match="of another model"):
        check_predictions(PREDICTIONS, tiny_teacher(width=16))


def test_a_run_says_whose_predictions_it_made(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 256, (4, 16, 16, 3), dtype=np.uint8))
    found = predict(TEACHER, FAMILY, open_images(tmp_path / "x.npy"), store=tmp_path / "store")
    assert found.teacher_sha256 == TEACHER.fingerprint
    for name in ("p.npz", "folder"):
        save_predictions(found, tmp_path / name)
        assert load_predictions(tmp_path / name).teacher_sha256 == TEACHER.fingerprint
    check_predictions(found, TEACHER)
    # names decide nothing
    check_predictions(found, replace(TEACHER, name="other", class_names=tuple("wxyz")))
    with pytest.raises(UserError, match="of another model than tiny, or were made with other preprocessing"):
        check_predictions(found, tiny_teacher(seed=1))  # same shape, other weights
    with pytest.raises(UserError, match="other preprocessing"):
        check_predictions(found, replace(TEACHER, preprocessing=Preprocessing(16, 16, order="BGR")))
    check_predictions(replace(found, teacher_sha256=None), tiny_teacher(seed=1))  # an older file names nobody


def test_a_fingerprint_that_is_none_is_refused(tmp_path: Path) -> None:
    save_predictions(replace(PREDICTIONS, teacher_sha256="abc"), tmp_path / "p.npz")
    with pytest.raises(UserError, match="64 hexadecimal digits"):
        load_predictions(tmp_path / "p.npz")
