"""Shipping somebody's file: the same bytes, a certificate that anyone can check, and a script for its
runtime.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.__main__ import main
from engine.exports import foreign_predict
from engine.exports.certificate import Check
from engine.exports.foreign import PAGE, _promised, _read, is_file_export, verify_file
from engine.exports.foreign_page import file_page
from engine.predictions.file import load_predictions
from engine.samples import FOLDER, sample_target
from engine.types import UserError

FILES = FOLDER / "digits-files"
NAMES = ("static-qdq.onnx", "lite-full-integer.tflite")
STATED = ("--size", "32", "--channels", "1", "--mean", "0.2", "--std", "0.3")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files, twenty images and the predictions of the files on them."""
    root = tmp_path_factory.mktemp("ship")
    (root / "models").mkdir()
    (root / "images").mkdir()
    for name in NAMES:
        shutil.copy(FILES / name, root / "models" / name)
    for i, pixels in enumerate(sample_target().pool_images[:20]):
        Image.fromarray(pixels).save(root / "images" / f"{i:02}.png")
    assert main(["predict", *common(root), "--out", str(root / "p.npz")]) == 0
    for name in NAMES:
        stem = Path(name).stem
        evidence = ["--predictions", str(root / "p.npz"), "--candidate", stem, "--n-images", "8"]
        assert main(["export", *common(root), *evidence, "--out", str(root / stem)]) == 0
    return root


def common(root: Path) -> list[str]:
    files = ["--teacher", "consensus", "--candidates-from", str(root / "models"), *STATED]
    return [*files, "--images", str(root / "images"), "--store", str(root / "store")]


@pytest.mark.parametrize("name", NAMES)
def test_the_same_bytes_ship_and_repeat_what_was_judged(
    place: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = place / Path(name).stem
    assert (folder / f"model{Path(name).suffix}").read_bytes() == (FILES / name).read_bytes()
    facts = json.loads((folder / "certificate.json").read_text())
    assert facts["judged"]
    assert facts["runtime"].split()[0] == ("litert" if name.endswith(".tflite") else "onnxruntime")
    predictions = load_predictions(place / "p.npz")
    stored = predictions.candidates[predictions.names.index(folder.name)][:8]
    np.testing.assert_allclose(facts["probabilities"], stored, atol=1e-7)
    assert main(["verify", str(folder)]) == 0
    assert "repeats the judged probabilities on 8 images" in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_the_script_answers_without_the_engine(place: Path, name: str, tmp_path: Path) -> None:
    folder = shutil.copytree(place / Path(name).stem, tmp_path / "bundle")
    images = [str(path) for path in sorted((place / "images").iterdir())[:3]]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    code = "import sys, predict, numpy; numpy.save('out.npy', predict.predict(sys.argv[1:])[1])"
    subprocess.run(
        [sys.executable, "-c", code, *images], cwd=folder, env=environment, check=True, timeout=120
    )
    own = foreign_predict.predict(images, folder)[1]
    predictions = load_predictions(place / "p.npz")
    assert predictions.files is not None
    rows = [predictions.files.index(Path(image).name) for image in images]
    wanted = predictions.candidates[predictions.names.index(Path(name).stem)][rows]
    for answers in (np.load(folder / "out.npy"), own):
        np.testing.assert_allclose(answers, wanted, atol=1e-6)
        np.testing.assert_array_equal(answers.argmax(1), wanted.argmax(1))


def test_the_script_reads_a_row_of_zeros_as_a_guess() -> None:
    form = {"kind": "probabilities", "zero_point": -128, "scale": 1 / 256}
    raw = np.array([[-128, -128], [-128, 127]], np.int8)
    np.testing.assert_array_equal(foreign_predict.probabilities(raw, form), [[0.5, 0.5], [0, 1]])


def test_the_page_tells_decision_checks_and_origin(place: Path, tmp_path: Path) -> None:
    page = (place / "static-qdq" / PAGE).read_text(encoding="utf-8")
    facts = json.loads((place / "static-qdq" / "certificate.json").read_text())
    assert "This file is the one that was judged" in page
    assert "<h2>The decision</h2>" in page
    assert "repeats the judged probabilities on 8 images" in page
    assert facts["model"]["sha256"] in page
    hostile = "<script>alert(1)</script>"
    facts["model"] |= {"name": hostile, "notes": [hostile], "format": hostile, "source": hostile}
    failed = Check(name="answers", passed=False, value=None, limit=None, sentence=hostile)
    page = file_page(facts | {"evidence": {"predictions": hostile}}, [failed])
    assert "do not deploy" in page
    assert "<script" not in page
    folder = Path(shutil.copytree(place / "static-qdq", tmp_path / "bundle"))
    (folder / PAGE).write_text("All is well.")
    assert f"Changed since the export: {PAGE}." in verify_file(folder).checks[0].sentence


def test_a_changed_bundle_is_found_out(place: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(place / "static-qdq", tmp_path / "bundle"))
    assert is_file_export(folder)
    model = folder / "model.onnx"
    model.write_bytes(model.read_bytes()[:-1] + b"\0")
    found = verify_file(folder)
    assert not found.passed
    assert "not the file that was judged" in found.checks[0].sentence
    shutil.copy(place / "static-qdq" / "model.onnx", model)
    facts = json.loads((folder / "certificate.json").read_text())
    facts["probabilities"][0] = facts["probabilities"][1]
    (folder / "certificate.json").write_text(json.dumps(facts))
    assert [check.passed for check in verify_file(folder).checks] == [True, False]
    facts["file"] = "../../etc/passwd"
    (folder / "certificate.json").write_text(json.dumps(facts))
    with pytest.raises(UserError, match="no certificate of a model file"):
        verify_file(folder)


def test_what_cannot_be_shipped_is_said(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "thesis.txt").write_text("mine")
    assert main(["export", *common(place), "--candidate", "static-qdq", "--out", str(tmp_path / "own")]) == 2
    assert "no earlier export" in capsys.readouterr().err
    assert main(["export", *common(place), "--candidate", "other", "--out", str(tmp_path / "o")]) == 2
    assert "none of the files" in capsys.readouterr().err
    models = Path(shutil.copytree(place / "models", tmp_path / "models"))
    (models / "static-qdq.onnx").write_bytes((FILES / "float.onnx").read_bytes())
    changed = [str(models) if part == str(place / "models") else part for part in common(place)]
    evidence = ["--predictions", str(place / "p.npz"), "--candidate", "static-qdq"]
    assert main(["export", *changed, *evidence, "--out", str(tmp_path / "c")]) == 2
    assert "judged another" in capsys.readouterr().err


def test_any_value_anywhere_is_read_or_refused_in_a_sentence(place: Path, tmp_path: Path) -> None:
    """Every field of the certificate, and of the model it describes, by every kind of value."""
    folder = tmp_path / "forged"
    shutil.copytree(place / Path(NAMES[0]).stem, folder)
    genuine = json.loads((folder / "certificate.json").read_text())
    assert _promised(genuine)[0].name
    fields = [(key,) for key in genuine] + [("model", key) for key in genuine["model"]]
    fields += [("model", part, key) for part in ("input", "output") for key in genuine["model"][part]]
    refused = 0
    for path in fields:
        for value in (None, True, -1, 1e308, "x\n", [], {}, [[]], [[1], [1, 2]], {"a": None}, 2**70):
            facts = json.loads(json.dumps(genuine))
            holder = facts
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = value
            (folder / "certificate.json").write_text(json.dumps(facts))
            try:
                _promised(_read(folder))
            except UserError as error:
                refused += 1
                assert len(str(error).splitlines()) == 1, (path, value)  # noqa: PT017
    assert refused > 60
