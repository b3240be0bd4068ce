"""Finding model files: names, sidecars, and zips that mean harm."""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from engine.foreign.found import LIMITS, find_files, name_files
from engine.types import UserError


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["b.onnx", "a/c.tflite"], ["b", "c"]),
        (["a/x.onnx", "b/x.onnx"], ["a/x", "b/x"]),
        (["x.onnx", "x.tflite"], ["x.onnx", "x.tflite"]),
        (["x.onnx", "a/x.onnx", "a/x.tflite"], ["x", "a/x.onnx", "a/x.tflite"]),
        (["b4-channel-q100.onnx"], ["b4-channel-q100.onnx"]),
        (["new\nline.onnx"], ["new_line"]),
    ],
)
def test_names_are_stems_until_they_clash(paths: list[str], names: list[str]) -> None:
    assert name_files(paths) == names


def test_a_folder_is_listed_in_order_with_what_cannot_be_judged(tmp_path: Path) -> None:
    for name in ("b.onnx", "a.tflite", "notes.txt", ".hidden.onnx", "sub/c.ONNX", "a.json", "w.pth"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "empty.onnx").touch()
    os.mkfifo(tmp_path / "pipe.onnx")
    finding = find_files(tmp_path, tmp_path / "keep")
    assert [file.name for file in finding.files] == ["a", "b", "c"]
    assert finding.files[0].sidecar == tmp_path / "a.json"
    assert finding.files[1].sidecar is None
    reasons = {refusal.name: refusal.reason for refusal in finding.refused}
    assert set(reasons) == {"w", "empty", "pipe"}
    assert "no graph" in reasons["w"]
    assert "regular" in reasons["pipe"]


def test_a_zip_is_copied_out_under_hashes(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
        archive.writestr("models/a.onnx", b"one")
        archive.writestr("models/a.json", b"{}")
        archive.writestr("readme.md", b"hello")
    finding = find_files(tmp_path / "m.zip", tmp_path / "keep")
    assert [(file.name, file.source) for file in finding.files] == [("a", "models/a.onnx")]
    assert finding.files[0].path.name == hashlib.sha256(b"one").hexdigest() + ".onnx"
    assert finding.files[0].path.read_bytes() == b"one"
    assert finding.files[0].sidecar is not None
    assert finding.files[0].sidecar.read_bytes() == b"{}"
    assert {path.suffix for path in (tmp_path / "keep").iterdir()} == {".onnx", ".json"}


def test_hostile_zips_are_refused(tmp_path: Path) -> None:
    def refused(words: str, **entries: bytes) -> None:
        with zipfile.ZipFile(tmp_path / "bad.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in entries.items():
                archive.writestr(name, content)
        with pytest.raises(UserError, match=words):
            find_files(tmp_path / "bad.zip", tmp_path / "keep")

    refused("points outside", **{"../a.onnx": b"x"})
    refused("points outside", **{"/etc/a.onnx": b"x"})
    refused("zip bomb", **{"a.onnx": bytes(30_000_000)})
    refused("no model file", **{"a.txt": b"x"})
    link = zipfile.ZipInfo("a.onnx")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(UserError, match="link"):
        find_files(tmp_path / "link.zip", tmp_path / "keep")
    assert not (tmp_path / "keep").exists() or not list((tmp_path / "keep").iterdir())


def test_limits_and_wrong_places(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"{i}.onnx").write_bytes(b"x" * (i + 1))
    with pytest.raises(UserError, match="3 model files; 2"):
        find_files(tmp_path, tmp_path / "k", limits=replace(LIMITS, files=2))
    finding = find_files(tmp_path, tmp_path / "k", limits=replace(LIMITS, file_bytes=2))
    assert [refusal.name for refusal in finding.refused] == ["2"]
    for place in ("nowhere", "0.onnx"):
        with pytest.raises(UserError, match=r"folder or a zip|neither a folder nor a zip"):
            find_files(tmp_path / place, tmp_path / "k")
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(UserError, match="zip"):
        find_files(tmp_path / "broken.zip", tmp_path / "k")
