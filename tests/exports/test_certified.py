"""One way to a certified file for the command and the app: what they hand in, what it compares, what it
refuses.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine.__main__ import main
from engine.exports.certificate import Certificate
from engine.family.recipes import parse_slug
from engine.predictions.file import load_predictions, save_predictions
from engine.predictions.gather import predict
from engine.target import open_images
from engine.teacher.facts import facts_of
from engine.teacher.graph import save
from engine.types import Teacher, UserError
from pages.ui.jobs.tasks import write_export
from pages.ui.workspace.folder import write_bytes, write_json
from tests.tiny_teacher import tiny_teacher

SLUG = "b4-channel-q99.5"


class FakeDesk:
    """A job's desk that only has a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def report(self, *_: object, **__: object) -> None: ...


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images, and predictions of two candidates of the tiny teacher on them."""
    folder = tmp_path_factory.mktemp("work")
    np.save(folder / "x.npy", np.random.default_rng(0).integers(0, 256, (20, 16, 16, 3), dtype=np.uint8))
    family = [parse_slug(SLUG), parse_slug("b2-tensor-q99")]
    found = predict(tiny_teacher(), family, open_images(folder / "x.npy"), store=folder / "store")
    save_predictions(found, folder / "p.npz")
    return folder


def by_command(work: Path, teacher: Teacher, folder: Path) -> Certificate:
    save(teacher, folder / "teacher.onnx")
    words = ["export", "--teacher", folder / "teacher.onnx", "--candidate", SLUG, "--images", work / "x.npy"]
    words += ["--predictions", work / "p.npz", "--method", "distortion", "--out", folder / "export"]
    if main(list(map(str, words))) != 0:
        raise UserError("exit 2")
    return Certificate.from_json((folder / "export" / "certificate.json").read_text())


def in_app(work: Path, teacher: Teacher, folder: Path) -> Certificate:
    from engine.decide.briefing import Grounds
    from engine.decide.choose import choose
    from engine.diagnose.evidence import evidence_problems
    from engine.exports.evidence import evidence_record

    write_bytes(folder / "teacher.onnx", teacher.graph)
    write_json(folder / "outline.json", facts_of(teacher))
    predictions = load_predictions(work / "p.npz")
    choice = choose("distortion", predictions, None)
    grounds = Grounds(
        predictions=predictions,
        choice=choice,
        preprocessing=teacher.preprocessing,
        path=work / "p.npz",
        settled_by="own",
        problems=tuple(evidence_problems(predictions)),
    )
    write_export(
        FakeDesk(folder),  # type: ignore[arg-type]
        SLUG,
        ["onnx"],
        str(work / "x.npy"),
        source="",
        predictions=str(work / "p.npz"),
        evidence=json.loads(json.dumps(evidence_record(grounds, SLUG))),
    )
    return Certificate.from_json((folder / "export" / "certificate.json").read_text())


@pytest.mark.parametrize("front_end", [by_command, in_app], ids=["command", "app"])
def test_predictions_of_another_model_of_the_same_shape_are_refused(
    front_end: type, work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError) as caught:
        front_end(work, tiny_teacher(seed=1), tmp_path)
    assert "of another model than tiny" in str(caught.value) + capsys.readouterr().err
    assert not (tmp_path / "export").exists()


def test_both_front_ends_write_the_same_certificate(work: Path, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = (
        by_command(work, tiny_teacher(), tmp_path / "a"),
        in_app(work, tiny_teacher(), tmp_path / "b"),
    )
    assert first.passed
    assert second.passed
    assert first.model == second.model
    assert (first.model["judged"], first.model["n_images"]) == (True, 16)
    assert first.files["model.onnx"] == second.files["model.onnx"]
    assert list(first.evidence) == list(second.evidence)
    told = {key for key in first.evidence if first.evidence[key] != second.evidence[key]}
    assert told <= {"settled_by"}
    assert first.evidence["teacher_sha256"] == tiny_teacher().fingerprint
    assert first.evidence["exported"] == SLUG
