"""Holding out a test part: the last rows move, nothing is lost, and what cannot be held out is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.predictions.split import check_hold_out, hold_out
from engine.types import Predictions, UserError


@pytest.fixture
def predictions(family: Predictions) -> Predictions:
    """A labeled pool without a test part."""
    return replace(
        family,
        labels=np.arange(family.n_images) % family.n_classes,
        files=tuple(f"{row}.png" for row in range(family.n_images)),
        teacher_test=None,
        candidates_test=None,
        labels_test=None,
    )


def test_the_last_rows_become_the_test_part(predictions: Predictions) -> None:
    held = hold_out(predictions, 30)
    assert held.n_images == predictions.n_images - 30
    assert held.calibration == held.n_images // 2
    assert held.files == predictions.files[: held.n_images] if predictions.files else False
    assert held.teacher_test is not None
    assert held.candidates_test is not None
    assert np.array_equal(np.concatenate([held.teacher, held.teacher_test]), predictions.teacher)
    together = np.concatenate([held.candidates, held.candidates_test], axis=1)
    assert np.array_equal(together, predictions.candidates)
    assert held.labels_test is not None
    assert held.labels_test.tolist() == predictions.labels[-30:].tolist()


def test_predictions_without_file_names_stay_so(predictions: Predictions) -> None:
    assert hold_out(replace(predictions, files=None), 5).files is None


@pytest.mark.parametrize("n_test", [0, -1, 9, 10])
def test_a_part_that_leaves_no_pool_is_refused(n_test: int) -> None:
    with pytest.raises(UserError, match="leave at least 2"):
        check_hold_out(np.zeros(10, dtype=np.int64), n_test)


def test_unlabeled_rows_cannot_be_a_test_part() -> None:
    labels = np.array([-1, -1, 0, 1, -1, 2])
    check_hold_out(labels, 1)
    with pytest.raises(UserError, match="1 of the 3 images of the test part have no label"):
        check_hold_out(labels, 3)
