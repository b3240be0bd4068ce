"""Array files: shapes, value ranges, labels, damage; the memory-mapped rows must be the user's own
numbers.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from engine.target import Limits, duplicates, open_images, pool_order
from engine.types import UserError

RNG = np.random.default_rng(0)
COLOUR = RNG.integers(0, 256, (5, 6, 7, 3), dtype=np.uint8)


def saved(path: Path, array: np.ndarray) -> Path:
    np.save(path, array)
    return path


@pytest.mark.parametrize("form", ["NHWC", "NHW", "NHW1", "NCHW"])
def test_layouts(tmp_path: Path, form: str) -> None:
    arrays = {
        "NHWC": COLOUR,
        "NHW": COLOUR[..., 0],
        "NHW1": COLOUR[..., :1],
        "NCHW": COLOUR.transpose(0, 3, 1, 2),
    }
    images = open_images(saved(tmp_path / "x.npy", arrays[form]))
    expected = COLOUR if form in ("NHWC", "NCHW") else np.repeat(COLOUR[..., :1], 3, axis=-1)
    assert len(images) == 5
    assert images.kind == "array"
    assert images.class_folders is None
    for i in range(5):
        np.testing.assert_array_equal(images.read(i), expected[i])
    assert any("axis 1" in note for note in images.notes) == (form == "NCHW")


def test_rows_keep_their_order_unless_asked(tmp_path: Path) -> None:
    images = open_images(saved(tmp_path / "x.npy", COLOUR))
    assert pool_order(images).tolist() == [0, 1, 2, 3, 4]
    assert sorted(pool_order(images, shuffle=True)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_are_pixels_of_either_range(tmp_path: Path, dtype: type) -> None:
    whole = open_images(saved(tmp_path / "a.npy", COLOUR.astype(dtype)))
    np.testing.assert_array_equal(whole.read(2), COLOUR[2].astype(np.float32))
    unit = open_images(saved(tmp_path / "b.npy", (COLOUR / 255).astype(dtype)))
    np.testing.assert_allclose(unit.read(2), COLOUR[2], atol=0.2)
    assert unit.dtype == np.float32
    assert "0..1" in unit.notes[0]


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (COLOUR.astype(np.float32) - 1, "pixels must lie"),
        (np.where(np.arange(7)[:, None] == 3, np.nan, COLOUR), "nan or infinite"),
        (COLOUR.astype(np.int64), "uint8 or float"),
        (COLOUR[0, 0], "shape"),
        (np.zeros((2, 4, 4, 5), np.uint8), "shape"),
        (np.zeros((0, 4, 4, 3), np.uint8), "no image"),
        (np.array([None, 1], object), "without Python objects"),
    ],
    ids=["negative", "nan", "int64", "2-D", "five channels", "empty", "pickled"],
)
def test_what_is_no_image_array_is_refused(tmp_path: Path, array: np.ndarray, words: str) -> None:
    with pytest.raises(UserError, match=words):
        open_images(saved(tmp_path / "x.npy", array))


def test_npz_carries_labels(tmp_path: Path) -> None:
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "x.npz", images=COLOUR, labels=np.array([0, 1, -1, 2, 0]))
        images = open_images(tmp_path / "x.npz")
        assert images.labels is not None
        assert images.labels.tolist() == [0, 1, -1, 2, 0]
        np.testing.assert_array_equal(images.read(4), COLOUR[4])
    np.save(tmp_path / "same.npy", COLOUR)
    assert open_images(tmp_path / "same.npy").fingerprint == images.fingerprint


def test_npz_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    cases = {
        "no array named": {"pictures": COLOUR},
        "5 images and 4 labels": {"images": COLOUR, "labels": np.zeros(4, int)},
        "one integer per image": {"images": COLOUR, "labels": np.zeros(5)},
    }
    for words, arrays in cases.items():
        np.savez(tmp_path / "x.npz", **arrays)
        with pytest.raises(UserError, match=words):
            open_images(tmp_path / "x.npz")
    np.savez_compressed(tmp_path / "x.npz", images=np.zeros((50, 100, 100, 3), np.uint8))
    with pytest.raises(UserError, match="unpacks to"):
        open_images(tmp_path / "x.npz", limits=Limits(total_bytes=1_000_000))
    (tmp_path / "x.npz").write_bytes(b"nothing of the kind")
    with pytest.raises(UserError, match="not a readable"):
        open_images(tmp_path / "x.npz")


def test_headers_that_lie_are_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "|u1", "fortran_order": False, "shape": (10**12, 8, 8, 3)}
    )
    (tmp_path / "x.npy").write_bytes(buffer.getvalue() + bytes(100))
    with pytest.raises(UserError, match="numeric"):
        open_images(tmp_path / "x.npy")
    labels = io.BytesIO()
    np.lib.format.write_array_header_1_0(labels, {"descr": "<i8", "fortran_order": False, "shape": (10**14,)})
    images = io.BytesIO()
    np.save(images, COLOUR)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("images.npy", images.getvalue())
        archive.writestr("labels.npy", labels.getvalue())
    with pytest.raises(UserError, match="damaged"):
        open_images(tmp_path / "x.npz")


def test_the_unpacked_copy_goes_with_the_set(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", images=COLOUR)
    images = open_images(tmp_path / "x.npz")
    assert images._keep is not None
    copy = images._keep.images
    assert copy.exists()
    del images
    assert not copy.exists()


def test_equal_rows_are_duplicates(tmp_path: Path) -> None:
    assert duplicates(open_images(saved(tmp_path / "x.npy", COLOUR[[0, 1, 0, 2, 0]]))) == [(0, 2, 4)]
