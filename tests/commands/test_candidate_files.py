"""`predict --candidates-from`: one command from a folder of other people's files to a choice."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

from engine.__main__ import main
from engine.commands import candidate_files
from engine.commands.candidate_files import file_lines
from engine.predictions.file import load_predictions
from tests.foreign.small_models import CLASSES, SIDE, linear, write_bad

N = 24


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty files, six of them bad, a float teacher, and images."""
    root = tmp_path_factory.mktemp("files")
    (root / "models").mkdir()
    for i in range(34):
        layout, softmax = ("NCHW", "NHWC")[i % 2], i % 3 == 0
        onnx.save(linear(seed=i % 7, layout=layout, softmax=softmax), root / "models" / f"m{i:02}.onnx")
    write_bad(root / "models")
    with zipfile.ZipFile(root / "models.zip", "w") as archive:
        for path in sorted((root / "models").iterdir()):
            archive.write(path, f"release/{path.name}")
    onnx.save(linear(seed=0), root / "float.onnx")
    (root / "images").mkdir()
    rng = np.random.default_rng(0)
    for i in range(N):
        shade = rng.integers(0, 256, 3)
        pixels = np.clip(rng.normal(shade, 20, (SIDE, SIDE, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(root / "images" / f"{i:02}.png")
    return root


def predict(place: Path, out: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    arguments = ["--images", str(place / "images"), "--out", str(out), "--store", str(place / "store")]
    code = main(["predict", *arguments, *options, "--json"])
    said = capsys.readouterr()
    assert code == 0, said.err
    result: dict[str, Any] = json.loads(said.out)
    return result


def refused(place: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    arguments = ["--images", str(place / "images"), "--out", str(place / "no.npz")]
    assert main(["predict", *arguments, "--store", str(place / "store"), *options]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize("where", ["models", "models.zip"])
def test_forty_files_with_six_bad_ones(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    teacher = ["--teacher", str(place / "float.onnx"), "--candidates-from", str(place / where)]
    result = predict(place, tmp_path / "p.npz", capsys, *teacher)
    assert result["candidates"] == [f"m{i:02}" for i in range(34)]
    assert sorted(result["missing"]) == sorted(write_bad(tmp_path))
    predictions = load_predictions(tmp_path / "p.npz")
    assert dict(zip(predictions.missing, predictions.missing_reasons, strict=True)).keys() == set(
        result["missing"]
    )
    # the same network in another layout, or with a softmax of its own, answers the same
    for i in (7, 14, 21):
        np.testing.assert_allclose(predictions.candidates[i], predictions.teacher, atol=1e-6)
    assert result["files"][7]["agreement"] == 1.0
    assert not result["files"][7]["at_chance"]
    labels = tmp_path / "labels.csv"
    labels.write_text("row,label\n" + "".join(f"{row},{row % CLASSES}\n" for row in range(10)))
    for method in ("auto", "ce-combo", "highest-precision"):
        assert main(["select", str(tmp_path / "p.npz"), "--labels", str(labels), "--method", method]) == 0
    assert "picks m" in capsys.readouterr().out
    # a file that is shipped without its images keeps the decision, and says whose place it takes
    evidence = ["--predictions", str(tmp_path / "p.npz"), "--method", "auto", "--labels", str(labels)]
    named = ["--candidate", "m05", "--out", str(tmp_path / "out"), "--store", str(place / "store")]
    assert main(["export", *teacher, *evidence, *named]) == 0
    said = json.loads((tmp_path / "out" / "certificate.json").read_text())["evidence"]
    assert (said["exported"], said["brief"]["pick"]["name"]) == ("m05", "m05")
    assert said["picked"] == "m05" or "m05 overrides the recommendation" in said["overrides"]


def test_without_a_parent_the_files_stand_in(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--candidates-from", str(place / "models"), "--mean", "0.5,0.5,0.5"]
    crowd = predict(place, tmp_path / "c.npz", capsys, "--teacher", "consensus", *files)
    assert crowd["reference"] == "consensus"
    for name in ("m03", "m03.onnx"):
        named = predict(place, tmp_path / "n.npz", capsys, "--teacher", name, *files)
        assert named["reference"] == "candidate:m03"
        assert named["files"][3]["agreement"] == 1.0
    assert main(["select", str(tmp_path / "c.npz"), "--method", "distortion"]) == 0
    assert "no float teacher" in capsys.readouterr().out
    sizes = load_predictions(tmp_path / "c.npz").bytes
    assert sizes is not None
    small = f"{int(sizes.min())}B"
    assert (
        main(["select", str(tmp_path / "c.npz"), "--method", "distortion", "--budget", small, "--json"]) == 0
    )
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert sum(score is not None for score in scores) == int((sizes == sizes.min()).sum())
    assert main(["select", str(tmp_path / "c.npz"), "--method", "distortion", "--budget", "1B"]) == 2
    assert "the cheapest needs" in capsys.readouterr().err


def test_files_and_the_family_compete(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--teacher", str(place / "float.onnx"), "--candidates-from", str(place / "models")]
    both = predict(
        place, tmp_path / "b.npz", capsys, *options, "--with-family", "--bits", "4,8", "--ends", "quantized"
    )
    assert both["candidates"][:34] == [f"m{i:02}" for i in range(34)]
    assert both["candidates"][34].startswith("b4-")
    assert len(both["bytes"]) == len(both["cost"]) == len(both["candidates"]) == 46


def test_a_file_given_other_images_than_it_was_made_for_is_flagged(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m").mkdir()
    onnx.save(linear(seed=0), tmp_path / "m" / "right.onnx")
    onnx.save(linear(seed=0), tmp_path / "m" / "wrong.onnx")
    (tmp_path / "m" / "wrong.json").write_text(json.dumps({"scale": 1e-9, "mean": 0, "std": 1}))
    options = ["--teacher", str(place / "float.onnx"), "--candidates-from", str(tmp_path / "m")]
    result = predict(place, tmp_path / "w.npz", capsys, *options)
    flags = {file["name"]: file["at_chance"] for file in result["files"]}
    assert flags == {"right": False, "wrong": True}
    assert any("wrong agrees with" in problem for problem in result["problems"])


def test_what_was_assumed_is_said_once_for_all_it_holds_for() -> None:
    notes = {"a": ["size"], "b": ["size", "logits"], "c": ["logits"], "d": ["logits"], "e": ["logits"]}
    records = [
        {"name": name, "format": "f", "bytes": 1, "agreement": 1.0, "at_chance": False, "notes": said}
        for name, said in notes.items()
    ]
    assert file_lines(records)[5:] == ["a, b: size", "b, c, d and 1 more: logits"]
    assert file_lines(records[2:])[3:] == ["every file: logits"]


def test_images_that_are_not_there_are_said_before_files_are_looked_into(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidate_files, "examine_files", None)
    options = ["--teacher", "consensus", "--candidates-from", str(place / "models")]
    assert main(["predict", *options, "--images", "nowhere", "--out", str(place / "no.npz")]) == 2
    assert "nothing at 'nowhere'" in capsys.readouterr().err


def test_what_makes_no_sense_is_one_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ("--candidates-from", str(place / "models"))
    assert "nothing at" in refused(place, capsys, "--teacher", "consensus", "--candidates-from", "nowhere")
    assert "--candidates-from" in refused(place, capsys, "--teacher", "consensus")
    assert "float teacher" in refused(place, capsys, "--teacher", "consensus", *files, "--with-family")
    assert "not a teacher" in refused(place, capsys, "--teacher", "m99", *files)
    over = ("--teacher", "m03", *files, "--budget", f"{(place / 'models' / 'm03.onnx').stat().st_size - 1}B")
    assert "m03 is to stand in for the teacher and does not fit" in refused(place, capsys, *over)
    assert "no file fits" in refused(place, capsys, "--teacher", "consensus", *files, "--budget", "10B")
    hopeless = refused(place, capsys, "--teacher", "consensus", *files, "--give-up-hopeless")
    assert "float teacher" in hopeless
