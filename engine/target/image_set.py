"""The target images as one lazy, ordered, fingerprinted set, whatever they were stored in; and what is wrong
with them.

Never holds more than a few decoded images. Knows nothing of teachers, except by matching folder names to
class names on request.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.target.arrays import ArraySource, UnpackedArrays, unpack_npz
from engine.target.decode import UnreadableImageError
from engine.target.decoders import BATCH, DeadlyImageError, decoded, shapes
from engine.target.prepare import prepare
from engine.target.sources import FolderSource, Limits, Plain, ZipSource
from engine.types import Ints, Preprocessing, Progress, UserError


@dataclass(frozen=True)
class BadImage:
    """An image that cannot be used, and why."""

    name: str
    reason: str


@dataclass(frozen=True, eq=False)
class ImageSet:
    """N target images in a fixed order: sorted names for folders and zips, row order for arrays.

    `labels` (N,) come from an .npz only. `class_folders` are the folder names when every image lies in one of
    at least two folders (ImageFolder style); `folder_labels` (N,) index them. Folders are a claim about
    labels that nobody checked, so they are never used unless asked for.
    """

    source: FolderSource | ZipSource | Plain
    kind: Literal["folder", "zip", "array"]
    labels: Ints | None = None
    class_folders: tuple[str, ...] | None = None
    folder_labels: Ints | None = None
    notes: tuple[str, ...] = ()
    # an unpacked .npz lives as long as this set
    _keep: UnpackedArrays | None = field(default=None, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        return self.source.names

    @property
    def dtype(self) -> np.dtype[Any]:
        """What `read` returns: uint8, or float32 for arrays of floats."""
        return self.source.dtype

    def __len__(self) -> int:
        return len(self.source.names)

    def read(self, index: int) -> NDArray[Any]:
        """Return image `index` as (height, width, 3), uint8 or (float arrays) float32 in 0..255; raise
        UnreadableImageError if corrupt.
        """
        if not isinstance(self.source, FolderSource | ZipSource):
            return self.source.read(index)
        (pixels,) = decoded([self.source.encoded(index)])
        if isinstance(pixels, UnreadableImageError):
            raise pixels
        return pixels

    def prepared(
        self, indices: Sequence[int], preprocessing: Preprocessing
    ) -> Iterator[NDArray[Any] | UnreadableImageError]:
        """Yield the images at `indices` as a teacher takes them (`prepare`), or what is wrong with each.

        Encoded images are decoded and resized in guarded children; an array holds nothing to decode.
        """
        if not isinstance(self.source, FolderSource | ZipSource):
            return (prepare(self.read(index), preprocessing) for index in indices)
        return decoded(map(self.source.encoded, indices), preprocessing)

    def stacked(self, indices: Sequence[int], preprocessing: Preprocessing) -> NDArray[Any]:
        """Return the prepared images at `indices` (n, ...); raise UnreadableImageError at the first that
        cannot be used.
        """
        stack: list[NDArray[Any]] = []
        for pixels in self.prepared(indices, preprocessing):
            if isinstance(pixels, UnreadableImageError):
                raise pixels
            stack.append(pixels)
        return np.stack(stack)

    def problems(self, indices: Sequence[int]) -> Iterator[UnreadableImageError | None]:
        """Decode the images at `indices`, and yield what is wrong with each."""
        if not isinstance(self.source, FolderSource | ZipSource):
            return iter([None] * len(indices))
        found = shapes(map(self.source.encoded, indices))
        return (shape if isinstance(shape, UnreadableImageError) else None for shape in found)

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """Sha256 of each image's stored bytes; "unreadable" where there are none."""
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            return tuple(threads.map(self._digest, range(len(self)), chunksize=64))

    def _digest(self, index: int) -> str:
        try:
            return hashlib.sha256(self.source.raw(index)).hexdigest()
        except UnreadableImageError:
            return "unreadable"

    @cached_property
    def fingerprint(self) -> str:
        """Sha256 over every name and every byte of content, in order: a renamed, added or edited image
        changes it.
        """
        digest = hashlib.sha256("\n".join(self.notes).encode())
        for name, content in zip(self.names, self.digests, strict=True):
            digest.update(f"{name}\0{content}\n".encode(errors="surrogateescape"))
        return digest.hexdigest()


def open_images(path: str | Path, *, limits: Limits | None = None) -> ImageSet:
    """Open a folder (flat or one subfolder per class), a .zip of one, an .npy array or an .npz with `images`.

    Lists the images without decoding them. Raises UserError if the path is missing, holds no image, or breaks
    a limit.
    """
    path, bounds = Path(path).expanduser(), limits or Limits()
    if not path.exists():
        raise UserError(
            f"there is nothing at {str(path)!r}. Give the path of a folder, a .zip, an .npy or an .npz with"
            " images."
        )
    if not path.is_dir() and not path.is_file():  # a pipe or a device would keep us waiting
        raise UserError(f"{path.name!r} is no regular file. Give a folder, a .zip, an .npy or an .npz.")
    suffix = path.suffix.lower()
    if path.is_dir():
        return _with_folders(FolderSource(path, bounds), "folder")
    if suffix == ".zip":
        return _with_folders(ZipSource(path, bounds), "zip")
    if suffix == ".npy":
        source = ArraySource(path, repr(path.name), bounds)
        return ImageSet(source, "array", notes=source.notes)
    if suffix == ".npz":
        return _open_npz(path, bounds)
    raise UserError(f"{path.name!r} is not a set of images. Give a folder, a .zip, an .npy or an .npz.")


def _open_npz(path: Path, limits: Limits) -> ImageSet:
    unpacked = unpack_npz(path, limits)
    source = ArraySource(unpacked.images, f"`images` of {path.name!r}", limits)
    if unpacked.labels is not None and len(unpacked.labels) != len(source.names):
        raise UserError(
            f"{path.name!r} has {len(source.names)} images and {len(unpacked.labels)} labels. Give one label"
            " per image, -1 if unknown."
        )
    return ImageSet(source, "array", labels=unpacked.labels, notes=source.notes, _keep=unpacked)


def _with_folders(source: FolderSource | ZipSource, kind: Literal["folder", "zip"]) -> ImageSet:
    ignored = (f"{source.n_ignored} files that are not images were ignored.",) if source.n_ignored else ()
    folders = _class_folders(source.names)
    if folders is None:
        return ImageSet(source, kind, notes=ignored)
    names = tuple(sorted(set(folders)))
    index = {name: i for i, name in enumerate(names)}
    return ImageSet(
        source,
        kind,
        class_folders=names,
        folder_labels=np.array([index[name] for name in folders], np.int64),
        notes=ignored,
    )


def _class_folders(names: Sequence[str]) -> list[str] | None:
    """Return each image's class folder: the first level at which the paths part, if that is a folder for
    every image.
    """
    parents = [PurePosixPath(name).parts[:-1] for name in names]
    first, last = min(parents), max(parents)  # what the extremes share, all share
    depth = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )
    if any(len(parent) <= depth for parent in parents):
        return None
    return [parent[depth] for parent in parents]


def labels_from_folders(images: ImageSet, class_names: Sequence[str]) -> Ints:
    """Return (N,) class indices from folder names, matched to class names (case aside) or read as class
    numbers.

    Raises UserError if the images are not in class folders or a folder is no class of the teacher.
    """
    if images.class_folders is None or images.folder_labels is None:
        raise UserError(
            "the images are not sorted into one folder per class, so folders give no labels. Give a labels"
            " CSV instead."
        )
    known = {name.casefold(): i for i, name in enumerate(class_names)}
    numbers = {str(i): i for i in range(len(class_names))}
    for lookup in (known, numbers):
        if all(folder.casefold() in lookup for folder in images.class_folders):
            return np.array([lookup[folder.casefold()] for folder in images.class_folders], np.int64)[
                images.folder_labels
            ]
    strange = next(folder for folder in images.class_folders if folder.casefold() not in known)
    raise UserError(
        f"folder {strange!r} is not a class of this teacher"
        f" ({', '.join(class_names[:5])}{', …' if len(class_names) > 5 else ''}).",
        "Rename the folders, or give the class names in the order of the outputs.",
        option="class_names",
    )


T = TypeVar("T")
_DEADLY = 5  # images that may end their decoder before the whole set is refused: each costs seconds


def in_batches(
    indices: Sequence[int], work: Callable[[Sequence[int]], Iterator[T | UnreadableImageError]]
) -> Iterator[tuple[int, T | BadImage]]:
    """Yield (index, what `work` gives for it, or what is wrong) in order: a batch a thread, a thread a core,
    and only a few batches in flight.

    Raises UserError if several images ended their decoders: such a set is made to harm.
    """
    n_threads, deadly = os.cpu_count() or 1, 0
    with ThreadPoolExecutor(n_threads) as threads:
        batches = (list(indices[start : start + BATCH]) for start in range(0, len(indices), BATCH))

        def submit(n: int) -> list[tuple[list[int], Future[list[T | UnreadableImageError]]]]:
            return [(some, threads.submit(lambda s: list(work(s)), some)) for some in islice(batches, n)]

        waiting = deque(submit(2 * n_threads))
        while waiting:
            some, future = waiting.popleft()
            for index, result in zip(some, future.result(), strict=True):
                if isinstance(result, UnreadableImageError):
                    deadly += isinstance(result, DeadlyImageError)
                    if deadly >= _DEADLY:
                        raise UserError(
                            f"{deadly} images were too much for their decoder, the last of them"
                            f" {result.name!r}: {result.reason}.",
                            "Remove such images; photographs decode in a second.",
                        )
                    yield index, BadImage(result.name, result.reason)
                else:
                    yield index, result
            waiting.extend(submit(1))


def scan(images: ImageSet, on_progress: Progress | None = None) -> list[BadImage]:
    """Decode every image once, in parallel, and return those that cannot be used, in order."""
    bad: list[BadImage] = []
    for done, (_, problem) in enumerate(in_batches(range(len(images)), images.problems), start=1):
        if problem is not None:
            bad.append(problem)
        if on_progress is not None:
            on_progress(done, len(images))
    return bad


def duplicates(images: ImageSet) -> list[tuple[int, ...]]:
    """Return groups of indices whose stored bytes are identical, each in order; unreadable images are left
    out.
    """
    groups: dict[str, list[int]] = {}
    for index, digest in enumerate(images.digests):
        if digest != "unreadable":
            groups.setdefault(digest, []).append(index)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def pool_order(images: ImageSet, *, seed: int = 0, shuffle: bool | None = None) -> NDArray[np.int64]:
    """Return the order in which images enter the pool, a permutation of 0..N-1.

    Folders and zips are shuffled once by the seed, because sorted names are class-sorted and the calibration
    split is the first half. Arrays keep their row order by default, because their owner aligns labels by row.
    `shuffle` overrides.
    """
    if shuffle if shuffle is not None else images.kind != "array":
        return np.random.Generator(np.random.PCG64(seed)).permutation(len(images))
    return np.arange(len(images), dtype=np.int64)
