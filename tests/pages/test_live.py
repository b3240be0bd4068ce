"""The whole way with real processes and a tiny real teacher: read, check, run, cancel and resume, choose,
export.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from engine.predictions.file import load_predictions
from engine.teacher.request import LoadRequest
from engine.types import UserError
from pages.ui.jobs import control as jobs
from pages.ui.session.actions import (
    load_path,
    open_predictions,
    run_family,
    use_images,
)
from pages.ui.session.labels import labels_of_folders
from pages.ui.session.record import Step
from tests.pages.driving import go, open_app, session_of, text_of
from tests.pages.ui.jobs.test_control import picture, wait_for
from tests.tiny_teacher import tiny_teacher

pytestmark = pytest.mark.slow


@pytest.fixture
def model(tmp_path: Path) -> Path:
    from engine.teacher.graph import save

    path = tmp_path / "tiny.onnx"
    save(tiny_teacher(), path)
    return path


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Twenty images in class folders, and one that is broken."""
    path = tmp_path / "target.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for index in range(20):
            archive.writestr(f"class{index % 4}/{index:02}.png", picture(index, 20))
        archive.writestr("class0/broken.png", b"no image")
    return path


def test_from_a_file_to_an_exported_model(workspace: Path, model: Path, images: Path) -> None:
    app = open_app()
    session = session_of(app)
    load_path(session, str(model), LoadRequest())
    wait_for(session.folder, "import", "done")
    assert "4 classes" in text_of(go(app, "teacher"))
    session.change(keep=Step.LABELS, bits=(4, 8), percentiles=(100.0,))
    assert "8 candidates" in text_of(go(app, "candidates"))

    use_images(session, str(images))
    wait_for(session.folder, "check", "done")
    text = text_of(go(app, "target"))
    assert "20 target images" in text
    assert "21 images looked at" in text
    labels_of_folders(session, 12)
    assert [session.class_names[label] for label in session.labels] == [
        session.pool_files[row].split("/")[0] for row in session.rows
    ]

    run_family(session)
    wait_for(session.folder, "predict", "done")
    predictions = load_predictions(session.folder / "predictions.npz")
    assert predictions.candidates.shape == (8, 20, 4)
    assert predictions.files == session.pool_files  # a label typed before the run stays with its image
    assert "Best so far: b" in text_of(go(app, "choose"))  # 12 labels of an untrained net settle nothing
    app.button(key="use-recommended").click().run()

    go(app, "export")
    next(button for button in app.button if button.label == "Write and check the file").click().run()
    wait_for(session.folder, "export", "done", seconds=120)
    text = text_of(go(app, "export"))
    assert session.record.chosen in text
    assert "What was checked" in text
    assert (session.folder / "bundle.zip").stat().st_size > 1000


def test_a_cancelled_run_continues_where_it_stopped(workspace: Path, model: Path, images: Path) -> None:
    session = session_of(open_app())
    load_path(session, str(model), LoadRequest())
    wait_for(session.folder, "import", "done")
    use_images(session, str(images))
    wait_for(session.folder, "check", "done")
    run_family(session)
    jobs.cancel(session.folder, "predict")
    wait_for(session.folder, "predict", "cancelled", "done")
    jobs.resume(session.folder, "predict")
    wait_for(session.folder, "predict", "done")
    first = load_predictions(session.folder / "predictions.npz").candidates.copy()
    (session.folder / "predictions.npz").unlink()
    jobs.resume(session.folder, "predict")
    wait_for(session.folder, "predict", "done")
    assert np.array_equal(first, load_predictions(session.folder / "predictions.npz").candidates)


def test_predictions_alone_ask_for_their_teacher_before_export(workspace: Path, sample_folder: Path) -> None:
    app = open_app()
    with (sample_folder / "digits-resnet.npz").open("rb") as upload:
        open_predictions(session_of(app), upload, "mine.npz")
    assert "only predictions were given" in text_of(go(app, "export"))


def test_images_that_are_none_are_refused_before_anything_is_forgotten(
    workspace: Path, model: Path, tmp_path: Path
) -> None:
    session = session_of(open_app())
    load_path(session, str(model), LoadRequest())
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no image"):
        use_images(session, str(tmp_path / "empty"))
    wait_for(session.folder, "import", "done")
    assert session.teacher is not None
