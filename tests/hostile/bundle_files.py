"""Forged bundles: the hashes and the seal are right, since a forger can compute them; what they promise is
not.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from engine.exports.certificate import _seal
from engine.exports.writing import write
from engine.teacher.graph import model_facts
from engine.types import Recipe
from tests.tiny_teacher import tiny_teacher


def genuine(folder: Path) -> Path:
    """An honest export of a tiny teacher over (batch, 3, 8, 8)."""
    write(tiny_teacher(side=8), Recipe(4, 100.0, "channel", False), folder, profiles=False)
    return folder


def forge(folder: Path, target: Path, *, model: onnx.ModelProto | None = None, **fields: Any) -> Path:
    """Copy a genuine bundle with another model in it or other fields in its certificate, and seal it
    again.
    """
    shutil.copytree(folder, target)
    content: dict[str, Any] = json.loads((target / "certificate.json").read_text())
    if model is not None:
        facts = model_facts(onnx.load(target / "model.onnx"), "")
        helper.set_model_props(model, facts)
        (target / "model.onnx").write_bytes(model.SerializeToString())
        content["files"]["model.onnx"] = hashlib.sha256(model.SerializeToString()).hexdigest()
    content.update(fields)
    del content["seal"]
    (target / "certificate.json").write_text(json.dumps({**content, "seal": _seal(content)}))
    return target


def bomb(folder: Path, target: Path, n_bytes: int) -> Path:
    """A zip of a few megabytes whose model unpacks to `n_bytes` of zeros."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / "certificate.json", "certificate.json")
        with archive.open("model.onnx", "w", force_zip64=True) as file:
            for _ in range(n_bytes >> 20):
                file.write(bytes(1 << 20))
    return target
