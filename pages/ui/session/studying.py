"""From a finished run to a study of it: which images have a label, and the file that a study reads. Draws
nothing.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from engine.predictions.file import save_predictions
from engine.predictions.split import hold_out
from engine.target import labels_from_folders
from engine.types import UNLABELED, Ints, UserError
from pages.ui.session.actions import safe_name
from pages.ui.session.state import Session

STUDY_FILES = "study-files"  # families of one's own, beside the samples


def own_name(session: Session) -> str:
    """What the session's own family is called: as its work is, so that it is told from the samples."""
    return f"{session.record.project or session.record.title} (run here)"


def known_labels(session: Session) -> Ints:
    """Return the label of every image of the run, (N,), -1 where nobody gave one: those at hand, else those
    of class folders that fit the teacher, else those that came with the predictions.
    """
    labels: Ints = np.array(session.require_predictions().labels, np.int64)
    if session.has_images and session.checks and session.checks["class_folders"]:
        labels = _of_folders(session, labels)
    for row, label in session.book.labeled.items():
        labels[row] = label
    return labels


def _of_folders(session: Session, labels: Ints) -> Ints:
    try:
        claimed = labels_from_folders(session.images, session.class_names)
    except UserError:  # the page says so beside the images
        return labels
    return np.asarray(claimed[list(session.order)], np.int64)


def send_to_study(session: Session) -> Path:
    """Keep the run as a family that can be studied: half of its labeled images become the test part, which no
    rule sees. Raises UserError where a label is missing or there are too few images.
    """
    predictions = replace(session.require_predictions(), labels=known_labels(session))
    if (predictions.labels == UNLABELED).any():
        raise UserError("a study needs a label for every image. Label the rest, or give a labels CSV.")
    path = session.folder / STUDY_FILES / f"{safe_name(own_name(session))}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    save_predictions(hold_out(predictions, predictions.n_images // 2), path)
    return path
