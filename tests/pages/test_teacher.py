"""The Teacher page: opens cold, one click on a sample, what was understood, and mistakes shown in a line."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from engine.family.cost import cost
from engine.teacher.presets import SAID_BY_IMPORTERS
from engine.teacher.request import LoadRequest
from engine.types import Recipe, UserError
from pages.ui.parts.teacher import store_facts
from pages.ui.session.actions import load_path, load_timm, load_upload, open_predictions
from pages.ui.show.words import ARCHITECTURE, CLASSES, in_fields, share
from pages.ui.workspace.folder import AS_READ, write_json
from tests.pages.driving import give_teacher, go, open_app, session_of, text_of, with_sample
from tests.tiny_teacher import tiny_teacher

Started = list[tuple[str, dict[str, Any]]]
pytestmark = pytest.mark.usefixtures("workspace", "sample_folder")


def test_cold_page_offers_samples_and_own_models(started: Started) -> None:
    app = open_app()
    assert not app.exception
    assert "Start with a sample" in text_of(app)
    assert [tab.label for tab in app.tabs] == [
        "Upload a model",
        "timm name",
        "Path on the server",
        "Predictions file",
    ]


def test_recommendation_is_two_clicks_from_cold(started: Started) -> None:
    app = go(with_sample(open_app()), "choose")
    # with 25 labels the family's best may be no more than "best so far"
    assert any(head.value.startswith(("Deploy ", "Best so far")) for head in app.subheader)
    assert started == [("import", {"spec": "sample:digits-resnet"})]


def test_predictions_only_sample_starts_no_import(started: Started) -> None:
    app = with_sample(open_app(), "pacs-sketch")
    assert started == []
    assert "no model to describe" in text_of(app)


def test_shows_what_was_understood(started: Started) -> None:
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(10))
    app.run()
    text = text_of(app)
    assert "10 classes" in text
    assert "4 layers" in text
    assert "16 × 16" in text


def test_says_what_bits_do_to_the_memory(started: Started) -> None:
    app = with_sample(open_app())
    teacher = tiny_teacher(10)
    give_teacher(app, teacher)
    text = text_of(app.run())
    assert f"in 4 bits, {share(cost(teacher, Recipe(4, 100.0, 'channel', False)))}" in text
    assert "which may be too little to see" in text


@pytest.mark.parametrize("facts", [LoadRequest(), LoadRequest(arch="resnet18"), LoadRequest(classes=10)])
def test_bare_weights_ask_for_the_fields_of_the_form(started: Started, facts: LoadRequest) -> None:
    session = session_of(with_sample(open_app()))
    started.clear()
    with pytest.raises(UserError, match=r"mine\.pth ") as caught:
        load_upload(session, BytesIO(b"weights"), "mine.pth", facts)
    assert "(“Architecture (a timm name)” and “Number of classes”)" in in_fields(caught.value)
    assert session.record.origin == "sample"  # refused before anything was forgotten
    assert started == []


def test_options_are_called_by_their_fields() -> None:
    error = UserError("the checkpoint does not fit.", "Check both.", option=("arch", "classes"))
    assert in_fields(error) == f"the checkpoint does not fit. Check both ({ARCHITECTURE} and {CLASSES})."
    assert str(error) == "the checkpoint does not fit. Check both (--arch and --classes)."
    # an option that has no field here is not named
    assert in_fields(UserError("it ran out.", "Run again.", option="workers")) == "it ran out. Run again."


def test_missing_sample_is_an_error_in_a_line(started: Started) -> None:
    app = with_sample(open_app(), "digits-vit")
    assert "digits-vit.npz is missing" in text_of(app)
    assert session_of(app).record.origin == ""


def test_unusable_predictions_leave_the_session_alone(started: Started, tmp_path: Path) -> None:
    session = session_of(with_sample(open_app()))
    (tmp_path / "bad.npz").write_bytes(b"not an archive")
    with pytest.raises(UserError, match=r"mine\.npz"), (tmp_path / "bad.npz").open("rb") as upload:
        open_predictions(session, upload, "mine.npz")
    assert session.record.origin == "sample"
    assert session.predictions is not None


def test_predictions_file_skips_to_choose(started: Started, sample_folder: Path) -> None:
    app = open_app()
    with (sample_folder / "digits-resnet.npz").open("rb") as upload:
        open_predictions(session_of(app), upload, "../../etc/mine.npz")
    assert session_of(app).record.title == "mine.npz"
    assert any(head.value.startswith("Deploy ") for head in go(app, "choose").subheader)


def test_edited_preprocessing_voids_shipped_predictions_but_keeps_labels(started: Started) -> None:
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(10))
    session, teacher = session_of(app), tiny_teacher(10)
    store_facts(session, teacher, teacher.preprocessing, tuple("abcdefghij"))
    assert session.predictions is not None
    store_facts(session, teacher, replace(teacher.preprocessing, scale=1.0), tuple("abcdefghij"))
    assert session.predictions is None
    assert len(session.rows) == 25
    with pytest.raises(UserError, match="10 classes"):
        store_facts(session, teacher, teacher.preprocessing, ("one",))


def test_presets_size_and_a_way_back_to_the_file(started: Started) -> None:
    app = with_sample(open_app())
    teacher = tiny_teacher(10)
    give_teacher(app, replace(teacher, notes=("The names cannot fit and were left out.",)))
    session = session_of(app)
    own = {"preprocessing": teacher.preprocessing.to_json(), "size_is_open": False}
    write_json(session.folder / AS_READ, own)
    go(app, "teacher")
    assert "cannot fit" in app.warning[0].value
    preset = next(box for box in app.selectbox if box.label == "Preset")
    assert preset.value == "As the file was read"
    preset.set_value("-1 to 1 (TensorFlow)").run()
    assert session.teacher is not None
    assert session.teacher.preprocessing.scale == 1 / 127.5
    next(box for box in app.selectbox if box.label == "Preset").set_value("As the file was read").run()
    assert session.teacher.preprocessing == teacher.preprocessing
    field = next(box for box in app.text_input if box.label.startswith("Input size, "))
    assert field.disabled
    write_json(session.folder / AS_READ, {**own, "size_is_open": True})
    field = next(box for box in go(app, "teacher").text_input if box.label.startswith("Input size, "))
    field.set_value("20x24")
    next(button for button in app.button if button.label == "Apply").click().run()
    assert (session.teacher.preprocessing.height, session.teacher.preprocessing.width) == (20, 24)


def test_demo_refuses_paths_and_downloads(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANCHORPOINT_DEMO", "1")
    app = open_app()
    assert "Public demo" in text_of(app)
    assert next(button for button in app.button if button.label == "Download and read").disabled
    session = session_of(app)
    with pytest.raises(UserError, match="downloads no weights"):
        load_timm(session, "resnet18", LoadRequest())
    with pytest.raises(UserError, match="no paths"):
        load_path(session, "model.onnx", LoadRequest())


def test_text_of_strangers_is_shown_as_it_stands() -> None:
    from pages.ui.parts.page import plain

    assert plain("a_b [x](http://e) :smile:") == "a\\_b \\[x\\](http\\://e) \\:smile\\:"


def test_names_that_cannot_fit_are_a_warning(started: Started) -> None:
    app = with_sample(open_app())
    note = "The file names 3 classes and the model has 10: they cannot fit."
    give_teacher(app, replace(tiny_teacher(10), notes=(note, "It returns logits.")))
    assert [warning.value.replace("\\", "") for warning in app.run().warning] == [note]


@pytest.mark.parametrize("note", SAID_BY_IMPORTERS)
def test_what_was_said_of_the_preprocessing_goes_once_it_is_set(started: Started, note: str) -> None:
    app = with_sample(open_app())
    teacher = replace(tiny_teacher(10), notes=(f"As read: {note}.", "It returns logits."))
    give_teacher(app, teacher)
    assert note in text_of(app.run())
    session = session_of(app)
    edited = replace(teacher.preprocessing, scale=0.5)
    assert session.teacher is not None
    store_facts(session, session.teacher, edited, teacher.class_names)
    text = text_of(app.run())
    assert note not in text
    assert "It returns logits." in text
    assert "set by hand" in text
