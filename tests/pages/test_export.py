"""The Export page: gated, asks for what is missing, orders any candidate, and shows the certificate as it
is.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.exports.certificate import Certificate, Check, Profile, Sizes
from pages.ui.parts.export import evidence_for
from pages.ui.session.actions import open_predictions
from pages.ui.session.labels import mark
from pages.ui.session.record import Step
from pages.ui.workspace.folder import write_bytes
from tests.pages.driving import give_teacher, go, open_app, session_of, text_of, with_sample
from tests.tiny_teacher import tiny_teacher

Started = list[tuple[str, dict[str, Any]]]
pytestmark = pytest.mark.usefixtures("workspace", "sample_folder")


def certificate(*, passed: bool) -> Certificate:
    """A small certificate as an export leaves it."""
    return Certificate(
        recipe="b4-channel-q99.5",
        teacher={"name": "tiny"},
        model={},
        checks=(Check("parity", passed, 1e-7, 1e-5, "The file's outputs equal what was judged."),),
        sizes=Sizes(
            file=2000,
            float_file=10000,
            weights=1500,
            float_weights=9000,
            needed=1500,
            theory=1400.0,
            by_type={"INT4": 1000},
        ),
        profiles=(Profile("packed", 3.0, 1.5, 10_000, "Weights stay packed."),),
        probes=(),
        files={"model.onnx": "ab" * 32},
        evidence={"method": "ce-combo"},
        versions={"onnx": "1"},
        command="python -m engine export",
    )


def test_cold_page_says_what_it_needs(started: Started) -> None:
    assert "needs a teacher and a choice" in text_of(go(open_app(), "export"))


def test_a_sample_without_a_teacher_says_where_to_go(started: Started) -> None:
    text = text_of(go(with_sample(open_app(), "pacs-sketch"), "export"))
    assert "ships predictions only" in text
    assert "sample_models.photo_family" in text


def test_predictions_only_ask_for_the_teacher(started: Started, sample_folder: Path) -> None:
    app = open_app()
    with (sample_folder / "digits-resnet.npz").open("rb") as upload:
        open_predictions(session_of(app), upload, "mine.npz")
    assert "only predictions were given" in text_of(go(app, "export"))


def test_says_what_the_file_will_take(started: Started) -> None:
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(10))
    session_of(app).choose("b5-channel-q100", "own")
    assert "5-bit codes are stored as 8-bit integers" in text_of(go(app, "export"))


def test_orders_the_chosen_candidate_with_its_evidence(started: Started) -> None:
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(10))
    session_of(app).choose("b4-channel-q99.5", "own")
    go(app, "export")
    next(button for button in app.button if button.label == "Write and check the file").click().run()
    kind, arguments = started[-1]
    assert kind == "export"
    assert arguments["slug"] == "b4-channel-q99.5"
    assert arguments["evidence"]["settled_by"] == "own"
    assert arguments["evidence"]["n_labels"] == 25
    assert session_of(app).record.chosen == "b4-channel-q99.5"


def test_predictions_of_another_model_are_named_on_every_page(started: Started) -> None:
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(7))
    for page in ("export", "choose", "target"):
        assert "and tiny has 7" in text_of(go(app, page))


def test_a_grid_without_the_wider_sibling_names_the_integers_alone(started: Started) -> None:
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(10))
    session_of(app).change(keep=Step.LABELS, bits=(5,))
    assert "In an ONNX file 5-bit codes are stored as 8-bit integers." in text_of(go(app, "export"))


@pytest.mark.parametrize("passed", [True, False])
def test_shows_the_certificate_as_it_is(started: Started, passed: bool) -> None:
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(10))
    folder = session_of(app).folder
    write_bytes(folder / "export" / "certificate.json", certificate(passed=passed).to_json().encode())
    write_bytes(folder / "bundle.zip", b"zip")
    text = text_of(go(app, "export"))
    assert ("do not deploy" in text) == (not passed)
    assert "20 %" in text
    assert "10 kB" in text
    assert "packed: Weights stay packed." in text.replace("*", "")


def test_an_edited_certificate_is_refused(started: Started) -> None:
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(10))
    edited = (
        replace(certificate(passed=True), recipe="b8-tensor-q100").to_json().replace("b8-tensor", "b2-tensor")
    )
    write_bytes(session_of(app).folder / "export" / "certificate.json", edited.encode())
    assert "was edited" in text_of(go(app, "export"))


def test_another_candidate_than_the_chosen_one_brings_its_own_evidence(started: Started) -> None:
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(10))
    session = session_of(app)
    recommended, other = session.decision.recommended.name, "b2-tensor-q99"
    assert other != recommended
    session.choose(recommended, "recommended")
    go(app, "export")
    next(box for box in app.selectbox if box.label == "Candidate").set_value(other).run()
    assert f"overrides the recommendation {recommended}" in text_of(app)
    next(button for button in app.button if button.label == "Write and check the file").click().run()
    _, arguments = started[-1]
    evidence = arguments["evidence"]
    assert (arguments["slug"], evidence["exported"], evidence["picked"]) == (other, other, recommended)
    assert f"{other} overrides the recommendation {recommended} (p = " in evidence["overrides"]
    predictions, sample = session.require_predictions(), session.sample
    assert sample is not None
    answers = predictions.candidates[predictions.names.index(other)][sample.rows].argmax(axis=1)
    assert evidence["brief"]["pick"]["accuracy"]["value"] == float((answers == sample.labels).mean())
    write_bytes(
        session.folder / "export" / "certificate.json",
        replace(certificate(passed=True), recipe=other, evidence=evidence).to_json().encode(),
    )
    text = text_of(go(app, "export"))
    assert f"{other} overrides the recommendation {recommended} (p = " in text
    assert not app.success, "no green verdict above an override"


def test_a_certificate_never_shows_another_candidates_evidence(started: Started) -> None:
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(10))
    evidence = evidence_for(session_of(app), session_of(app).decision.recommended.name)
    foreign = replace(certificate(passed=True), recipe="b2-tensor-q99", evidence=evidence)
    write_bytes(session_of(app).folder / "export" / "certificate.json", foreign.to_json().encode())
    text = text_of(go(app, "export"))
    assert "No evidence was recorded for this candidate" in text
    assert "What could be wrong" not in text


def test_neither_labels_nor_choice_nor_budget_hide_a_file(started: Started) -> None:
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(10))
    session = session_of(app)
    session.note(exported_at=len(session.events))
    write_bytes(session.folder / "export" / "certificate.json", certificate(passed=True).to_json().encode())
    write_bytes(session.folder / "bundle.zip", b"zip")
    assert "Made before" not in text_of(go(app, "export"))
    free = [row for row in range(100) if row not in session.book.labeled]
    for row in free[:3]:
        mark(session, row, 0)
    text = text_of(go(app, "export"))
    assert "Made before 3 new labels" in text
    assert "20 %" in text
    session.choose("b2-tensor-q99", "own")
    slider = next(slider for slider in go(app, "choose").slider if "Memory budget" in slider.label)
    slider.set_value(slider.max - 5).run()
    assert session.record.budget is not None
    next(b for b in app.button if "optimal transport" in b.label).click().run()
    text = text_of(go(app, "export"))
    assert "Made before 3 new labels" in text
    assert "This file is not your choice, which is b2-tensor-q99." in text
    assert (session.folder / "bundle.zip").exists()
