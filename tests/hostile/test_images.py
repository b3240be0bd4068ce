"""Hostile images: each costs itself and one line, and never the run that met it."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from engine.guard import Limits as ChildLimits
from engine.guard import Pool
from engine.target import BadImage, decoders, open_images, scan
from engine.target.decoders import Encoded, decoded, shapes
from engine.types import UserError
from tests.hostile.contract import Contract
from tests.hostile.image_files import IMAGES, READABLE, png, saved
from tests.hostile.mutation import mutated
from tests.hostile.onnx_files import classifier

SLOW = ("scans.jpg", "bomb.png")


@cache
def made(name: str) -> bytes:
    return IMAGES[name]()


@pytest.mark.parametrize("name", [name for name in IMAGES if name not in SLOW])
def test_strange_images(name: str) -> None:
    """Decoded in children: the answer is a shape or a reason in one line, and no child is lost to it."""
    (found,) = shapes([Encoded(name, made(name), 50_000_000)])
    assert isinstance(found, tuple) == (name in READABLE)
    assert not isinstance(found, decoders.DeadlyImageError)
    if isinstance(found, UserError):
        assert len(str(found).splitlines()) == 1


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP", "PPM"])
def test_damaged_images(kind: str) -> None:
    good = saved(kind)
    images = [Encoded(f"{seed}.{kind}", mutated(good, seed), 1_000_000) for seed in range(60)]
    for found in shapes(images):
        assert not isinstance(found, decoders.DeadlyImageError), found
        assert isinstance(found, tuple) or len(str(found).splitlines()) == 1


@pytest.mark.slow
def test_an_image_that_decodes_for_minutes_costs_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """It falls; the images around it are decoded, with the bytes they have."""
    tight = ChildLimits(kind="images", memory=2_000_000_000, seconds=1.0, output_bytes=1_000_000)
    pool = Pool("engine.target.decoders:decode_in_child", tight, "decoding it")
    monkeypatch.setattr(decoders, "_pool", lambda: pool)
    content = [saved("PNG"), made("scans.jpg"), saved("PNG")]
    first, scans, second = decoded(
        Encoded(str(index), image, 50_000_000) for index, image in enumerate(content)
    )
    pool.close()
    assert isinstance(scans, decoders.DeadlyImageError)
    assert "decoding it took longer than" in scans.reason
    assert isinstance(first, np.ndarray)
    assert isinstance(second, np.ndarray)
    np.testing.assert_array_equal(second, first)


def test_a_set_that_ends_every_decoder_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fall(parts: object) -> list[object]:
        return [decoders.Fallen("decoding it took longer than 10 s") for _ in parts]  # type: ignore[attr-defined]

    pool = Pool("engine.target.decoders:decode_in_child", ChildLimits(kind="images"), "decoding it")
    monkeypatch.setattr(pool, "ask", fall)
    monkeypatch.setattr(decoders, "_pool", lambda: pool)
    for index in range(4):
        (tmp_path / f"{index}.png").write_bytes(saved("PNG"))
    assert len(scan(open_images(tmp_path))) == 4
    (tmp_path / "4.png").write_bytes(saved("PNG"))
    with pytest.raises(
        UserError, match=r"5 images were too much for their decoder, the last of them '4\.png'"
    ):
        scan(open_images(tmp_path))


def test_everything_that_is_no_file_in_a_folder(tmp_path: Path) -> None:
    """Pipes, links to nothing, to oneself, to a device and to a folder: named, not waited for."""
    (tmp_path / "good.png").write_bytes(saved("PNG"))
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "nothing.png").symlink_to("missing")
    (tmp_path / "self.png").symlink_to("self.png")
    (tmp_path / "device.png").symlink_to("/dev/zero")
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "up").symlink_to("..")
    (tmp_path / "line\nbreak\x1b[2J.png").write_bytes(b"no image")
    bad = {image.name for image in scan(open_images(tmp_path))}
    assert bad == {"pipe.png", "nothing.png", "self.png", "device.png", "line\nbreak\x1b[2J.png"}


def zipped(*entries: tuple[str, bytes], mode: int = 0) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = mode << 16
            archive.writestr(info, content)
    return file.getvalue()


def _lying_size() -> bytes:
    content = bytearray(zipped(("a.png", saved("PNG"))))
    at = content.find(b"PK\x01\x02")
    content[at + 24 : at + 28] = b"\xff\xff\xff\x7f"
    return bytes(content)


GOOD = ("a.png", saved("PNG"))
ZIPS: dict[str, bytes] = {
    "absolute": zipped(("/etc/a.png", saved("PNG"))),
    "up": zipped(("../../a.png", saved("PNG"))),
    "backslashes up": zipped(("..\\..\\a.png", saved("PNG"))),
    "drive": zipped(("C:/a.png", saved("PNG"))),
    "link": zipped(("a.png", b"/etc/passwd"), mode=stat.S_IFLNK | 0o777),
    "bomb": zipped(("a.png", bytes(60_000_000))),
    "size that lies": _lying_size(),
    "zip in a zip": zipped(("inner.zip", zipped(GOOD))),
    "nothing": zipped(),
    "only folders": zipped(("a/", b""), ("b.png/", b"")),
    "cut": zipped(GOOD)[:-10],
    "a pickle": b"cos\nsystem\n(S'true'\ntR.",
    "escapes": zipped(("a\x1b[2J\n.png", b"no image")),
    "not text": zipped(("\udce9.png".encode("utf-8", "surrogateescape").decode("latin-1"), b"no image")),
    "a hundred thousand others": zipped(*((f"{i}.txt", b"") for i in range(20_000))),
    "tiny and huge": zipped(("a.png", png(2**31 - 1, 2**31 - 1))),
}


@pytest.mark.parametrize("name", ZIPS)
def test_strange_zips(name: str, contract: Contract) -> None:
    Path("images.zip").write_bytes(ZIPS[name])
    try:
        bad = scan(open_images("images.zip"))
    except UserError:
        return
    assert bad


def test_damaged_zips(contract: Contract) -> None:
    good = zipped(GOOD, ("b/c.jpg", saved("JPEG")))
    for seed in range(60):
        Path("images.zip").write_bytes(mutated(good, seed))
        try:
            found = scan(open_images("images.zip"))
        except UserError:
            continue
        assert all(isinstance(image, BadImage) for image in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["palette missing.png", "svg.png", "exif circle.jpg", "huge sides.tiff"])
def test_the_command_line_says_one_line(name: str, contract: Contract) -> None:
    Path("m.onnx").write_bytes(classifier().SerializeToString())
    Path("images").mkdir()
    Path("images/good.png").write_bytes(saved("PNG"))
    Path("images", name).write_bytes(made(name))
    said = contract.run(
        *("predict", "--teacher", "m.onnx", "--images", "images", "--out", "o.npz", "--candidates", "0"),
        made=("store", "o.npz"),
    )
    assert bool(said) == (name not in READABLE)
    assert not said or name in said
