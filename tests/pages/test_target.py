"""The Target page: gated, shows images, takes labels by key, CSV or from the file, and starts the run."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.predictions.file import save_predictions
from engine.types import Predictions, UserError
from pages.ui.parts.labeling import keys_for, next_row
from pages.ui.parts.pictures import picture_of
from pages.ui.session.actions import safe_name, store_upload, upload_images
from pages.ui.session.labels import mark, reveal_labels, set_aside
from pages.ui.session.record import Step
from pages.ui.session.state import Session
from pages.ui.workspace.folder import write_json
from tests.pages.driving import (
    give_teacher,
    go,
    labels_of,
    links,
    open_app,
    session_of,
    text_of,
    with_sample,
)
from tests.pages.ui.jobs.test_control import picture
from tests.tiny_teacher import tiny_teacher

Started = list[tuple[str, dict[str, Any]]]
pytestmark = pytest.mark.usefixtures("workspace", "sample_folder")


class Upload(BytesIO):
    """What the uploader hands over: bytes with a name."""

    def __init__(self, data: bytes, name: str) -> None:
        super().__init__(data)
        self.name = name


@pytest.fixture
def session(started: Started) -> Session:
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(10))
    return session_of(app)


def test_cold_page_says_what_it_needs(started: Started) -> None:
    assert "needs a teacher" in text_of(go(open_app(), "target"))


def test_sample_shows_images_labels_and_the_run(session: Session, started: Started) -> None:
    app = go(open_app(session.folder.name), "target")
    text = text_of(app)
    assert "120 target images" in text
    assert "25 labels" in text
    next(button for button in app.button if button.label == "Run it yourself").click().run()
    kind, arguments = started[-1]
    assert kind == "predict"
    assert arguments["target"] == "sample"
    assert len(arguments["recipes"]) == 72
    assert session_of(app).predictions is None


def test_labels_by_button_undo_and_not_sure(session: Session) -> None:
    reveal_labels(session, 0)
    app = go(open_app(session.folder.name), "target")
    app.button(key="label-3").click().run()
    app.button(key="label-unsure").click().run()
    app.button(key="label-7").click().run()
    book = session_of(app).book
    assert book.labels == (3, 7)
    assert len({*book.rows, *book.aside("unsure")}) == 3  # three different images were shown
    app.button(key="label-undo").click().run()
    assert session_of(app).rows == book.rows[:1]
    assert session_of(open_app(session.folder.name)).labels == (3,)
    app.button(key="label-redo").click().run()
    assert session_of(app).book.labeled == book.labeled


def test_undo_after_skip_brings_the_image_back_and_keeps_the_label(session: Session) -> None:
    reveal_labels(session, 0)
    app = go(open_app(session.folder.name), "target")
    app.button(key="label-3").click().run()
    first = next_row(session_of(app))
    app.button(key="label-skip").click().run()
    assert next_row(session_of(app)) != first
    app.button(key="label-undo").click().run()
    assert session_of(app).labels == (3,)
    assert next_row(session_of(app)) == first


def test_skipped_images_return_at_the_end_and_unsure_ones_do_not(session: Session) -> None:
    reveal_labels(session, 0)
    for row in range(2, len(session.order)):
        mark(session, row, 1)
    set_aside(session, 0, "skipped")
    set_aside(session, 1, "unsure")
    assert next_row(session) == 0
    mark(session, 0, 2)
    assert next_row(session) is None


def test_labels_from_the_file_leave_typed_ones_alone(session: Session) -> None:
    typed = next(row for row in range(120) if row not in session.rows)
    mark(session, typed, 4)
    reveal_labels(session, 10)
    assert session.book.labeled[typed] == 4
    assert len(session.rows) in (10, 11)


def test_labels_of_an_earlier_version_are_taken_over(session: Session) -> None:
    (session.folder / "labels.jsonl").unlink()
    values = {**session.record.to_json(), "rows": [5, 2], "labels": [1, 0]}
    write_json(session.folder / "session.json", values)
    assert session_of(open_app(session.folder.name)).book.labeled == {5: 1, 2: 0}


@pytest.mark.parametrize("n_classes", [3, 10, 34, 100])
def test_every_class_has_its_own_key_as_far_as_keys_go(n_classes: int) -> None:
    keys = keys_for(tuple(f"class {index}" for index in range(n_classes)))
    given = [key for key in keys if key]
    assert len(keys) == n_classes
    assert len(given) == min(n_classes, 34)
    assert len(set(given)) == len(given)
    assert not {"C", "R"} & set(given)


def test_single_letters_and_digits_are_their_own_keys() -> None:
    assert keys_for(tuple("0123456789")) == list("0123456789")
    assert keys_for(("a", "b")) == ["A", "B"]


def test_thumbnails_say_which_are_labeled(session: Session) -> None:
    reveal_labels(session, 10)
    app = go(open_app(session.folder.name), "target")
    captions = [caption for image in app.image for caption in image.captions]
    assert sum(caption.startswith("label: ") for caption in captions) == 10
    assert sum(caption == "not labeled" for caption in captions) == 10


def test_a_hundred_classes_can_be_labeled(started: Started) -> None:
    app = with_sample(open_app())
    session = session_of(app)
    give_teacher(app, tiny_teacher(100))
    session.change(keep=Step.LABELS, is_live=True)
    buttons = [
        button for button in go(app, "target").button if button.key and button.key.startswith("label-")
    ]
    assert len(buttons) == 104  # a hundred classes, undo, redo, skip, not sure
    app.button(key="label-99").click().run()
    assert session_of(app).labels[-1] == 99


def test_uploads_are_bounded_and_named_safely(session: Session, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="larger than"):
        store_upload(session, BytesIO(b"x" * 100), tmp_path / "kept", 50)
    assert not (tmp_path / "kept").exists()
    assert safe_name("../../etc/passwd") == "passwd"
    assert safe_name("..\\..\\win.ini") == "win.ini"
    assert safe_name("....") == "upload"


def test_uploaded_images_become_the_target(session: Session, started: Started) -> None:
    upload_images(session, [Upload(picture(1), "a.png"), Upload(picture(2), "a.png")])
    assert sorted(path.name for path in (session.folder / "images").iterdir()) == ["1-a.png", "a.png"]
    assert started[-1] == ("check", {"target": str(session.folder / "images")})
    assert session.rows == ()
    assert session.predictions is None


def test_other_images_at_the_same_place_are_seen(session: Session) -> None:
    upload_images(session, [Upload(picture(1), "a.png"), Upload(picture(2), "b.png")])
    before = picture_of(session, 0, 8)
    upload_images(session, [Upload(picture(3), "a.png"), Upload(picture(4), "c.png")])
    assert session.images.names == ("a.png", "c.png")
    assert not np.array_equal(picture_of(session, 0, 8), before)


def test_a_refused_upload_forgets_nothing(session: Session) -> None:
    with pytest.raises(UserError, match="no image"):
        upload_images(session, [Upload(b"text", "notes.txt")])
    assert len(session.rows) == 25
    assert session.predictions is not None


@pytest.mark.parametrize("page", ["target", "choose"])
def test_evidence_that_is_not_fit_to_decide_is_named(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = with_sample(open_app())
    assert "fit to decide" not in text_of(go(app, page)).replace("Is my evidence fit to decide?", "")
    asked: list[int] = []

    def problems(predictions: Any) -> tuple[str, ...]:
        asked.append(predictions.n_candidates)
        return ("All candidates give identical outputs.",)

    monkeypatch.setattr("pages.ui.session.evidence.evidence_problems", problems)
    session_of(app)._memory.clear()
    text = text_of(go(app, page))
    assert "Is this evidence fit to decide?" in text
    assert "All candidates give identical outputs" in text
    app.run()
    assert len(asked) == 1  # once per predictions file


def test_folders_that_are_no_classes_of_the_teacher_are_said(session: Session, tmp_path: Path) -> None:
    for index, folder in enumerate(("zebra", "okapi")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.png").write_bytes(picture(index))
    session.change(keep=Step.CANDIDATES, target=str(tmp_path))
    found = {"n_images": 2, "order": [0, 1], "heights": [8, 8], "widths": [8, 8], "notes": [], "n_bad": 0}
    folders = {"n_duplicates": 0, "class_folders": ["okapi", "zebra"], "duplicate_rows": []}
    write_json(session.folder / "checks.json", {**found, **folders})
    app = go(open_app(session.folder.name), "target")
    assert "do not fit the teacher" in "".join(warning.value for warning in app.warning)
    assert not any("from the class folders" in button.label for button in app.button)


def test_a_finished_run_can_be_taken_away_and_studied(session: Session, family: Predictions) -> None:
    app = go(open_app(session.folder.name), "target")
    assert "Download the predictions" not in labels_of(app, "download_button")  # these ship with the sample
    session.change(keep=Step.LABELS, is_live=True)
    save_predictions(family, session.folder / "predictions.npz")
    go(app, "target")
    assert "Done: 72 candidates on 120 images." in text_of(app)
    assert "Download the predictions" in labels_of(app, "download_button")
    assert links(app)["Study this family"] == ("study", "")
    go(app, "study")
    assert app.multiselect[0].value == ["Digits: ResNet (PyTorch) (run here)"]


def test_the_preview_answers_for_the_preprocessing_as_it_is(session: Session, started: Started) -> None:
    teacher = tiny_teacher(10)
    (session.folder / "teacher.onnx").write_bytes(teacher.graph)
    app = go(open_app(session.folder.name), "target")
    next(button for button in app.button if "twelve images" in button.label).click().run()
    assert started[-1] == ("preview", {"target": "sample"})
    np.save(session.folder / "preview.npy", np.zeros((12, 16, 16, 3), np.uint8))
    said = {"classes": [[3, 1, 2]] * 12, "probs": [[0.8, 0.1, 0.05]] * 12, "range": [0.0, 1.0]}
    path = session.folder / "preview.json"
    write_json(path, {"preprocessing": teacher.preprocessing.to_json(), **said})
    text = text_of(go(app, "target"))
    assert "for all 12 images: check the preprocessing" in text
    assert f"{teacher.class_names[3]}: 80 %" in text
    preset = next(box for box in app.selectbox if box.label == "Preset")
    preset.set_value("Caffe, BGR, means taken off").run()
    assert session_of(app).teacher.preprocessing.order == "BGR"  # type: ignore[union-attr]
    assert "changed since the teacher was tried" in text_of(app)
