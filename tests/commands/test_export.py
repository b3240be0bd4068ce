"""`export` and `verify` on the command line, and the bundle's own instructions followed by a stranger."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.__main__ import main
from engine.exports.bundle_predict import prepare as bundle_prepare
from engine.exports.certificate import Certificate
from engine.family.cost import costs
from engine.family.recipes import parse_slug, standard_family
from engine.predictions.file import load_predictions, make_predictions, save_predictions
from engine.target import normalise, prepare
from engine.target.decode import decode
from engine.teacher.graph import save
from engine.types import Preprocessing
from tests.judged import judged_probabilities
from tests.tiny_teacher import tiny_teacher

SLUG = "b4-channel-q99.5"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved teacher, images as files and as an array, and predictions of three candidates on both."""
    folder = tmp_path_factory.mktemp("work")
    teacher = tiny_teacher()
    save(teacher, folder / "tiny.onnx")
    pixels = np.random.default_rng(0).integers(0, 256, (12, 16, 16, 3)).astype(np.uint8)
    np.save(folder / "images.npy", pixels)
    (folder / "images").mkdir()
    for i, image in enumerate(pixels):
        Image.fromarray(image).save(folder / "images" / f"{i:02}.png")
    inputs = normalise(
        np.stack([prepare(image, teacher.preprocessing) for image in pixels]), teacher.preprocessing
    )
    names = (SLUG, "b2-tensor-q99", "b8-channel-q100")
    candidates = np.stack([judged_probabilities(teacher, parse_slug(name), inputs) for name in names]).astype(
        np.float32
    )
    reference = candidates[2]
    labels = reference.argmax(axis=1)
    for name, files in (("rows.npz", None), ("files.npz", tuple(f"{i:02}.png" for i in range(12)))):
        options = {"names": names, "labels": labels, **({"files": files} if files else {})}
        save_predictions(make_predictions(reference, candidates, **options), folder / name)
    return folder


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict, str]:
    code = main([*map(str, arguments), "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out else {}, captured.err


def test_export_with_evidence_then_verify_then_tamper(
    capsys: pytest.CaptureFixture[str], work: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    evidence = ("--predictions", work / "files.npz", "--method", "val-ce")
    code, result, _ = _run(
        capsys,
        "export",
        "--teacher",
        work / "tiny.onnx",
        "--images",
        work / "images",
        *evidence,
        "--out",
        out,
        "--bundle",
    )
    assert (code, result["passed"], result["failed"]) == (0, True, False)
    certificate = Certificate.from_json((out / "certificate.json").read_text(encoding="utf-8"))
    assert certificate.recipe == certificate.evidence["picked"] == result["recipe"]
    assert certificate.evidence["n_labels"] == 12
    assert certificate.evidence["runner_up"] in certificate.evidence["scores"]
    assert certificate.evidence["score"] == min(certificate.evidence["scores"].values())
    assert any("stored predictions" in note for note in certificate.notes)
    assert str(tmp_path) not in (out / "certificate.json").read_text(encoding="utf-8")
    code, result, _ = _run(capsys, "verify", f"{out}.zip", "--images", work / "images")
    assert (code, result["failed"]) == (0, False)
    assert "12 of the 12" in result["checks"][-1]["sentence"]
    (out / "model.onnx").write_bytes((out / "model.onnx").read_bytes() + b"\0")
    code, result, _ = _run(capsys, "verify", out)
    assert (code, result["failed"]) == (2, True)
    assert main(["verify", str(out)]) == 2
    assert "NOT verified" in capsys.readouterr().out


def test_rows_of_an_array_and_a_candidate_by_number(
    capsys: pytest.CaptureFixture[str], work: Path, tmp_path: Path
) -> None:
    index = [recipe.slug for recipe in standard_family()].index(SLUG)
    arguments = (
        "--candidate",
        index,
        "--images",
        work / "images.npy",
        "--predictions",
        work / "rows.npz",
        "--method",
        "distortion",
    )
    code, result, _ = _run(
        capsys, "export", "--teacher", work / "tiny.onnx", *arguments, "--out", tmp_path, "--n-images", 5
    )
    assert (code, result["recipe"]) == (0, SLUG)
    certificate = Certificate.from_json((tmp_path / "certificate.json").read_text(encoding="utf-8"))
    assert certificate.model["n_images"] == 5
    if certificate.evidence["picked"] != SLUG:
        assert f"{SLUG} overrides the recommendation" in certificate.evidence["overrides"]


def test_a_pick_within_a_budget_is_no_override(
    capsys: pytest.CaptureFixture[str], work: Path, tmp_path: Path
) -> None:
    """What `select` recommends under a limit is recommended by the certificate too, which says the limit."""
    recipes = [parse_slug(name) for name in load_predictions(work / "rows.npz").names]
    cost = costs(tiny_teacher(), recipes)
    path = tmp_path / "costed.npz"
    save_predictions(replace(load_predictions(work / "rows.npz"), cost=cost), path)
    free = _run(capsys, "select", path, "--method", "val-ce")[1]
    limit = ("--method", "val-ce", "--budget", f"{sorted(cost)[1]:.6f}")
    picked = _run(capsys, "select", path, *limit)[1]["name"]
    assert picked != free["name"]
    start = ("export", "--teacher", work / "tiny.onnx", "--predictions", path, "--candidate", picked)
    code, _, _ = _run(capsys, *start, *limit, "--label-trust", "checked", "--out", tmp_path / "out")
    evidence = Certificate.from_json((tmp_path / "out" / "certificate.json").read_text()).evidence
    assert (code, "overrides" in evidence, evidence["picked"]) == (0, False, picked)
    assert "% of the float weights" in (tmp_path / "out" / "certificate.html").read_text()
    code, _, errors = _run(capsys, *start[:3], *limit[2:], "--candidate", picked, "--out", tmp_path / "no")
    assert (code, "need the --predictions" in errors) == (2, True)


def test_predictions_of_another_model_fail(
    capsys: pytest.CaptureFixture[str], work: Path, tmp_path: Path
) -> None:
    save(tiny_teacher(seed=1), tmp_path / "other.onnx")
    arguments = ("--candidate", SLUG, "--images", work / "images.npy", "--predictions", work / "rows.npz")
    code, result, _ = _run(
        capsys, "export", "--teacher", tmp_path / "other.onnx", *arguments, "--out", tmp_path / "out"
    )
    assert (code, result["passed"]) == (2, False)


def _stored(work: Path, path: Path, **fields: object) -> Path:
    """Save the predictions of `work` with other fields."""
    found = load_predictions(work / "rows.npz")
    save_predictions(replace(found, **fields), path)
    return path


def test_predictions_of_another_model_are_refused_by_cost_or_classes(
    capsys: pytest.CaptureFixture[str], work: Path, tmp_path: Path
) -> None:
    names = load_predictions(work / "rows.npz").names
    right, wrong = (
        _stored(work, tmp_path / name, cost=costs(teacher, [parse_slug(slug) for slug in names]))
        for name, teacher in (("right.npz", tiny_teacher()), ("wrong.npz", tiny_teacher(width=12)))
    )
    other = tmp_path / "classes.npz"
    save_predictions(make_predictions(np.full((2, 3), 1 / 3), np.full((1, 2, 3), 1 / 3), names=[SLUG]), other)
    # another quantizer's
    foreign = _stored(work, tmp_path / "foreign.npz", names=("a", "b", "c"), cost=np.array([0.1, 0.2, 0.3]))
    start = ("export", "--teacher", work / "tiny.onnx", "--candidate", SLUG)
    for path, words in ((wrong, "of another model than"), (other, "3 classes and")):
        code, result, errors = _run(capsys, *start, "--predictions", path, "--out", tmp_path / "no")
        assert (code, result) == (2, {})
        assert words in errors
        assert len(errors.strip().splitlines()) == 1
        assert not (tmp_path / "no").exists()
    for path in (right, foreign):
        assert _run(capsys, *start, "--predictions", path, "--out", tmp_path / "out")[0] == 0


def test_summary_claims_only_what_was_compared(
    capsys: pytest.CaptureFixture[str], work: Path, tmp_path: Path
) -> None:
    start = [
        "export",
        "--teacher",
        str(work / "tiny.onnx"),
        "--out",
        str(tmp_path / "out"),
        "--predictions",
        str(work / "rows.npz"),
    ]
    cases = [
        (
            ["--candidate", SLUG],
            "repeats the quantized model of its recipe on 4 images of seeded noise",
            "give the images they were made on",
        ),
        (
            ["--candidate", "b5-tensor-q99", "--images", str(work / "images")],
            "of its recipe on 12 images",
            "hold no b5-tensor-q99",
        ),
        (["--candidate", SLUG, "--images", str(work / "images.npy")], "is the model that was judged", None),
    ]
    for arguments, finding, uncompared in cases:
        assert main([*start, *arguments]) == 0
        out = capsys.readouterr().out
        assert finding in out
        assert ("is the model that was judged" in out) == (uncompared is None)
        assert ("was not compared with the predictions given" in out) == (uncompared is not None)
        assert uncompared is None or uncompared in out
        assert "The recipe counts" in out
        assert "the file takes" in out


def test_folder_and_zip_are_checked_before_the_teacher_is_read(
    capsys: pytest.CaptureFixture[str], work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("mine")
    (tmp_path / "out.zip").write_text("mine")
    start = ("export", "--teacher", "absent.onnx", "--candidate", SLUG)
    for arguments, words in (
        (("--out", ""), "empty text"),
        (("--out", tmp_path / "mine"), "holds README.md"),
        (("--out", tmp_path / "out", "--bundle"), "not a bundle written by export"),
        (("--out", "/", "--bundle"), "nothing lies beside"),
    ):
        code, _, errors = _run(capsys, *start, *arguments)
        assert code == 2
        assert words in errors
        assert len(errors.strip().splitlines()) == 1
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    code, result, _ = _run(
        capsys, "export", "--teacher", work / "tiny.onnx", "--candidate", SLUG, "--out", ".", "--bundle"
    )
    assert (code, result["bundle"]) == (0, str(tmp_path / "here.zip"))


def test_verify_of_no_bundle_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str], work: Path) -> None:
    for path in (work / "images", work / "files.npz", work / "tiny.onnx", work / "absent", ""):
        assert main(["verify", str(path)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert len(captured.err.strip().splitlines()) == 1
        assert "Give the folder or .zip that python -m engine export wrote." in captured.err


def test_corrupt_images_are_refused_without_naming_an_option_that_is_not_there(
    capsys: pytest.CaptureFixture[str], work: Path, tmp_path: Path
) -> None:
    out, images = tmp_path / "out", tmp_path / "images"
    images.mkdir()
    (images / "bad.png").write_bytes(b"no image")
    start = ("export", "--teacher", work / "tiny.onnx", "--candidate", SLUG, "--out", out)
    assert _run(capsys, *start)[0] == 0
    for arguments in ((*start, "--images", images), ("verify", out, "--images", images)):
        code, _, errors = _run(capsys, *arguments)
        assert code == 2
        assert "bad.png" in errors
        assert "skip" not in errors
        assert "Repair or remove it, or give other images." in errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no candidate was named"),
        (("--candidate", "b9-channel-q99"), "bits must be 2 to 8"),
        (("--candidate", "72"), "does not exist"),
        (("--candidate", SLUG, "--method", "val-ce"), "need the --predictions"),
        (("--candidate", SLUG, "--formats", "tflite"), "unknown format"),
        (("--candidate", SLUG, "--images", "absent"), "nothing at"),
        (("--candidate", SLUG, "--max-opset", "18"), "opset 21"),
        (("--candidate", SLUG, "--n-images", "0"), "at least 1"),
    ],
)
def test_bad_requests_end_in_one_line(
    capsys: pytest.CaptureFixture[str], work: Path, tmp_path: Path, arguments: tuple, words: str
) -> None:
    code, result, errors = _run(
        capsys, "export", "--teacher", work / "tiny.onnx", "--out", tmp_path, *arguments
    )
    assert (code, result) == (2, {})
    assert words in errors
    assert len(errors.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "settings",
    [
        Preprocessing(20, 24, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3)),
        Preprocessing(
            20,
            20,
            resize=26,
            interpolation="bicubic",
            layout="NHWC",
            order="BGR",
            scale=1.0,
            mean=(104.0, 117.0, 123.0),
        ),
        Preprocessing(16, 16, resize=16, channels=1, mean=(0.2,), std=(0.3,)),
    ],
)
@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "I;16", "P"])
def test_bundle_prepares_images_as_the_engine_does(
    tmp_path: Path, settings: Preprocessing, mode: str
) -> None:
    rng = np.random.default_rng(0)
    if mode == "I;16":
        image = Image.fromarray(rng.integers(0, 65536, (31, 45)).astype(np.uint16))
    else:
        image = Image.fromarray(rng.integers(0, 256, (31, 45, 4)).astype(np.uint8), "RGBA")
        image = image if mode == "RGBA" else image.convert("RGB").convert(mode)
    path = tmp_path / "image.png"
    image.save(path)
    ours = bundle_prepare(Image.open(path), json.loads(settings.to_json()))
    pixels = prepare(decode(path.read_bytes(), path.name, 10**8), settings)
    expected = normalise(pixels[None], settings)[0]
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=2e-6)


@pytest.mark.slow
def test_a_stranger_runs_the_bundle_in_a_fresh_environment(work: Path, tmp_path: Path) -> None:
    """Only what the bundle's README asks for is installed, and predict.py runs from the unpacked zip
    alone.
    """
    out, home = tmp_path / "out", tmp_path / "stranger"
    assert (
        main(
            [
                "export",
                "--teacher",
                str(work / "tiny.onnx"),
                "--candidate",
                "b2-channel-q99",
                "--out",
                str(out),
                "--bundle",
                "--json",
            ]
        )
        == 0
    )
    home.mkdir()
    subprocess.run([sys.executable, "-m", "zipfile", "-e", f"{out}.zip", str(home)], check=True)
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    readme = (home / "README.md").read_text(encoding="utf-8")
    packages = next(
        line.strip().split()[2:] for line in readme.splitlines() if line.strip().startswith("pip install")
    )
    installed = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", *packages], capture_output=True, text=True, timeout=500
    )
    if installed.returncode:
        pytest.skip(f"no package index is reachable: {installed.stderr.strip().splitlines()[-1]}")
    image = work / "images" / "03.png"
    done = subprocess.run(
        [python, "-I", "predict.py", str(image)], cwd=home, capture_output=True, text=True, check=True
    )
    _, name, confidence = done.stdout.strip().split("\t")
    teacher = tiny_teacher()
    inputs = normalise(
        prepare(decode(image.read_bytes(), "", 10**6), teacher.preprocessing)[None], teacher.preprocessing
    )
    judged = judged_probabilities(teacher, parse_slug("b2-channel-q99"), inputs)[0]
    assert name == teacher.class_names[int(judged.argmax())]
    assert abs(float(confidence) - judged.max()) < 1e-4
