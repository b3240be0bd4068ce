"""Part of a labeled pool set aside as a study's test set. Knows rows of arrays only."""

from __future__ import annotations

from dataclasses import replace

from engine.types import UNLABELED, Ints, Predictions, UserError


def check_hold_out(labels: Ints, n_test: int) -> None:
    """Raise UserError unless the last n_test of the pool's labels (N,) can serve as a test set and a pool of
    two rows remains.
    """
    if not 0 < n_test <= len(labels) - 2:
        raise UserError(
            f"{n_test} of {len(labels)} images cannot be held out as a test part. Hold out at least 1 and"
            " leave at least 2."
        )
    unknown = int((labels[-n_test:] == UNLABELED).sum())
    if unknown:
        raise UserError(
            f"{unknown} of the {n_test} images of the test part have no label; a study needs them all. Give"
            " labels, or hold out fewer."
        )


def hold_out(predictions: Predictions, n_test: int) -> Predictions:
    """Return predictions whose last n_test pool rows have become the test part; the pool is already in random
    order.
    """
    check_hold_out(predictions.labels, n_test)
    rest = predictions.n_images - n_test
    return replace(
        predictions,
        teacher=predictions.teacher[:rest],
        candidates=predictions.candidates[:, :rest],
        labels=predictions.labels[:rest],
        calibration=rest // 2,
        teacher_test=predictions.teacher[rest:],
        candidates_test=predictions.candidates[:, rest:],
        labels_test=predictions.labels[rest:],
        files=None if predictions.files is None else predictions.files[:rest],
    )
