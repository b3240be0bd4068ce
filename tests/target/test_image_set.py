"""Image sets from folders and zips: order, classes, fingerprints, hostile archives, corrupt files,
duplicates.
"""

from __future__ import annotations

import io
import os
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.target import (
    BadImage,
    Limits,
    UnreadableImageError,
    duplicates,
    labels_from_folders,
    open_images,
    pool_order,
    scan,
)
from engine.types import UserError


def png(seed: int = 0, size: tuple[int, int] = (8, 6)) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def write_tree(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def write_zip(path: Path, files: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


CLASSES = {"photos/dog/2.png": png(1), "photos/dog/10.png": png(2), "photos/cat/a.PNG": png(3)}


def test_folder_and_zip_are_the_same_set(tmp_path: Path) -> None:
    clutter = {
        "photos/dog/readme.txt": b"x",
        "__MACOSX/photos/dog/._2.png": b"x",
        "photos/.hidden.png": b"x",
        "photos/inner.zip": b"x",
    }
    folder = open_images(write_tree(tmp_path / "tree", {**CLASSES, **clutter}))
    zipped = open_images(write_zip(tmp_path / "tree.zip", {**CLASSES, **clutter}))
    assert folder.names == zipped.names == ("photos/cat/a.PNG", "photos/dog/10.png", "photos/dog/2.png")
    assert folder.fingerprint == zipped.fingerprint
    assert folder.class_folders == zipped.class_folders == ("cat", "dog")
    assert folder.folder_labels is not None
    assert folder.folder_labels.tolist() == [0, 1, 1]
    assert folder.labels is None
    assert "4 files" in folder.notes[0]
    for i in range(3):
        np.testing.assert_array_equal(folder.read(i), zipped.read(i))
        np.testing.assert_array_equal(
            folder.read(i), np.asarray(Image.open(io.BytesIO(CLASSES[folder.names[i]])))
        )


def test_flat_folders_have_no_classes(tmp_path: Path) -> None:
    assert open_images(write_tree(tmp_path / "flat", {"1.png": png(), "2.png": png(1)})).class_folders is None
    assert (
        open_images(write_tree(tmp_path / "one", {"x/1.png": png(), "x/2.png": png(1)})).class_folders is None
    )
    assert (
        open_images(write_tree(tmp_path / "mixed", {"x/1.png": png(), "2.png": png(1)})).class_folders is None
    )


def test_folder_labels_match_class_names_or_numbers(tmp_path: Path) -> None:
    images = open_images(write_tree(tmp_path / "a", CLASSES))
    assert labels_from_folders(images, ("Dog", "bird", "CAT")).tolist() == [2, 0, 0]
    numbered = open_images(write_tree(tmp_path / "b", {"0/x.png": png(), "2/y.png": png(1)}))
    assert labels_from_folders(numbered, ("a", "b", "c")).tolist() == [0, 2]
    with pytest.raises(UserError, match="'dog' is not a class"):
        labels_from_folders(images, ("cat", "hound"))
    with pytest.raises(UserError, match="one folder per class"):
        labels_from_folders(open_images(write_tree(tmp_path / "c", {"1.png": png()})), ("a", "b"))


def test_any_change_changes_the_fingerprint(tmp_path: Path) -> None:
    files = {"1.png": png(1), "2.png": png(2)}
    base = open_images(write_tree(tmp_path / "base", files)).fingerprint
    changes = {
        "edited": {"1.png": png(1), "2.png": png(9)},
        "renamed": {"1.png": png(1), "3.png": png(2)},
        "added": {**files, "3.png": png(3)},
        "swapped": {"1.png": png(2), "2.png": png(1)},
    }
    seen = {
        open_images(write_tree(tmp_path / name, changed)).fingerprint for name, changed in changes.items()
    }
    assert len(seen | {base}) == 5
    assert open_images(write_tree(tmp_path / "same", files)).fingerprint == base


def test_corrupt_images_are_listed_by_name(tmp_path: Path) -> None:
    whole = png(5, (64, 64))
    files = {
        "a.png": png(1),
        "b.jpg": b"not an image",
        "c.png": whole[: len(whole) // 2],
        "d.png": b"",
        "e.gif": png(2),
    }
    images = open_images(write_tree(tmp_path / "x", files))
    seen: list[tuple[int, int]] = []
    bad = scan(images, lambda done, total: seen.append((done, total)))
    assert [image.name for image in bad] == ["b.jpg", "c.png", "d.png"]
    assert all(isinstance(image, BadImage) and image.reason for image in bad)
    assert seen[-1] == (5, 5)
    with pytest.raises(UnreadableImageError, match=r"c\.png"):
        images.read(2)


def test_limits_refuse_bombs(tmp_path: Path) -> None:
    folder = write_tree(tmp_path / "x", {"big.png": png(1, (100, 100)), "ok.png": png(2)})
    assert [image.name for image in scan(open_images(folder, limits=Limits(pixels=5000)))] == ["big.png"]
    assert [image.name for image in scan(open_images(folder, limits=Limits(file_bytes=5000)))] == ["big.png"]
    with pytest.raises(UserError, match="2 images, more than the 1"):
        open_images(folder, limits=Limits(files=1))


def test_a_picture_that_claims_gigapixels_is_not_decoded(tmp_path: Path) -> None:
    header = bytearray(png())
    header[16:24] = (60_000).to_bytes(4, "big") * 2  # IHDR width and height
    crc = zipfile.crc32(bytes(header[12:29]))
    header[29:33] = crc.to_bytes(4, "big")
    bad = scan(open_images(write_tree(tmp_path / "x", {"bomb.png": bytes(header)})))
    assert "pixels" in bad[0].reason


def test_zip_bombs_and_escapes_are_refused(tmp_path: Path) -> None:
    bomb = write_zip(tmp_path / "bomb.zip", {"a.bmp": bytes(5_000_000)})
    with pytest.raises(UserError, match="zip bomb"):
        open_images(bomb)
    with pytest.raises(UserError, match="unpacks to"):
        open_images(bomb, limits=Limits(total_bytes=1_000_000))
    for name in ("../evil.png", "/etc/evil.png", "a/../../evil.png", "C:/evil.png", "..\\evil.png"):
        with pytest.raises(UserError, match="outside"):
            open_images(write_zip(tmp_path / "escape.zip", {name: png(), "ok.png": png()}))


def test_zip_links_passwords_and_damage(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link.png")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        archive.writestr(link, "/etc/hostname")
    with pytest.raises(UserError, match="link"):
        open_images(tmp_path / "link.zip")
    data = bytearray(write_zip(tmp_path / "locked.zip", {"a.png": png()}).read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1  # the encryption bit of the central directory
    (tmp_path / "locked.zip").write_bytes(data)
    with pytest.raises(UserError, match="encrypted"):
        open_images(tmp_path / "locked.zip")
    with zipfile.ZipFile(tmp_path / "twice.zip", "w") as archive:
        archive.writestr("a.png", png())
        archive.writestr("./a.png", png(1))
    with pytest.raises(UserError, match="same name"):
        open_images(tmp_path / "twice.zip")
    (tmp_path / "not.zip").write_bytes(b"PK nonsense")
    with pytest.raises(UserError, match="not a readable zip"):
        open_images(tmp_path / "not.zip")
    stored = bytearray(
        write_zip(tmp_path / "crc.zip", {"a.png": png(), "b.png": png(1)}, zipfile.ZIP_STORED).read_bytes()
    )
    stored[stored.index(b"IDAT") + 6] ^= 0xFF
    (tmp_path / "crc.zip").write_bytes(stored)
    assert [image.name for image in scan(open_images(tmp_path / "crc.zip"))] == ["a.png"]


def test_what_is_no_image_set_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.txt").write_text("x")
    for path, words in (("nowhere", "nothing at"), ("empty", "no image"), ("a.txt", "not a set of images")):
        with pytest.raises(UserError, match=words):
            open_images(tmp_path / path)


def test_special_files_and_link_cycles_do_not_hang(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "x", {"a.png": png()})
    os.mkfifo(root / "pipe.png")
    (root / "loop").symlink_to(root, target_is_directory=True)
    (root / "dangling.png").symlink_to(root / "gone.png")
    images = open_images(root)
    assert [image.name for image in scan(images)] == ["dangling.png", "pipe.png"]
    assert len(images.fingerprint) == 64


def test_duplicates_are_found_by_content(tmp_path: Path) -> None:
    images = open_images(
        write_tree(
            tmp_path / "x",
            {"a.png": png(1), "b.png": png(2), "c.png": png(1), "d.png": png(2), "e.png": png(3)},
        )
    )
    assert duplicates(images) == [(0, 2), (1, 3)]


def test_folders_are_shuffled_once_by_seed(tmp_path: Path) -> None:
    images = open_images(write_tree(tmp_path / "x", {f"{i:02}.png": png(i) for i in range(20)}))
    order = pool_order(images)
    assert sorted(order) == list(range(20))
    assert order.tolist() != list(range(20))
    np.testing.assert_array_equal(order, np.random.Generator(np.random.PCG64(0)).permutation(20))
    assert pool_order(images, seed=1).tolist() != order.tolist()
    assert pool_order(images, shuffle=False).tolist() == list(range(20))
