"""Which files a study takes, what their families are called and where their rows go.

Knows paths and fingerprints. Reads no predictions.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

import engine
from engine.files.hashing import sha256_of_all
from engine.study.protocol.config import StudyConfig
from engine.study.protocol.result import Skipped

# Every room whose code can change a study's rows, with all its folders.
_ROOMS = ("family", "rules", "recommend", "decide", "diagnose", "study/protocol")


@dataclass(frozen=True)
class Task:
    """One family to study: its file and where its rows go."""

    family: str
    path: Path
    digest: str
    rows: Path  # the finished rows; written last, hence the mark that a family is done
    config: StudyConfig

    def part(self, name: str) -> Path:
        """Return the path of another table of the same family."""
        return self.rows.with_suffix(f".{name}.csv")


def plan(
    files: Sequence[str | Path], folder: Path, config: StudyConfig, grouping: pd.DataFrame | None
) -> tuple[list[Task], list[Skipped]]:
    """Return a task per usable file, and the files that are left out before anything is read.

    The name of a family's rows carries a fingerprint of file, config and engine: rows that are there are the
    right ones.
    """
    tasks, skipped, seen, code = [], [], set(), _code_hash()
    digests: dict[str, str] = {}
    listed = None if grouping is None else set(grouping["family"])
    for family, path in zip(_family_names(files), map(Path, files), strict=True):
        if not path.is_file() and not path.is_dir():  # a pipe would keep us waiting
            skipped.append(
                Skipped(family, f"{path} is not a file. Give an .npz file or a predictions folder.")
            )
        elif path.resolve() in seen:
            skipped.append(Skipped(family, f"{path.name} was given twice; it counts once."))
        elif listed is not None and family not in listed:
            skipped.append(
                Skipped(family, "the groups file has no line for it. Add one, or leave the file out.")
            )
        elif (digest := sha256_of_all(path)) in digests:
            skipped.append(Skipped(family, f"it has the same bytes as {digests[digest]}; it counts once."))
        else:
            seen.add(path.resolve())
            digests[digest] = family
            key = json.dumps([code, digest, config.to_dict()], sort_keys=True)
            mark = hashlib.sha256(key.encode()).hexdigest()[:16]
            tasks.append(
                Task(
                    family=family,
                    path=path,
                    digest=digest,
                    rows=folder / "families" / f"{family}-{mark}.csv",
                    config=config,
                )
            )
    return tasks, skipped


def _family_names(files: Sequence[str | Path]) -> list[str]:
    """A family is called by its file's stem; where stems repeat, the folder's name goes before, then a number
    after.
    """
    paths = [
        Path(os.path.realpath(file)) for file in files
    ]  # unlike `resolve`, content with a link to itself
    count = Counter(path.stem for path in set(paths))
    names: dict[Path, str] = {}
    for path in paths:
        base = path.stem if count[path.stem] == 1 else f"{path.parent.name}-{path.stem}"
        taken = set(names.values())
        free = next(
            name for name in (base, *(f"{base}-{k}" for k in range(2, len(paths) + 2))) if name not in taken
        )
        names.setdefault(path, free)
    return [names[path] for path in paths]


def _code_hash() -> str:
    """Fingerprint the rules and the study themselves: rows that an older engine left behind are not taken
    up.
    """
    digest = hashlib.sha256()
    root = Path(engine.__file__).parent
    for path in sorted(path for room in _ROOMS for path in (root / room).rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
