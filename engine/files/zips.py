"""The files in a stranger's zip. Knows the zip format; reads nothing of what is packed."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable

MAX_RATIO = 200  # probabilities and weights shrink to a half at best
_SMALL = 64 << 20


def file_entries(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the entries that are files, in their order: no folders, and none without a name, at which
    `ZipInfo.is_dir` fails.
    """
    return [entry for entry in archive.infolist() if entry.filename and not entry.is_dir()]


def is_bomb(entries: Iterable[zipfile.ZipInfo]) -> bool:
    """Say whether what is deflated among them states more than 64 MB and 200 times what it takes in the
    zip.
    """
    packed = [entry for entry in entries if entry.compress_type != zipfile.ZIP_STORED]
    inflated = sum(entry.file_size for entry in packed)
    return inflated > max(_SMALL, MAX_RATIO * sum(entry.compress_size for entry in packed))
