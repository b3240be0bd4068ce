"""Hostile `.npz` and `.npy` files, as predictions and as images: bombs, lies about sizes, damaged streams."""

from __future__ import annotations

import io
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.target import open_images
from engine.types import UserError
from tests.hostile.contract import Contract
from tests.hostile.mutation import mutated

N_MUTATIONS = 120


def family(rng_seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(rng_seed)
    probs = rng.dirichlet(np.ones(4), (4, 12)).astype(np.float32)
    return {"teacher": probs[0], "candidates": probs[1:], "labels": rng.integers(0, 4, 12)}


def packed(arrays: dict[str, np.ndarray], save: Callable[..., None] = np.savez) -> bytes:
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def with_member(name: str, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A family whose array `name` is replaced by these bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for other, array in family().items():
            if other != name:
                part = io.BytesIO()
                np.save(part, array)
                archive.writestr(f"{other}.npy", part.getvalue())
        archive.writestr(f"{name}.npy", content, method)
    return file.getvalue()


def header(text: str, version: bytes = b"\x01\x00", length: int | None = None) -> bytes:
    size = len(text) if length is None else length
    return b"\x93NUMPY" + version + struct.pack("<H" if version[0] == 1 else "<I", size) + text.encode()


def stated(shape: str, descr: str = "'<f4'", fortran: str = "False") -> bytes:
    return header(f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}".ljust(100) + "\n")


def encrypted() -> bytes:
    content = bytearray(packed(family()))
    for mark in (b"PK\x03\x04", b"PK\x01\x02"):
        at = content.find(mark)
        content[at + (6 if mark[2] == 3 else 8)] |= 1
    return bytes(content)


def strange_method() -> bytes:
    content = bytearray(packed(family()))
    for mark, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = content.find(mark)
        content[at + offset : at + offset + 2] = b"\x63\x00"
    return bytes(content)


CASES: dict[str, bytes] = {
    "negative shape": with_member("candidates", stated("(-3, 12, 4)")),
    "overflowing shape": with_member("candidates", stated("(4294967296, 4294967296, 4)")),
    "shape of floats": with_member("candidates", stated("(3.0, 12, 4)")),
    "shape of text": with_member("candidates", stated("'many'")),
    "huge shape": with_member("candidates", stated("(10**12, 1, 1)")),
    "scalar": with_member("candidates", stated("()") + bytes(4)),
    "zero rows": with_member("candidates", stated("(3, 0, 4)")),
    "zero size items": with_member("candidates", stated("(1000000000000, 12, 4)", "'|V0'")),
    "objects": with_member("candidates", stated("(3, 12, 4)", "'|O'") + bytes(2000)),
    "structured": with_member("candidates", stated("(3,)", "[('a', '<f4', (12, 4))]") + bytes(600)),
    "unknown type": with_member("candidates", stated("(3, 12, 4)", "'<q9'")),
    "deep header": with_member("candidates", header("(" * 5000)),
    "header that calls": with_member("candidates", header("__import__('os').system('true')\n")),
    "header length that lies": with_member("candidates", header("{}", b"\x02\x00", 2**32 - 1)),
    "unknown version": with_member("candidates", b"\x93NUMPY\x09\x09" + bytes(50)),
    "complex": with_member("candidates", stated("(3, 12, 4)", "'<c16'") + bytes(3 * 12 * 4 * 16)),
    "fortran": with_member("candidates", stated("(3, 12, 4)", fortran="True") + bytes(3 * 12 * 4 * 4)),
    "lzma": with_member("candidates", stated("(3, 12, 4)") + bytes(576), zipfile.ZIP_LZMA),
    "bzip2": with_member("candidates", stated("(3, 12, 4)") + bytes(576), zipfile.ZIP_BZIP2),
    "encrypted": encrypted(),
    "strange method": strange_method(),
    "bomb": with_member("candidates", stated("(40000, 1000, 4)") + bytes(40000 * 1000 * 4)),
    "bomb in the labels": with_member("labels", stated("(20000000,)", "'<i8'") + bytes(20000000 * 8)),
    "empty": b"",
    "no zip": b"PK\x03\x04 but nothing more",
    "only the end": b"PK\x05\x06" + bytes(18),
    "names with newlines": packed({**family(), "names": np.array(["a\nb", "c\x1b[2J", "d" * 5000])}),
    "same name twice": packed(family()) + packed(family()),
    "nan": packed({**family(), "teacher": np.full((12, 4), np.nan, np.float32)}),
    "calibration of the future": packed({**family(), "calibration": np.int64(2**62)}),
    "labels out of range": packed({**family(), "labels": np.full(12, 2**40)}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("command", [("select", "--method", "auto"), ("estimate",)], ids=lambda c: c[0])
def test_strange_predictions(name: str, command: tuple[str, ...], contract: Contract) -> None:
    Path("family.npz").write_bytes(CASES[name])
    said = contract.run(command[0], "family.npz", *command[1:])
    assert said or name in ("names with newlines", "same name twice", "fortran")


@pytest.mark.parametrize("block", range(6))
def test_damaged_predictions(block: int, contract: Contract) -> None:
    good = packed(family()), packed(family(), np.savez_compressed)
    for seed in range(block * N_MUTATIONS // 6, (block + 1) * N_MUTATIONS // 6):
        Path("family.npz").write_bytes(mutated(good[seed % 2], seed))
        contract.run("estimate", "family.npz")


IMAGES = {name: content for name, content in CASES.items() if "label" not in name and name != "nan"}
ARRAYS: dict[str, bytes] = {
    "shorter than stated": stated("(3, 8, 8)"),
    "scalar": stated("()") + bytes(4),
    "no images": stated("(0, 8, 8)"),
    "no pixels": stated("(3, 0, 0)"),
    "flat": stated("(2, 2)") + bytes(16),
    "more than there is": stated("(10**9, 8, 8)"),
    "objects": stated("(1, 8, 8)", "'|O'") + bytes(600),
    "empty": b"",
    "magic only": b"\x93NUMPY",
    "deep header": header("(" * 5000),
    "negative": stated("(-1, 8, 8)"),
    "dates": stated("(1, 8, 8)", "'<M8[s]'") + bytes(600),
    "seven channels": stated("(1, 8, 8, 7)") + bytes(2000),
}


def open_and_read(path: str) -> None:
    images = open_images(path)
    for index in range(len(images)):
        images.read(index)


@pytest.mark.parametrize("name", IMAGES)
def test_strange_image_archives(name: str, contract: Contract) -> None:
    """The same archives, their `candidates` called `images`: refused, and nothing left in the temporary
    folder.
    """
    Path("images.npz").write_bytes(IMAGES[name].replace(b"candidates.npy", b"images.npy0000"))
    with zipfile.ZipFile("renamed.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", stated("(40000, 1000, 4)") + bytes(40000 * 1000 * 4))
    for path in ("images.npz", "renamed.npz"):
        before = set(Path(tempfile.gettempdir()).glob("anchorpoint-*"))
        with pytest.raises(UserError):
            open_and_read(path)
        assert set(Path(tempfile.gettempdir()).glob("anchorpoint-*")) <= before


@pytest.mark.parametrize("name", ARRAYS)
def test_strange_image_arrays(name: str, contract: Contract) -> None:
    Path("images.npy").write_bytes(ARRAYS[name])
    with pytest.raises(UserError):
        open_and_read("images.npy")
