"""Where an export is written: over an earlier one, never over a user's own files, and refused before the work
begins.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from engine.exports.bundle import write_bundle
from engine.exports.place import check_folder, check_zip
from engine.exports.verification import verify
from engine.exports.writing import write
from engine.family.recipes import parse_slug
from engine.types import UserError
from tests.tiny_teacher import tiny_teacher

RECIPE = parse_slug("b4-channel-q99")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    write(tiny_teacher(), RECIPE, folder, formats=("onnx", "packed"), profiles=False)
    return folder


@pytest.fixture
def folder(exported: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "copy"))


def _refused_unworked(folder: str | Path, words: str, **options: object) -> None:
    """The refusal comes before the first step of the work."""
    steps: list[int] = []
    with pytest.raises(UserError, match=words):
        write(
            tiny_teacher(),
            RECIPE,
            folder,
            profiles=False,
            on_progress=lambda done, total: steps.append(done),
            **options,
        )
    assert not steps


@pytest.mark.parametrize("text", ["", "  "])
def test_empty_text_is_no_folder(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _refused_unworked(text, "empty text")
    assert not list(tmp_path.iterdir())


def test_files_and_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for path in (file, file / "x", file / "x" / "y"):
        _refused_unworked(path, "is a file or lies below one")
    _refused_unworked("/dev/null/x", "is a file or lies below one")
    _refused_unworked("/proc/foo", "cannot be written to")
    _refused_unworked(tmp_path / ("x" * 300), "cannot be written to")
    assert file.read_text() == "mine"


def test_trying_a_folder_leaves_nothing_behind(tmp_path: Path) -> None:
    check_folder(tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name", ["README.md", "predict.py", "model.onnx", "certificate.html", "certificate.json"]
)
def test_a_users_own_file_is_named_and_kept(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"my": "own"}')
    _refused_unworked(tmp_path, f"holds {name}, .* Give another folder")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: '{"my": "own"}'}


def test_folders_and_links_in_the_way_are_refused_even_beside_an_earlier_export(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "README.md").unlink()
    (folder / "README.md").mkdir()
    (folder / "predict.py").unlink()
    (folder / "predict.py").symlink_to(tmp_path / "absent")
    _refused_unworked(folder, r"holds README\.md, predict\.py")


def test_other_files_and_copies_not_asked_for_stay(tmp_path: Path) -> None:
    for name in ("notes.txt", "model.safetensors"):
        (tmp_path / name).write_text("mine")
    for _ in range(2):  # into a folder of the user's, then over the export in it
        write(tiny_teacher(), RECIPE, tmp_path, profiles=False)
        assert (tmp_path / "notes.txt").read_text() == (tmp_path / "model.safetensors").read_text() == "mine"
    _refused_unworked(tmp_path, r"holds model\.safetensors", formats=("onnx", "safetensors"))


def test_an_earlier_export_is_replaced_even_if_damaged(folder: Path) -> None:
    path = folder / "certificate.json"
    path.write_bytes(path.read_bytes()[:-30])
    assert write(tiny_teacher(), RECIPE, folder, profiles=False).passed
    assert verify(folder).passed
    assert not (folder / "packed.safetensors").exists()  # it belonged to the earlier export


def test_an_interrupted_export_is_replaced(folder: Path) -> None:
    """A kill between two renames leaves the certificate in the folder of parts, since it moves last."""
    part = folder / ".part-abc"
    part.mkdir()
    (folder / "certificate.json").rename(part / "certificate.json")
    assert write(tiny_teacher(), RECIPE, folder, profiles=False).passed
    assert verify(folder).passed


def test_a_bundle_replaces_a_bundle_and_nothing_else(exported: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "a.zip"
    first = write_bundle(exported, bundle).read_bytes()
    assert write_bundle(exported, bundle).read_bytes() == first
    foreign, text, directory = tmp_path / "photos.zip", tmp_path / "text.zip", tmp_path / "folder.zip"
    with zipfile.ZipFile(foreign, "w") as archive:
        archive.writestr("certificate.json", json.dumps({"format": "another"}))
    text.write_text("mine")
    directory.mkdir()
    (tmp_path / "link.zip").symlink_to(tmp_path / "absent")
    for path in (foreign, text, directory, tmp_path / "link.zip"):
        with pytest.raises(UserError, match="not a bundle written by export"):
            write_bundle(exported, path)
    with pytest.raises(UserError, match="cannot be written"):
        check_zip(tmp_path / ("x" * 300))
    assert text.read_text() == "mine"
    with zipfile.ZipFile(foreign) as archive:
        assert archive.namelist() == ["certificate.json"]
