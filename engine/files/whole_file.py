"""Write a file in one step: a reader, or a run after a kill, sees the old bytes or all of the new ones.

Knows temporary names and renaming. Knows nothing of what is written.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def whole_file(path: str | Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """Yield a binary file that takes the place of `path` when the block ends well; otherwise nothing is left
    of it.

    Folders are made as needed. A `private` file stays readable by its owner alone.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # what was said to be written survives a power cut
        if not private:
            os.chmod(temporary, 0o644)  # mkstemp makes a private file; a result is meant to be shared
        os.replace(temporary, target)
    finally:
        Path(temporary).unlink(missing_ok=True)  # already gone if it took its place
