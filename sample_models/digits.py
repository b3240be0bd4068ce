"""The source domain of the digit teachers: printed digits, rendered from the fonts that ship with matplotlib.

Knows how to draw; knows nothing of models or of the handwritten target.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from engine.types import Ints

SIDE = 32
N_CLASSES = 10
# Text faces only. Left out: display cuts (no digits of their own), STIX size and non-Unicode variants, maths
# italics with old-style figures, symbol fonts, and the last-resort font, which draws a box for every
# character.
FONTS = (
    "DejaVuSans",
    "DejaVuSans-Bold",
    "DejaVuSans-Oblique",
    "DejaVuSans-BoldOblique",
    "DejaVuSansMono",
    "DejaVuSansMono-Bold",
    "DejaVuSansMono-Oblique",
    "DejaVuSansMono-BoldOblique",
    "DejaVuSerif",
    "DejaVuSerif-Bold",
    "DejaVuSerif-Italic",
    "DejaVuSerif-BoldItalic",
    "STIXGeneral",
    "STIXGeneralBol",
    "STIXGeneralItalic",
    "STIXGeneralBolIta",
    "cmr10",
    "cmb10",
    "cmss10",
    "cmti10",
    "cmtt10",
)
_CANVAS = 2 * SIDE  # drawn at twice the size, so that rotation and shrinking leave no jagged edges


@dataclass(frozen=True)
class Jitter:
    """How much printed digits vary. Each value is the half-width of a uniform distribution or a (low, high)
    range.
    """

    rotation: float = 15.0  # degrees
    shift: float = 2.5  # pixels of the final image
    height: tuple[float, float] = (20.0, 30.0)  # of the digit, in pixels of the final image
    stretch: tuple[float, float] = (0.8, 1.25)  # width over natural width
    blur: tuple[float, float] = (0.0, 1.6)  # Gaussian radius, pixels of the final image
    contrast: tuple[float, float] = (0.6, 1.0)
    noise: tuple[float, float] = (0.0, 0.08)  # standard deviation, as a share of the full range


@dataclass(frozen=True, eq=False)
class Digits:
    """Images uint8 (n, 32, 32), bright ink on dark ground, and their labels int64 (n,)."""

    images: NDArray[np.uint8]
    labels: Ints


def font_files() -> tuple[Path, ...]:
    """Return the font files used, in a fixed order."""
    import matplotlib

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return tuple(folder / f"{name}.ttf" for name in FONTS)


def render_digits(n: int, seed: int, jitter: Jitter | None = None) -> Digits:
    """Render n printed digits, see `render_glyphs`."""
    return render_glyphs("0123456789", n, seed, jitter)


def render_glyphs(characters: str, n: int, seed: int, jitter: Jitter | None = None) -> Digits:
    """Render n of the printed characters, each a class, with random font, pose, blur, contrast and noise.

    The same arguments give the same pixels (with the same Pillow and matplotlib releases).
    """
    jitter = jitter or Jitter()
    rng = np.random.default_rng(seed)
    fonts = [ImageFont.truetype(str(path), size=_CANVAS) for path in font_files()]
    labels = rng.integers(0, len(characters), n)
    images = np.stack(
        [_render(characters[label], fonts[rng.integers(len(fonts))], jitter, rng) for label in labels]
    )
    return Digits(images, labels.astype(np.int64))


def _render(
    character: str, font: ImageFont.FreeTypeFont, jitter: Jitter, rng: np.random.Generator
) -> NDArray[np.uint8]:
    glyph = _glyph(character, font)
    height = 2 * rng.uniform(*jitter.height)
    width = height * glyph.width / glyph.height * rng.uniform(*jitter.stretch)
    glyph = glyph.resize((max(2, round(width)), max(2, round(height))), Image.Resampling.BILINEAR)
    canvas = Image.new("L", (_CANVAS, _CANVAS))
    dx, dy = (round(2 * rng.uniform(-jitter.shift, jitter.shift)) for _ in range(2))
    canvas.paste(glyph, ((_CANVAS - glyph.width) // 2 + dx, (_CANVAS - glyph.height) // 2 + dy))
    canvas = canvas.rotate(rng.uniform(-jitter.rotation, jitter.rotation), Image.Resampling.BILINEAR)
    canvas = canvas.filter(ImageFilter.GaussianBlur(2 * rng.uniform(*jitter.blur)))
    pixels = np.asarray(canvas.resize((SIDE, SIDE), Image.Resampling.BOX), dtype=np.float64) / 255
    pixels = pixels * rng.uniform(*jitter.contrast) + rng.normal(0, rng.uniform(*jitter.noise), pixels.shape)
    return np.round(255 * np.clip(pixels, 0, 1)).astype(np.uint8)


def _glyph(character: str, font: ImageFont.FreeTypeFont) -> Image.Image:
    """Draw one character and crop to its ink."""
    left, top, right, bottom = (round(edge) for edge in font.getbbox(character))
    glyph = Image.new("L", (right - left, bottom - top))
    ImageDraw.Draw(glyph).text((-left, -top), character, fill=255, font=font)
    return glyph
