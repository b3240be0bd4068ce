"""Uploads as one target: one zip, two zips, a zip with images, a wrong zip beside the right one."""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from engine.target import Limits, open_images
from engine.types import UserError
from pages.ui.workspace.uploads import as_target
from tests.pages.ui.jobs.test_control import picture


def archive(*names: str, content: bytes | None = None) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as target:
        for number, name in enumerate(names):
            target.writestr(name, picture(number) if content is None else content)
    return data.getvalue()


def names_in(folder: Path, **files: bytes) -> tuple[str, ...]:
    for name, data in files.items():
        (folder / name.replace("__", ".")).write_bytes(data)
    return tuple(open_images(as_target(folder, Limits()), limits=Limits()).names)


def test_one_zip_is_the_target_itself(tmp_path: Path) -> None:
    assert names_in(tmp_path, a__zip=archive("x/1.png", "y/2.png")) == ("x/1.png", "y/2.png")
    assert (tmp_path / "a.zip").exists()


def test_two_zips_become_one_folder(tmp_path: Path) -> None:
    names = names_in(tmp_path, a__zip=archive("x/1.png"), b__zip=archive("x/1.png", "2.png"))
    assert names == ("b/2.png", "b/x/1.png", "x/1.png")


def test_class_folders_stay_class_folders_in_two_zips(tmp_path: Path) -> None:
    names = names_in(tmp_path, a__zip=archive("cat/1.png", "dog/2.png"), b__zip=archive("cat/1.png"))
    assert names == ("cat/1.png", "cat/b-1.png", "dog/2.png")
    assert open_images(tmp_path, limits=Limits()).class_folders == ("cat", "dog")


def test_a_zip_and_images(tmp_path: Path) -> None:
    assert names_in(tmp_path, a__zip=archive("1.png"), b__png=picture(3)) == ("a/1.png", "b.png")


def test_a_wrong_zip_beside_the_right_one_is_left_out(tmp_path: Path) -> None:
    wrong = archive("notes.txt", content=b"no image")
    assert names_in(tmp_path, a__zip=wrong, b__zip=archive("1.png")) == ("b/1.png",)


def test_nothing_but_wrong_zips_is_refused_by_name(tmp_path: Path) -> None:
    wrong = archive("notes.txt", content=b"no image")
    with pytest.raises(UserError, match=r"a\.zip, b\.zip held no image"):
        names_in(tmp_path, a__zip=wrong, b__zip=wrong)


def test_an_array_with_other_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Upload the array alone"):
        names_in(tmp_path, a__npy=b"x", b__png=picture(1))


def test_names_in_an_archive_lead_nowhere_else(tmp_path: Path) -> None:
    folder = tmp_path / "incoming"
    folder.mkdir()
    (folder / "b.png").write_bytes(picture(1))
    (folder / "a.zip").write_bytes(archive("../../evil.png", "/abs.png", "ok.png"))
    with suppress(UserError):  # refusing the archive is fine too
        as_target(folder, Limits())
    assert not (tmp_path / "evil.png").exists()
    assert not (tmp_path.parent / "evil.png").exists()
    assert not Path("/abs.png").exists()
