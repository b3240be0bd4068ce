"""Uploaded images as one target: a single archive or array as it is, several archives and images as one
folder.

Knows files and their limits. Nothing outside the folder it is given is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from engine.target import Limits, UnreadableImageError, open_images
from engine.types import UserError
from engine.words import counted
from pages.ui.workspace.folder import remove

_ARCHIVES = (".zip",)
_ALONE = (".zip", ".npy", ".npz")


def as_target(folder: Path, limits: Limits) -> Path:
    """Return what the uploaded files of a folder are as a target, unpacking archives that did not come alone.

    An archive without any image is left out if others have some. Raises UserError if nothing is left.
    """
    files = sorted(path for path in folder.iterdir() if path.is_file())
    if len(files) == 1 and files[0].suffix.lower() in _ALONE:
        return files[0]
    archives = [path for path in files if path.suffix.lower() in _ARCHIVES]
    arrays = [path.name for path in files if path.suffix.lower() in (".npy", ".npz")]
    if arrays:
        raise UserError(
            f"{arrays[0]} is an array of images and came with {counted(len(files) - 1, 'other file')}."
            " Upload the array"
            " alone."
        )
    empty = _unpack_all(archives, limits)
    if empty and len(empty) == len(files):
        raise UserError(f"{_names(empty)} held no image that can be read. Give a zip of images.")
    return folder


def _unpack_all(archives: Sequence[Path], limits: Limits) -> list[str]:
    """Unpack every archive; return the names of those without an image."""
    empty = []
    for archive in archives:
        try:
            _unpack(archive, limits)
        except UserError:
            if len(archives) == 1:
                raise
            empty.append(archive.name)
        remove(archive)
    return empty


def _unpack(archive: Path, limits: Limits) -> None:
    """Archives that sort their images into folders share these, since a folder may be a class; the images of
    any other archive get a folder of its name.
    """
    images = open_images(archive, limits=limits)
    # Names come from the archive: only their last parts are kept, so that none leads elsewhere.
    places = [[part for part in Path(name).parts if part not in ("..", "/", ".")] for name in images.names]
    is_sorted = all(len(parts) > 1 for parts in places)
    home = archive.parent if is_sorted else archive.with_suffix("")
    for index, parts in enumerate(places):
        path = home.joinpath(*parts)
        if path.exists():  # two archives may call different images the same
            path = path.with_name(f"{archive.stem}-{path.name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(UnreadableImageError):  # the check of the images lists what could not be read
            path.write_bytes(images.source.raw(index))


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
