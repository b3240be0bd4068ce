"""Images that lie, swell, loop or are something else; each a builder of bytes under a name an image has."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable

import numpy as np
from PIL import Image


def picture(side: int = 16, seed: int = 0) -> Image.Image:
    values = np.random.default_rng(seed).integers(0, 255, (side, side, 3), dtype=np.uint8)
    return Image.fromarray(values)


def saved(kind: str, image: Image.Image | None = None, **options: object) -> bytes:
    file = io.BytesIO()
    (image or picture()).save(file, kind, **options)
    return file.getvalue()


def _chunk(kind: bytes, content: bytes, *, crc: int | None = None) -> bytes:
    checked = zlib.crc32(kind + content) if crc is None else crc
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checked)


def png(
    width: int, height: int, *, depth: int = 8, colour: int = 2, data: bytes = b"", extra: bytes = b""
) -> bytes:
    """A PNG of a stated size with these packed bytes, whatever they hold."""
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + extra + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def bomb_in_a_png() -> bytes:
    """7,000 x 7,000 black pixels in 140 kB: within the limit of pixels, a thousand times its size."""
    return png(7000, 7000, data=zlib.compress(bytes(7000 * (1 + 3 * 7000)), 9))


def _text_bomb(kind: bytes) -> bytes:
    packed = zlib.compress(bytes(200_000_000), 9)
    head = b"k\0\0" if kind == b"zTXt" else b"k\0\1\0\0\0"
    return png(2, 2, data=zlib.compress(bytes(14)), extra=_chunk(kind, head + packed))


def _progressive_scans() -> bytes:
    """A progressive JPEG whose last scan is repeated until decoding takes minutes."""
    content = saved("JPEG", Image.new("RGB", (7000, 7000)), progressive=True, quality=30)
    last = content.rindex(b"\xff\xda")
    return content[:-2] + content[last:-2] * (30_000_000 // len(content[last:-2])) + content[-2:]


def _gif_frames(n: int = 5000) -> bytes:
    frames = [Image.new("P", (4, 4), index % 256) for index in range(n)]
    return saved("GIF", frames[0], save_all=True, append_images=frames[1:])


def _tiff_pages(n: int = 300) -> bytes:
    frames = [Image.new("L", (4, 4), index % 256) for index in range(n)]
    return saved("TIFF", frames[0], save_all=True, append_images=frames[1:])


def _tiff(*entries: tuple[int, int, int, int], following: int = 0) -> bytes:
    fields = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + fields + struct.pack("<I", following) + bytes(64)


def _exif(content: bytes) -> bytes:
    return saved("JPEG", exif=b"Exif\0\0" + content)


def _svg() -> bytes:
    entities = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))
    return f'<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY a0 "ha">{entities}]><svg>&a9;</svg>'.encode()


def _bmp(width: int, height: int) -> bytes:
    return saved("BMP").replace(struct.pack("<ii", 16, 16), struct.pack("<ii", width, height), 1)


def _webp() -> bytes:
    frames = [Image.new("RGB", (4, 4), (index % 256, 0, 0)) for index in range(300)]
    return saved("WEBP", frames[0], save_all=True, append_images=frames[1:])


FLAT = zlib.compress(bytes(16 * (1 + 3 * 16)))
# Those that hold a picture after all: an animation's first frame, nonsense beside good pixels.
READABLE = (
    *("frames.gif", "pages.tiff", "frames.webp", "exif nonsense.jpg", "exif circle.jpg", "tail.png"),
    *("a png.jpg", "bomb.png", "one pixel.png", "comments.jpg", "rotated nine.jpg"),
    "too few rows.png",
)
IMAGES: dict[str, Callable[[], bytes]] = {
    "bomb.png": bomb_in_a_png,
    "too many pixels.png": lambda: png(2**31 - 1, 2**31 - 1, data=FLAT),
    "just too many.png": lambda: png(50_001, 1000, data=FLAT),
    "no pixels.png": lambda: png(0, 0, data=FLAT),
    "no height.png": lambda: png(16, 0, data=FLAT),
    "too few rows.png": lambda: png(16, 4000, data=FLAT),
    "no data.png": lambda: png(16, 16),
    "depth of 7.png": lambda: png(16, 16, depth=7, data=FLAT),
    "colour of 9.png": lambda: png(16, 16, colour=9, data=FLAT),
    "palette missing.png": lambda: png(16, 16, colour=3, data=zlib.compress(bytes(16 * 17))),
    "wrong crc.png": lambda: saved("PNG").replace(b"IHDR", b"IHDS"),
    "text bomb.png": lambda: _text_bomb(b"zTXt"),
    "text bomb two.png": lambda: _text_bomb(b"iTXt"),
    "profile.png": lambda: png(
        16, 16, data=FLAT, extra=_chunk(b"iCCP", b"p\0\0" + zlib.compress(bytes(50_000_000), 9))
    ),
    "chunk length.png": lambda: b"\x89PNG\r\n\x1a\n" + b"\xff\xff\xff\xff" + b"IHDR" + bytes(20),
    "cut.png": lambda: saved("PNG")[:60],
    "tail.png": lambda: saved("PNG") + bytes(100_000),
    "one pixel.png": lambda: saved("PNG", picture(1)),
    "cut.jpg": lambda: saved("JPEG")[:300],
    "only a start.jpg": lambda: b"\xff\xd8\xff\xe0",
    "no tables.jpg": lambda: bytes.fromhex("ffd8ffc000110800100010030122000211010311 01ffd9"),
    "huge sides.jpg": lambda: saved("JPEG").replace(b"\0\x10\0\x10", b"\xff\xff\xff\xff", 1),
    "scans.jpg": _progressive_scans,
    "comments.jpg": lambda: b"\xff\xd8" + (b"\xff\xfe\xff\xff" + bytes(65533)) * 40 + saved("JPEG")[2:],
    "markers.jpg": lambda: b"\xff\xd8" + b"\xff" * 1_000_000,
    "exif nonsense.jpg": lambda: _exif(b"II*\0\xff\xff\xff\x7f" + bytes(30)),
    "exif circle.jpg": lambda: _exif(b"II*\0\x08\0\0\0\x01\0\x69\x87\x04\0\x01\0\0\0\x08\0\0\0\x08\0\0\0"),
    "rotated nine.jpg": lambda: _exif(b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x09\0\0\0\0\0\0\0"),
    "frames.gif": _gif_frames,
    "empty frame.gif": lambda: b"GIF89a" + struct.pack("<HHBBB", 0, 0, 0, 0, 0) + b";",
    "huge screen.gif": lambda: b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0, 0, 0) + b";",
    "no end.gif": lambda: saved("GIF")[:-30] + b"!\xfe" + b"\xffx" * 100_000,
    "lzw of 12.gif": lambda: saved("GIF").replace(b"\x08\xff", b"\x0c\xff", 1)[:400],
    "pages.tiff": _tiff_pages,
    "page circle.tiff": lambda: _tiff((256, 3, 1, 4), (257, 3, 1, 4), following=8),
    "offset past the end.tiff": lambda: b"II*\0\xff\xff\xff\xff",
    "strips past the end.tiff": lambda: _tiff(
        (256, 3, 1, 4),
        (257, 3, 1, 4),
        (258, 3, 1, 8),
        (259, 3, 1, 1),
        (262, 3, 1, 1),
        (273, 4, 1, 2**32 - 8),
        (278, 3, 1, 4),
        (279, 4, 1, 16),
    ),
    "huge sides.tiff": lambda: _tiff((256, 4, 1, 2**31), (257, 4, 1, 2**31), (259, 3, 1, 5)),
    "a billion values.tiff": lambda: _tiff((256, 4, 2**31, 8), (257, 3, 1, 4), (273, 4, 2**31, 8)),
    "no entries.tiff": lambda: _tiff(),
    "lzw of nothing.tif": lambda: _tiff(
        (256, 3, 1, 64),
        (257, 3, 1, 64),
        (258, 3, 1, 8),
        (259, 3, 1, 5),
        (262, 3, 1, 1),
        (273, 4, 1, 110),
        (278, 3, 1, 64),
        (279, 4, 1, 8),
    ),
    "frames.webp": _webp,
    "cut.webp": lambda: saved("WEBP")[:40],
    "sizes.webp": lambda: b"RIFF\xff\xff\xff\xffWEBPVP8X\x0a\0\0\0\x02\0\0\0\xff\xff\xff\xff\xff\xff",
    "no data.webp": lambda: b"RIFF\x04\0\0\0WEBP",
    "negative.bmp": lambda: _bmp(-16, -(2**31)),
    "huge.bmp": lambda: _bmp(2**31 - 1, 2**31 - 1),
    "run lengths.bmp": lambda: b"".join(
        [
            b"BM",
            bytes(8),
            struct.pack("<IIiiHHII", 54, 40, 9000, 5000, 1, 8, 1, 0),
            bytes(16),
            b"\xff\0" * 10_000,
        ]
    ),
    "offset.bmp": lambda: saved("BMP")[:10] + b"\xff\xff\xff\x7f" + saved("BMP")[14:],
    "digits.ppm": lambda: b"P6 " + b"9" * 5000 + b" 9 255\n",
    "negative.ppm": lambda: b"P6 -4 -4 255\n" + bytes(48),
    "plain without end.ppm": lambda: b"P3 4000 4000 255\n" + b"1 " * 1000,
    "maximum of nothing.pgm": lambda: b"P5 4 4 0\n" + bytes(16),
    "comment without end.pgm": lambda: b"P5 #" + b"x" * 1_000_000,
    "a png.jpg": lambda: saved("PNG"),
    "svg.png": _svg,
    "postscript.jpg": lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n(touch canary) system\n",
    "icon.png": lambda: b"\0\0\1\0\1\0" + bytes(100),
    "jpeg 2000.jpg": lambda: b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(100),
    "web page.jpg": lambda: b"<html><script>alert(1)</script></html>",
    "a pickle.png": lambda: b"cos\nsystem\n(S'touch canary'\ntR.",
    "empty.png": lambda: b"",
    "zeros.jpg": lambda: bytes(100_000),
    "a zip.png": lambda: b"PK\x03\x04" + bytes(100),
    "floats.tiff": lambda: saved("TIFF", Image.fromarray(np.full((4, 4), np.nan, np.float32))),
    "32 bits.tiff": lambda: saved("TIFF", Image.fromarray(np.full((4, 4), 2**31 - 1, np.int32))),
}
