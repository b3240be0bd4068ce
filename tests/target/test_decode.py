"""Colour modes, orientation and damage: what decoding yields, against Pillow, hand-made pixels and thousands
of broken files.
"""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageOps

from engine.target.decode import UnreadableImageError, decode

RNG = np.random.default_rng(0)
RGB = Image.fromarray(RNG.integers(0, 256, (10, 14, 3), dtype=np.uint8))
MANY = 10**7


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


STORABLE = {
    "PNG": "RGB L 1 P",
    "JPEG": "RGB L CMYK YCbCr",
    "TIFF": "RGB L 1 P CMYK YCbCr",
    "GIF": "RGB L 1 P",
    "BMP": "RGB L 1 P",
    "WEBP": "RGB L P",
    "PPM": "RGB L 1",
}


@pytest.mark.parametrize(
    ("kind", "mode"), [(kind, mode) for kind, modes in STORABLE.items() for mode in modes.split()]
)
def test_every_mode_and_format_becomes_rgb(mode: str, kind: str) -> None:
    data = encoded(RGB.convert(mode), kind)
    pixels = decode(data, "x", MANY)
    assert pixels.shape == (10, 14, 3)
    assert pixels.dtype == np.uint8
    np.testing.assert_array_equal(pixels, np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))


def test_sixteen_bits_are_scaled() -> None:
    levels = np.array([[0, 257, 128 * 257, 65535]], np.uint16)
    pixels = decode(encoded(Image.fromarray(levels)), "x", MANY)
    assert pixels[0].tolist() == [[0] * 3, [1] * 3, [128] * 3, [255] * 3]


def test_transparency_is_laid_on_white() -> None:
    layers = np.zeros((1, 3, 4), np.uint8)
    layers[0, 1] = (10, 20, 30, 255)
    layers[0, 2] = (0, 0, 0, 128)
    assert decode(encoded(Image.fromarray(layers)), "x", MANY)[0].tolist() == [
        [255] * 3,
        [10, 20, 30],
        [127] * 3,
    ]
    gray = np.array([[[0, 0], [0, 255]]], np.uint8)
    assert decode(encoded(Image.fromarray(gray, "LA")), "x", MANY)[0].tolist() == [[255] * 3, [0] * 3]
    palette = Image.new("P", (2, 1))
    palette.putpalette([1, 2, 3, 9, 9, 9])
    palette.putpixel((1, 0), 1)
    assert decode(encoded(palette, transparency=0), "x", MANY)[0].tolist() == [[255] * 3, [9] * 3]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_upright(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(RGB, exif=exif)
    np.testing.assert_array_equal(
        decode(data, "x", MANY), np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    )


def test_animations_give_their_first_frame() -> None:
    frames = [Image.new("RGB", (3, 2), colour) for colour in ("red", "blue")]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert decode(data, "x", MANY)[0, 0].tolist() == [255, 0, 0]


def test_too_many_pixels_are_refused_before_decoding() -> None:
    with pytest.raises(UnreadableImageError, match="14 x 10 pixels"):
        decode(encoded(RGB), "x", 139)


def test_floating_point_images_are_refused_with_the_reason() -> None:
    data = encoded(Image.fromarray(RNG.random((4, 4)).astype(np.float32)), "TIFF")
    with pytest.raises(UnreadableImageError, match="floating-point"):
        decode(data, "x", MANY)


@pytest.mark.filterwarnings("ignore")  # Pillow warns of odd tags before it gives up
@pytest.mark.parametrize("kind", STORABLE)
def test_damaged_files_are_reported_and_never_crash(kind: str) -> None:
    data = encoded(RGB, kind)
    rng = np.random.default_rng(1)
    outcomes = {"read": 0, "refused": 0}
    for i in range(300):
        broken = bytearray(data[: rng.integers(0, len(data))] if i % 2 else data)
        for _ in range(rng.integers(1, 6)):
            if broken:
                broken[rng.integers(0, min(len(broken), 200))] = rng.integers(0, 256)
        try:
            assert decode(bytes(broken), "x", MANY).shape[2] == 3
            outcomes["read"] += 1
        except UnreadableImageError:
            outcomes["refused"] += 1
    assert outcomes["refused"] > 0


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 100, b"GIF89a", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"<svg xmlns='http://www.w3.org/2000/svg'/>"],
)
def test_other_formats_are_refused(data: bytes) -> None:
    with pytest.raises(UnreadableImageError, match="'x' cannot be used"):
        decode(data, "x", MANY)
