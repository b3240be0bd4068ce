"""Images in array files: a memory-mapped .npy, or the `images` of an .npz streamed to disk first. Knows
shapes and value ranges.
"""

from __future__ import annotations

import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.files.npy import STRANGE_HEADER
from engine.files.npz import check_sizes
from engine.target.sources import Limits, check_names
from engine.types import Ints, UserError

_MB = 10**6
_CHUNK = 1 << 20
_LABEL_BYTES = 8  # of one label
_LABELS = "Save class indices, -1 for unknown."


class ArraySource:
    """Rows of a memory-mapped array (N, H, W), (N, H, W, 1 or 3) or (N, 3, H, W); floats are pixels 0..255 or
    0..1.
    """

    n_ignored = 0

    def __init__(self, path: Path, where: str, limits: Limits) -> None:
        self._array = _map_array(path, where)
        if self._array.ndim == 0 or 0 in self._array.shape[1:]:
            raise UserError(
                f"{where} has shape {self._array.shape}; images need (N, H, W), (N, H, W, 3) or (N, 3,"
                " H, W).",
                "Reshape it.",
            )
        if self._array.nbytes // max(1, len(self._array)) > 16 * limits.pixels:
            raise UserError(
                f"{where} holds images of shape {self._array.shape[1:]}, more than {limits.pixels:,} pixels"
                " each.",
                "Make them smaller.",
            )
        self.names = tuple(f"row {i}" for i in range(len(self._array)))
        check_names(self.names, where, limits)
        self._channels_first = (
            self._array.ndim == 4 and self._array.shape[1] in (1, 3) and self._array.shape[3] not in (1, 3)
        )
        if (
            self._array.ndim != 3
            and not self._channels_first
            and (self._array.ndim != 4 or self._array.shape[3] not in (1, 3))
        ):
            raise UserError(
                f"{where} has shape {self._array.shape}; images need (N, H, W), (N, H, W, 3) or (N, 3, H, W)."
                " Reshape it."
            )
        if self._array.dtype != np.uint8 and self._array.dtype.kind not in "f":
            raise UserError(
                f"{where} holds {self._array.dtype} values; pixels must be uint8 or float. Convert it, e.g."
                " with .astype('uint8')."
            )
        self.dtype: np.dtype[Any] = np.dtype(np.uint8 if self._array.dtype == np.uint8 else np.float32)
        self._factor = 1.0 if self._array.dtype == np.uint8 else self._pixel_factor(where)

    def _pixel_factor(self, where: str) -> float:
        """Return 255 when every value lies in 0..1, 1 when they lie in 0..255; refuse anything else."""
        step = max(1, _CHUNK // max(1, self._array[0].size))
        blocks = [self._array[i : i + step] for i in range(0, len(self._array), step)]
        low, high = np.min([block.min() for block in blocks]), np.max([block.max() for block in blocks])
        if not np.isfinite([low, high]).all():
            raise UserError(
                f"{where} holds nan or infinite values; every pixel must be a number. Replace or leave out"
                " those images."
            )
        if low < 0 or high > 255:
            raise UserError(
                f"{where} has values from {low:g} to {high:g}; pixels must lie in 0..255 or 0..1. Undo the"
                " normalisation first."
            )
        return 255.0 if high <= 1 else 1.0

    @property
    def notes(self) -> tuple[str, ...]:
        notes = ["The array's axis 1 was read as colour channels."] if self._channels_first else []
        return (
            (*notes, "The array's values lie in 0..1 and were multiplied by 255.")
            if self._factor == 255
            else tuple(notes)
        )

    def raw(self, index: int) -> bytes:
        return np.ascontiguousarray(self._array[index]).tobytes()

    def read(self, index: int) -> NDArray[Any]:
        image = np.asarray(self._array[index])
        if self._channels_first:
            image = image.transpose(1, 2, 0)
        if image.dtype != np.uint8:
            image = image.astype(np.float32) * np.float32(self._factor)
        colour = image[..., None] if image.ndim == 2 else image
        return np.broadcast_to(colour, (*colour.shape[:2], 3))


def _map_array(path: Path, where: str) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError, *STRANGE_HEADER):
        raise UserError(
            f"{where} is not a plain numeric .npy array. Save it with numpy.save, without Python objects."
        ) from None
    return array


@dataclass(eq=False)
class UnpackedArrays:
    """The arrays of an .npz: `images` streamed to a temporary file (removed with this object), `labels` in
    memory.
    """

    folder: tempfile.TemporaryDirectory[str]
    images: Path
    labels: Ints | None


def unpack_npz(path: Path, limits: Limits) -> UnpackedArrays:
    """Stream `images` of an .npz to disk within the limits and read `labels` if present; raise UserError
    otherwise.
    """
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError):
        raise UserError(f"{path.name!r} is not a readable .npz. Save it with numpy.savez.") from None
    with archive:
        entries = [info for info in archive.infolist() if info.filename in ("images.npy", "labels.npy")]
        check_sizes(entries, repr(path.name), limits.total_bytes)
        if "images.npy" not in archive.namelist():
            held = ", ".join(name.removesuffix(".npy") for name in archive.namelist()[:5]) or "nothing"
            raise UserError(
                f"{path.name!r} has no array named `images` (it has {held}). Save it with numpy.savez(file,"
                " images=..., labels=...)."
            )
        folder = tempfile.TemporaryDirectory(prefix="anchorpoint-")
        target = Path(folder.name, "images.npy")
        written = 0
        try:
            with archive.open("images.npy") as packed, target.open("wb") as file:
                while block := packed.read(_CHUNK):
                    written += file.write(block)
                    if written > limits.total_bytes:
                        raise UserError(
                            f"{path.name!r} unpacks to more than {limits.total_bytes / _MB:,.0f} MB. Give a"
                            " part of it."
                        )
            labels = _read_labels(archive, limits) if "labels.npy" in archive.namelist() else None
        except UserError:
            folder.cleanup()
            raise
        except (
            zipfile.BadZipFile,
            zlib.error,
            ValueError,
            EOFError,
            RuntimeError,
            NotImplementedError,
            *STRANGE_HEADER,
        ):
            folder.cleanup()
            raise UserError(f"{path.name!r} is damaged. Save it again with numpy.savez.") from None
    return UnpackedArrays(folder, target, labels)


def _read_labels(archive: zipfile.ZipFile, limits: Limits) -> Ints:
    if archive.getinfo("labels.npy").file_size > _LABEL_BYTES * limits.files + _CHUNK:
        raise UserError(f"`labels` holds more than one label for each of {limits.files:,} images.", _LABELS)
    with archive.open("labels.npy") as file:
        labels: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise UserError(
            f"`labels` must be one integer per image, got {labels.dtype} of shape {labels.shape}.", _LABELS
        )
    return labels.astype(np.int64)
