"""The sha256 of a file's bytes, in one place. Knows nothing of what the bytes mean."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import IO


def sha256_of(source: str | Path | IO[bytes]) -> str:
    """Return the sha256 of a file, or of what is left of an open one, without holding it in memory.

    >>> import io
    >>> sha256_of(io.BytesIO(b"abc"))[:16]  # the first test vector of FIPS 180
    'ba7816bf8f01cfea'
    """
    if isinstance(source, str | Path):
        with Path(source).open("rb") as file:
            return sha256_of(file)
    # `hashlib.file_digest` is typed for files that can be read into a buffer, as all of these can
    return hashlib.file_digest(source, "sha256").hexdigest()  # type: ignore[arg-type]


def sha256_of_all(path: Path) -> str:
    """Return the sha256 of a file, or of all files of a folder with their names."""
    if not path.is_dir():
        return sha256_of(path)
    whole = hashlib.sha256()
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        whole.update(f"{file.relative_to(path).as_posix()}\0{sha256_of(file)}\n".encode())
    return whole.hexdigest()
