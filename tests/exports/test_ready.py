"""Finished files: written as they are, compared with what was judged, verified again, and refused where they
are another.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.deploy.calibration import calibrate_on
from engine.deploy.workshop import Workshop
from engine.exports.certificate import Certificate
from engine.exports.integer_parity import has_integer_activations
from engine.exports.ready import ReadyFile, ReadyRequest, write_ready
from engine.exports.verification import verify
from engine.family.kinds import parse_any
from engine.types import Recipe, UserError
from tests.tiny_teacher import tiny_teacher

IMAGES = np.random.default_rng(5).standard_normal((24, 3, 16, 16)).astype(np.float32)
TEACHER = tiny_teacher(width=24)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(calibrate_on(TEACHER, IMAGES), tmp_path_factory.mktemp("store"))


def ready(shop: Workshop, name: str) -> ReadyFile:
    recipe = parse_any(name)
    assert not isinstance(recipe, Recipe)
    built = shop.file(recipe)
    content = built.model.path.read_bytes()
    return ReadyFile(name, content, built.weight_bytes, built.facts, built.model.notes, built.model.sha256)


@pytest.mark.parametrize("name", ["b8a8-channel-minmax", "mix-0.4", "mix-0.4-opt", "b4-channel-q100-bc"])
def test_a_finished_file_is_certified_and_verifies(shop: Workshop, tmp_path: Path, name: str) -> None:
    file = ready(shop, name)
    request = ReadyRequest(images=IMAGES[:8], profiles=False)
    certificate = write_ready(TEACHER, file, tmp_path / "out", request)
    assert certificate.passed, [check for check in certificate.checks if not check.passed]
    assert (tmp_path / "out" / "model.onnx").read_bytes() == file.content
    stored = Certificate.from_json((tmp_path / "out" / "certificate.json").read_text())
    facts = stored.model["facts"]
    assert len(facts["calibration_images"]) == len(IMAGES)
    assert ("ranges" in facts) == name.startswith("b8a8")
    assert ("allocation" in facts) == name.startswith("mix")
    assert stored.sizes.file == len(file.content)
    assert stored.sizes.theory <= stored.sizes.weights
    again = verify(tmp_path / "out", IMAGES[:8])
    assert again.passed, again.checks
    page = (tmp_path / "out" / "certificate.html").read_text()
    assert name in page


def test_integer_activations_are_seen_in_the_file(shop: Workshop) -> None:
    assert has_integer_activations(ready(shop, "b8a8-tensor-mse").content)
    assert not has_integer_activations(ready(shop, "mix-0.4").content)


def test_the_certificate_says_what_other_processors_may_do(shop: Workshop, tmp_path: Path) -> None:
    file = ready(shop, "b8a8-channel-minmax")
    certificate = write_ready(TEACHER, file, tmp_path / "out", ReadyRequest(profiles=False))
    assert any("other processors" in note for note in certificate.notes)
    measured = next(check for check in certificate.checks if check.name == "plain definition")
    assert measured.value is not None
    assert certificate.model["integer_activations"] is True


def test_other_bytes_than_the_judged_do_not_pass(shop: Workshop, tmp_path: Path) -> None:
    file = replace(ready(shop, "b8a8-channel-minmax"), judged_sha256="0" * 64)
    certificate = write_ready(TEACHER, file, tmp_path / "out", ReadyRequest(profiles=False))
    assert [check.name for check in certificate.checks if not check.passed] == ["judged bytes"]


def test_other_predictions_than_the_files_do_not_pass(shop: Workshop, tmp_path: Path) -> None:
    wrong = np.full((4, TEACHER.n_classes), 1 / TEACHER.n_classes)
    request = ReadyRequest(images=IMAGES[:4], judged=wrong, profiles=False)
    certificate = write_ready(TEACHER, ready(shop, "b8a8-channel-minmax"), tmp_path / "out", request)
    assert not certificate.passed


def test_a_widened_limit_is_not_believed(shop: Workshop, tmp_path: Path) -> None:
    """A stranger's certificate cannot allow its integer file to be any model at all."""
    certificate = write_ready(
        TEACHER, ready(shop, "b8a8-channel-minmax"), tmp_path / "out", ReadyRequest(profiles=False)
    )
    flat = np.full((4, TEACHER.n_classes), 1 / TEACHER.n_classes)
    probes = tuple(replace(type(p).of(flat, 1.0, seed=p.seed), limit=1.0) for p in certificate.probes)
    (tmp_path / "out" / "certificate.json").write_text(replace(certificate, probes=probes).to_json())
    assert not verify(tmp_path / "out").passed


def test_other_formats_are_refused(shop: Workshop, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="exists as ONNX only"):
        write_ready(
            TEACHER, ready(shop, "mix-0.4"), tmp_path / "out", ReadyRequest(), formats=("onnx", "safetensors")
        )
