"""A finished run goes to a study with one click once every image has a label; until then it says what it
needs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.predictions.file import load_predictions, save_predictions
from engine.types import Predictions, UserError
from pages.ui.session.labels import mark, reveal_labels
from pages.ui.session.record import Step
from pages.ui.session.state import Session
from pages.ui.session.studying import known_labels, send_to_study
from tests.pages.driving import give_teacher, go, open_app, session_of, text_of, with_sample
from tests.tiny_teacher import tiny_teacher

pytestmark = pytest.mark.usefixtures("workspace", "sample_folder", "started")


def run(family: Predictions, labels: np.ndarray) -> Session:
    """A session whose own run has just finished."""
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(10))
    session = session_of(app)
    session.change(keep=Step.LABELS, is_live=True)
    reveal_labels(session, 0, family.labels)
    bare = replace(family, labels=labels, teacher_test=None, candidates_test=None, labels_test=None)
    save_predictions(bare, session.folder / "predictions.npz")
    return session


def test_a_run_whose_images_all_have_labels_is_studied_with_one_click(family: Predictions) -> None:
    labels = family.labels.copy()
    labels[[4, 9]] = -1
    session = run(family, labels)
    mark(session, 4, 1)
    app = go(open_app(session.folder.name), "target")
    assert "A study of this run needs a label for every image; 1 image has none yet." in text_of(app)
    with pytest.raises(UserError, match="a label for every image"):
        send_to_study(session)
    mark(session, 9, 2)
    assert known_labels(session)[[4, 9]].tolist() == [1, 2]
    go(app, "target")
    next(button for button in app.button if button.label == "Study this family").click().run()
    assert not app.exception
    assert app.title[0].value == "Study"
    assert app.multiselect[0].value == ["Digits ResNet PyTorch run here"]
    kept = load_predictions(next((session.folder / "study-files").iterdir()))
    assert (kept.n_images, kept.has_test) == (60, True)
    assert kept.labels[[4, 9]].tolist() == [1, 2]
