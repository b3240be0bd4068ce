"""Pipes, devices and folders where a file is expected, in every place that takes a path: never waited for."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.exports.bundle import open_bundle
from engine.exports.foreign import is_file_export
from engine.foreign.fitting import read_sidecar
from engine.foreign.found import find_files
from engine.predictions.file import load_predictions
from engine.target import open_images
from engine.types import UserError
from tests.hostile.contract import Contract
from tests.hostile.onnx_files import classifier
from tests.hostile.test_arrays import family, packed

MAKERS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "link to nothing": lambda path: path.symlink_to("missing"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".zip"])
def test_images(kind: str, suffix: str, contract: Contract) -> None:
    MAKERS[kind](Path(f"x{suffix}"))
    with pytest.raises(UserError):
        open_images(f"x{suffix}")


@pytest.mark.parametrize("kind", MAKERS)
def test_texts_and_predictions_of_the_command_line(kind: str, contract: Contract) -> None:
    Path("family.npz").write_bytes(packed(family()))
    MAKERS[kind](Path("odd"))
    commands = [
        ("select", "family.npz", "--method", "val-ce", "--labels", "odd"),
        ("select", "family.npz", "--method", "val-ce", "--class-names", "odd"),
        ("estimate", "odd"),
        ("study", "odd", "--out", "s"),
        ("gate", "odd", "--candidate", "a", "--max-drop", "0.1"),
        ("label-next", "odd"),
    ]
    for command in commands:
        assert contract.run(*command, made=("s",)), command


@pytest.mark.parametrize("kind", ["pipe", "endless device", "link to nothing", "folder"])
def test_a_folder_of_predictions(kind: str, contract: Contract) -> None:
    shard = family()["teacher"]
    for odd in ("teacher.npy", "candidates/a.npy", "meta.json"):
        shutil.rmtree("p", ignore_errors=True)
        Path("p/candidates").mkdir(parents=True)
        Path("p/meta.json").write_text(json.dumps({"names": ["a"]}))
        np.save("p/teacher.npy", shard)
        np.save("p/candidates/a.npy", shard)
        load_predictions("p")
        Path("p", odd).unlink()
        MAKERS[kind](Path("p", odd))
        with pytest.raises(UserError):
            load_predictions("p")


@pytest.mark.parametrize(
    "meta",
    [
        "[" * 100_000,
        "null",
        '{"names": 7}',
        '{"names": ["../../../etc/passwd"]}',
        '{"names": ["a", "a"]}',
        '{"names": ["a\\u0000b"]}',
        '{"names": ["' + "a" * 5000 + '"]}',
        '{"names": ["a"], "labels": {"a": 1}}',
        '{"names": ["a"], "labels": [1e999]}',
        '{"names": ["a"], "calibration": ' + "9" * 4000 + "}",
        '{"names": ["a"], "cost": [[[]]]}',
        '{"names": ["a"], "cost": ["NaN"]}',
        '{"names": ["a"], "class_names": 7}',
        '{"names": ["a"], "allocation": "' + "[" * 3000 + '"}',
        '{"names": ["a"], "latency": [null]}',
        '{"names": ["a"], "teacher_sha256": {}}',
        "\ufeff{}",
    ],
)
def test_strange_descriptions_of_a_folder(meta: str, contract: Contract) -> None:
    Path("p/candidates").mkdir(parents=True)
    np.save("p/teacher.npy", family()["teacher"])
    np.save("p/candidates/a.npy", family()["teacher"])
    Path("p/meta.json").write_text(meta)
    assert contract.run("estimate", "p")


@pytest.mark.parametrize("kind", ["pipe", "endless device", "link to nothing", "link to itself", "folder"])
def test_candidates_sidecars_and_bundles(kind: str, contract: Contract) -> None:
    Path("c").mkdir()
    Path("c/good.onnx").write_bytes(classifier().SerializeToString())
    MAKERS[kind](Path("c/odd.onnx"))
    MAKERS[kind](Path("c/good.json"))
    finding = find_files("c", Path("keep"))
    assert [file.name for file in finding.files] == ["good"]
    with pytest.raises(UserError):
        read_sidecar(Path("c/good.json"))
    Path("b").mkdir()
    MAKERS[kind](Path("b/certificate.json"))
    assert not is_file_export("b")
    with pytest.raises(UserError), open_bundle("b"):
        pass
