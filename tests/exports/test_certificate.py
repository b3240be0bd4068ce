"""write(): what lands in the folder, what the certificate says, when it fails, and that its page is safe to
open.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.exports.certificate import Certificate
from engine.exports.report import size, size_words
from engine.exports.verification import verify
from engine.exports.writing import write
from engine.family.cost import cost
from engine.family.recipes import parse_slug
from engine.teacher.agreement import random_images
from engine.types import Teacher, UserError
from tests.judged import judged_probabilities
from tests.tiny_teacher import tiny_teacher

RECIPE = parse_slug("b2-channel-q99.5-ends")
EVIDENCE = {
    "method": "ce-combo",
    "n_labels": np.int64(25),
    "scores": np.array([0.5, np.nan]),
    "warnings": ["<b>few</b> labels"],
}


@pytest.fixture(scope="module")
def teacher() -> Teacher:
    return replace(tiny_teacher(), name='<script>alert("x")</script>')


@pytest.fixture(scope="module")
def written(
    teacher: Teacher, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Certificate, list[tuple[int, int]]]:
    folder, steps = tmp_path_factory.mktemp("export"), []
    images = random_images(6, teacher.preprocessing, 3)
    certificate = write(
        teacher,
        RECIPE,
        folder,
        images=images,
        evidence=EVIDENCE,
        on_progress=lambda done, total: steps.append((done, total)),
    )
    return folder, certificate, steps


def test_folder_holds_the_export_and_nothing_else(written: tuple) -> None:
    folder, certificate, steps = written
    expected = {"model.onnx", "certificate.json", "certificate.html", "README.md", "predict.py"}
    expected.add("class_names.txt")
    assert {path.name for path in folder.iterdir()} == expected
    assert certificate.passed
    assert set(certificate.files) == expected - {"certificate.json"}
    assert steps[-1][0] == steps[-1][1]
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)


def test_certificate_says_what_was_asked(written: tuple) -> None:
    _, certificate, _ = written
    names = [check.name for check in certificate.checks]
    for level in ("disabled", "basic", "extended", "all"):
        assert f"onnxruntime, optimization {level}" in names
    assert any("reference evaluator" in name for name in names)
    assert [profile.name for profile in certificate.profiles] == ["float", "packed", "folded"]
    assert all(profile.latency_ms > 0 and profile.load_ms > 0 for profile in certificate.profiles)
    assert certificate.evidence["n_labels"] == 25
    assert certificate.evidence["scores"] == [0.5, None]
    assert certificate.sizes.theory < certificate.sizes.float_weights
    assert {"anchorpoint", "onnxruntime", "onnx", "numpy", "python"} == set(certificate.versions)
    assert "--candidate b2-channel-q99.5-ends" in certificate.command


def test_json_round_trip_and_seal(written: tuple) -> None:
    folder, certificate, _ = written
    text = (folder / "certificate.json").read_text(encoding="utf-8")
    assert Certificate.from_json(text) == certificate
    assert Certificate.from_json(text).to_json() == text
    with pytest.raises(UserError, match="edited"):
        Certificate.from_json(text.replace('"b2-channel-q99.5-ends"', '"b8-channel-q100"'))
    for damaged in ("", "[]", "{}", text[:-30], json.dumps({**json.loads(text), "checks": 3})):
        with pytest.raises(UserError):
            Certificate.from_json(damaged)


def test_page_escapes_every_text_and_loads_nothing(written: tuple) -> None:
    page = (written[0] / "certificate.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<b>few" not in page
    assert "&lt;b&gt;few&lt;/b&gt; labels" in page
    assert not re.search(r"(src|href)\s*=|url\(|@import", page)
    assert "prefers-color-scheme:dark" in page


def test_wrong_judged_predictions_fail(teacher: Teacher, tmp_path: Path) -> None:
    images = random_images(3, teacher.preprocessing, 0)
    judged = judged_probabilities(teacher, parse_slug("b3-channel-q99.5-ends"), images)  # another candidate's
    certificate = write(teacher, RECIPE, tmp_path, images=images, judged=judged, profiles=False)
    failed = [check.name for check in certificate.checks if not check.passed]
    assert not certificate.passed
    assert "onnxruntime, default options" in failed
    assert "weights" not in failed
    assert "do not deploy" in (tmp_path / "certificate.html").read_text(encoding="utf-8")
    assert not verify(tmp_path).passed


def test_stored_predictions_in_float32_pass(teacher: Teacher, tmp_path: Path) -> None:
    images = random_images(3, teacher.preprocessing, 0)
    judged = judged_probabilities(teacher, RECIPE, images).astype(np.float32)
    certificate = write(teacher, RECIPE, tmp_path, images=images, judged=judged, profiles=False)
    assert certificate.passed
    assert any("stored predictions" in note for note in certificate.notes)
    assert (
        certificate.finding == "is the model that was judged: it repeats the stored predictions on 3 images"
    )
    assert "the file is the model that was judged" in (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "This file is the model that was judged" in (tmp_path / "certificate.html").read_text(
        encoding="utf-8"
    )


def to_14_bits(probs: np.ndarray) -> np.ndarray:
    """Round as the shipped samples are."""
    mantissa, exponent = np.frexp(probs.astype(np.float64))
    return np.ldexp(np.round(mantissa * 2**14) / 2**14, exponent).astype(np.float32)


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize(
    "rounded", [lambda probs: probs.astype(np.float16), to_14_bits], ids=["half", "14 bits"]
)
def test_predictions_stored_with_few_bits_are_judged_by_their_rounding(
    teacher: Teacher, tmp_path: Path, right: bool, rounded: Callable[[np.ndarray], np.ndarray]
) -> None:
    images = random_images(3, teacher.preprocessing, 0)
    recipe = RECIPE if right else parse_slug("b3-channel-q99.5-ends")
    judged = rounded(judged_probabilities(teacher, recipe, images))
    certificate = write(teacher, RECIPE, tmp_path, images=images, judged=judged, profiles=False)
    assert {check.name for check in certificate.checks if not check.passed} == (
        set() if right else {"stored predictions"}
    )


def test_without_images_noise_is_used_and_said_so(teacher: Teacher, tmp_path: Path) -> None:
    certificate = write(teacher, RECIPE, tmp_path, profiles=False)
    assert certificate.passed
    assert any("seeded noise" in note for note in certificate.notes)
    assert certificate.finding == "repeats the quantized model of its recipe on 4 images of seeded noise"
    _claims_no_judgement(tmp_path, certificate.finding)


def test_images_without_judged_predictions_claim_no_judgement(written: tuple) -> None:
    folder, certificate, _ = written
    assert certificate.finding == "repeats the quantized model of its recipe on 6 images"
    _claims_no_judgement(folder, certificate.finding)


def _claims_no_judgement(folder: Path, finding: str) -> None:
    """No file of the export may say that predictions were judged when none were given."""
    texts = {
        name: (folder / name).read_text(encoding="utf-8")
        for name in ("README.md", "certificate.html", "certificate.json")
    }
    assert finding in texts["README.md"]
    assert finding in texts["certificate.html"]
    assert '"judged": false' in texts["certificate.json"]
    for text in texts.values():
        assert "judged" not in text.replace('"judged": false', "").replace("<span class=n>judged</span>", "")


def test_writing_again_replaces_everything_and_repeats_the_bytes(teacher: Teacher, tmp_path: Path) -> None:
    first = write(teacher, RECIPE, tmp_path, profiles=False, formats=("onnx", "packed"))
    assert (tmp_path / "packed.safetensors").exists()
    second = write(teacher, RECIPE, tmp_path, profiles=False)
    assert first.sha256 == second.sha256
    assert not (tmp_path / "packed.safetensors").exists()  # it would have belonged to another export
    assert verify(tmp_path).passed


def test_requests_that_do_not_fit_are_refused_before_anything_is_written(
    teacher: Teacher, tmp_path: Path
) -> None:
    images = random_images(2, teacher.preprocessing, 0)
    folder = tmp_path / "new"
    cases = [
        ({"formats": ("onnx", "tflite")}, "unknown format tflite"),
        ({"formats": ("keras",)}, "Keras file"),
        ({"judged": np.ones((2, 4))}, "without the images"),
        ({"images": images[:, :, :8]}, "takes"),
        ({"images": images[:0]}, "takes"),
        ({"images": images, "judged": np.ones((2, 3))}, "one row per image"),
        ({"max_opset": 13}, "opset 21"),
    ]
    for request, words in cases:
        with pytest.raises(UserError, match=words):
            write(teacher, RECIPE, folder, **request)
    assert not folder.exists() or not list(folder.iterdir())


def test_int4_instead_of_int2_is_said(teacher: Teacher, tmp_path: Path) -> None:
    certificate = write(teacher, RECIPE, tmp_path, max_opset=21, profiles=False)
    assert certificate.passed
    assert certificate.model["container_bits"] == 4
    assert any("INT4" in note for note in certificate.notes)
    assert "codes of 2 bits stored as INT4 add" in size_words(certificate)
    assert "--max-opset 21" in certificate.command


def test_both_sizes_and_their_reason_are_said(teacher: Teacher, tmp_path: Path) -> None:
    for slug, reason in (
        ("b5-channel-q99.5", "codes of 5 bits stored as INT8 add"),
        ("b4-channel-q99.5", "graph and zero points add"),
    ):
        certificate = write(teacher, parse_slug(slug), tmp_path, profiles=False)
        words = size_words(certificate)
        share = 100 * cost(teacher, parse_slug(slug))
        counts = f"The recipe counts {size(certificate.sizes.theory)}, {share:.1f} % of the float weights"
        assert counts in words
        assert f"the file takes {size((tmp_path / 'model.onnx').stat().st_size)}" in words
        assert reason in words
        assert words in (tmp_path / "README.md").read_text(encoding="utf-8")
        assert words in (tmp_path / "certificate.html").read_text(encoding="utf-8")


def test_probabilities_as_output(tmp_path: Path) -> None:
    assert write(tiny_teacher(output="probabilities"), RECIPE, tmp_path, profiles=False).passed


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (546, "0.546 kB"),
        (2660, "2.66 kB"),
        (999_499, "999 kB"),
        (1_100_000, "1.1 MB"),
        (102_400_000, "102 MB"),
    ],
)
def test_sizes_in_words(n: int, text: str) -> None:
    assert size(n) == text
