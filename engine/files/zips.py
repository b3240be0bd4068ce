"""The files in a stranger's zip. Knows the zip format; reads nothing of what is packed."""

from __future__ import annotations

import zipfile


def file_entries(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the entries that are files, in their order: no folders, and none without a name, at which
    `ZipInfo.is_dir` fails.
    """
    return [entry for entry in archive.infolist() if entry.filename and not entry.is_dir()]
