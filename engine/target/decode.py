"""One encoded image to 8-bit RGB pixels, whatever its file format and colour mode. Knows Pillow; knows
nothing of folders or teachers.
"""

from __future__ import annotations

import struct
import zlib
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import (
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    JpegImagePlugin,
    PngImagePlugin,
    PpmImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from engine.types import UserError

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".jfif")
_PLUGINS = (
    BmpImagePlugin.BmpImageFile,
    GifImagePlugin.GifImageFile,
    JpegImagePlugin.JpegImageFile,
    PngImagePlugin.PngImageFile,
    PpmImagePlugin.PpmImageFile,
    TiffImagePlugin.TiffImageFile,
    WebPImagePlugin.WebPImageFile,
)
# these and no others: some of Pillow's decoders start another program
_FORMATS = tuple(plugin.format for plugin in _PLUGINS)

# What Pillow raises on damaged bytes, as found by feeding it damaged files of every format
_DAMAGE = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    TypeError,
    OverflowError,
    AssertionError,
    KeyError,
    struct.error,
    zlib.error,
)

_ORIENTATION = 0x0112  # EXIF tag: how the camera was held
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class UnreadableImageError(UserError):
    """One image cannot be used; `name` says which, `reason` says why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"image {name!r} cannot be used: {reason}. Repair or remove it, or skip corrupt images."
        )
        self.name, self.reason = name, reason


def decode(data: bytes, name: str, max_pixels: int) -> NDArray[np.uint8]:
    """Return the image as uint8 (height, width, 3), upright.

    The first frame of an animation; transparency laid on white (a transparent drawing would otherwise turn
    black); 16-bit grayscale scaled to 8 bits; palettes, CMYK and grayscale converted. Raises
    UnreadableImageError if the bytes are damaged, of an unknown format, or hold more than `max_pixels` pixels
    (checked before anything is decoded).
    """
    try:
        image = Image.open(BytesIO(data), formats=_FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise UnreadableImageError(name, f"it has more than {max_pixels:,} pixels") from None
    except _DAMAGE:
        raise UnreadableImageError(
            name, "its bytes are not a JPEG, PNG, WebP, BMP, GIF, TIFF or PPM image"
        ) from None
    width, height = image.size
    if width * height > max_pixels:
        raise UnreadableImageError(
            name, f"it has {width} x {height} pixels, more than the {max_pixels:,} allowed"
        )
    try:
        image.load()
        upright = _turn_upright(image)
        return np.asarray(_to_rgb(upright), np.uint8)
    except _DAMAGE as error:
        raise UnreadableImageError(
            name, f"its bytes are damaged ({str(error) or type(error).__name__})"
        ) from None


def _turn_upright(image: Image.Image) -> Image.Image:
    try:
        turn = _UPRIGHT.get(image.getexif().get(_ORIENTATION, 1))
    except _DAMAGE:  # a broken EXIF block does not spoil the pixels
        turn = None
    return image if turn is None else image.transpose(turn)


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode in ("I;16", "I;16B", "I;16L", "I;16N", "I"):
        levels = np.asarray(image).astype(np.int32)
        if levels.min() < 0 or levels.max() > 65535:
            raise ValueError("32-bit values; save it with 8 or 16 bits a channel")
        return Image.fromarray(((levels + 128) // 257).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ValueError("floating-point values; save it with 8 or 16 bits a channel")
    if image.has_transparency_data:
        layers = image.convert("RGBA")
        page = Image.new("RGBA", layers.size, (255, 255, 255, 255))
        return Image.alpha_composite(page, layers).convert("RGB")
    return image.convert("RGB")
