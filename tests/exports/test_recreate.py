"""The printed command makes the very bytes again, also for a teacher whose preprocessing and class names were
edited.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from engine.exports.certificate import Certificate
from engine.exports.recreate import CLASS_NAMES, class_names_text, recreate_command
from engine.files.hashing import sha256_of
from engine.target import normalise, prepare
from engine.teacher.facts import facts_of
from engine.teacher.load import load_teacher
from engine.teacher.request import LoadRequest
from engine.types import Preprocessing
from pages.ui.jobs.tasks import write_export
from pages.ui.workspace.folder import write_bytes, write_json
from tests.exports.test_certified import FakeDesk
from tests.tiny_teacher import tiny_teacher

ROOT = Path(__file__).resolve().parents[2]
SLUG = "b4-channel-q99.5"
EDITED = Preprocessing(
    16,
    16,
    resize=19,
    interpolation="bicubic",
    order="BGR",
    scale=1 / 127.5,
    mean=(-0.1, 1.0, 0.3333333333333333),
    std=(0.5, 0.25, 1 / 3),
)
NAMES = ("cat, small", "it's a dog", "-bird", "<b>fish</b>")


def answers(folder: Path, preprocessing: Preprocessing) -> np.ndarray:
    """What model.onnx answers to a few images, prepared as a file says."""
    pixels = np.random.default_rng(4).integers(0, 256, (3, 20, 24, 3), dtype=np.uint8)
    images = normalise(np.stack([prepare(image, preprocessing) for image in pixels]), preprocessing)
    session = onnxruntime.InferenceSession(
        (folder / "model.onnx").read_bytes(), providers=["CPUExecutionProvider"]
    )
    found: np.ndarray = session.run(None, {session.get_inputs()[0].name: images})[0]
    return found


@pytest.mark.slow
def test_a_stranger_makes_the_same_bytes_of_an_edited_teacher(tmp_path: Path) -> None:
    desk, stranger = tmp_path / "desk", tmp_path / "stranger"
    source = desk / "upload" / "net.onnx"
    write_bytes(source, tiny_teacher().graph)
    teacher = load_teacher(str(source))
    edited = replace(teacher, preprocessing=EDITED, class_names=NAMES)
    write_bytes(desk / "teacher.onnx", teacher.graph)
    write_json(desk / "outline.json", facts_of(edited))
    write_export(
        FakeDesk(desk),  # type: ignore[arg-type]
        SLUG,
        ["onnx"],
        "",
        source=str(source),
        stated={"spec": str(source)},
        evidence={},
    )
    export = desk / "export"
    certificate = Certificate.from_json((export / "certificate.json").read_text())
    assert certificate.passed
    assert str(tmp_path) not in certificate.command
    stranger.mkdir()
    shutil.copy(source, stranger)
    shutil.copy(export / CLASS_NAMES, stranger)
    again = follow(certificate.command, stranger)
    assert sha256_of(again / "model.onnx") == sha256_of(export / "model.onnx") == certificate.sha256
    assert np.array_equal(answers(again, EDITED), answers(export, EDITED))
    assert certificate.command in (export / "README.md").read_text()
    assert Certificate.from_json((again / "certificate.json").read_text()).command == certificate.command


def follow(command: str, stranger: Path) -> Path:
    """Run a printed command in a folder, as somebody else would, and return what it wrote."""
    done = subprocess.run(
        [sys.executable, *shlex.split(command)[1:], "--store", str(stranger / "store")],
        cwd=stranger,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return stranger / "DIR"


@pytest.mark.slow
@pytest.mark.parametrize("slug", ["b8a8-channel-minmax", "mix-0.4"])
def test_a_candidate_fitted_to_images_names_them_and_is_made_again(tmp_path: Path, slug: str) -> None:
    desk, stranger = tmp_path / "desk", tmp_path / "stranger"
    stranger.mkdir()
    source = stranger / "net.onnx"
    write_bytes(source, tiny_teacher(width=24).graph)
    teacher = load_teacher(str(source))
    pixels = np.random.default_rng(0).integers(0, 256, (24, 16, 16, 3), dtype=np.uint8)
    np.save(stranger / "my pool.npy", pixels)
    write_bytes(desk / "teacher.onnx", teacher.graph)
    write_json(desk / "outline.json", facts_of(replace(teacher, preprocessing=EDITED, class_names=NAMES)))
    write_export(
        FakeDesk(desk),  # type: ignore[arg-type]
        slug,
        ["onnx"],
        str(stranger / "my pool.npy"),
        source=str(source),
        stated={"spec": str(source)},
        evidence={},
    )
    certificate = Certificate.from_json((desk / "export" / "certificate.json").read_text())
    assert "--images 'my pool.npy'" in certificate.command
    assert "the teacher's file and the images beside it" in (desk / "export" / "README.md").read_text()
    shutil.copy(desk / "export" / CLASS_NAMES, stranger)
    assert sha256_of(follow(certificate.command, stranger) / "model.onnx") == certificate.sha256


def test_every_part_of_the_preprocessing_stands_in_the_command() -> None:
    teacher = replace(tiny_teacher(), preprocessing=EDITED, class_names=NAMES)
    stated = LoadRequest(spec="/home/someone/nets/my net.pth", arch="resnet18", classes=4)
    words = shlex.split(recreate_command(teacher, SLUG, stated, {"formats": "onnx,packed"}))
    assert words[:8] == ["python", "-m", "engine", "export", "--teacher", "my net.pth", "--arch", "resnet18"]
    for option in (
        *("--size=16x16", "--channels=3", "--layout=NCHW", "--resize=19", "--interpolation=bicubic"),
        *("--mean=-0.1,1.0,0.3333333333333333", "--std=0.5,0.25,0.3333333333333333", "--order=BGR"),
        *("--scale=0.00784313725490196", "--classes", "--class-names", "--formats"),
    ):
        assert option in words
    assert words[-4:] == ["--candidate", SLUG, "--out", "DIR"]


def test_names_that_no_text_file_can_hold_are_left_to_the_model() -> None:
    assert class_names_text(("a", "b b")) == "a\nb b\n"
    for names in (("a\nb", "c"), (" a", "c"), ("", "c")):
        assert class_names_text(names) == ""
        teacher = replace(tiny_teacher(2), class_names=names)
        assert "--class-names" not in recreate_command(teacher, SLUG, LoadRequest(spec="timm:resnet18"))


def test_names_of_a_model_stay_whole() -> None:
    command = recreate_command(tiny_teacher(), SLUG, LoadRequest(spec="sample:digits-resnet"))
    assert "--teacher sample:digits-resnet" in command
