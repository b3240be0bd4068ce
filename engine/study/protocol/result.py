"""A finished study: its tidy tables, groups and metadata, as written to and read from a folder.

Knows the folder's files and that each appears whole or not at all. Knows nothing of rules or inference.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.files.whole_file import whole_file
from engine.types import UserError

_TEXT = ("family", "rule", "name", "granularity")
_WHOLE = ("n", "repetition", "pick", "candidate", "n_classes")
_LARGE = 1_000_000  # rows from which a Parquet copy is worth its place


@dataclass(frozen=True)
class Skipped:
    """A file that did not enter the study, and why."""

    family: str
    reason: str


@dataclass(frozen=True, eq=False)
class StudyResult:
    """Everything that tables and figures are made of.

    results has one row per outcome (`engine.study.protocol.one_family.COLUMNS`), candidates one per
    candidate, attenuation one per family and rate, groups one per family: family, setting, shift, seed,
    execution. A cancelled study holds what was finished.
    """

    out: Path
    results: pd.DataFrame
    candidates: pd.DataFrame
    attenuation: pd.DataFrame
    groups: pd.DataFrame
    skipped: tuple[Skipped, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    cancelled: bool = False

    @property
    def families(self) -> tuple[str, ...]:
        return tuple(self.groups["family"])


def save_study(result: StudyResult) -> None:
    """Write results.csv, candidates.csv, attenuation.csv, groups.csv and metadata.json; Parquet too when
    results are large.
    """
    write_csv(result.candidates, result.out / "candidates.csv")
    write_csv(result.attenuation, result.out / "attenuation.csv")
    write_csv(result.groups, result.out / "groups.csv")
    write_text(json.dumps(result.metadata, indent=1, sort_keys=True) + "\n", result.out / "metadata.json")
    if len(result.results) > _LARGE:
        partial = result.out / ".results.parquet.tmp"
        result.results.to_parquet(partial, index=False)
        os.replace(partial, result.out / "results.parquet")
    write_csv(result.results, result.out / "results.csv")


def load_study(out: str | Path) -> StudyResult:
    """Read a finished study back. Raises UserError if the folder holds none."""
    folder = Path(out)
    if not (folder / "results.csv").is_file() or not (folder / "metadata.json").is_file():
        raise UserError(f"{folder} holds no finished study.", "Run one into this folder first.")
    metadata = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    groups = pd.read_csv(folder / "groups.csv", dtype=str, keep_default_na=False)
    skipped = tuple(Skipped(**entry) for entry in metadata["skipped"])
    results, candidates, attenuation = (
        read_csv(folder / f"{name}.csv") for name in ("results", "candidates", "attenuation")
    )
    return StudyResult(
        out=folder,
        results=results,
        candidates=candidates,
        attenuation=attenuation,
        groups=groups,
        skipped=skipped,
        metadata=metadata,
    )


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table in one step; numbers keep every digit, so that reading gives the same bits."""
    write_text(table.to_csv(index=False, lineterminator="\n"), path)


def read_csv(path: Path) -> pd.DataFrame:
    """Read a table of this module, to the bit: Python's own float() takes every digit, pandas' fast parser
    need not.
    """
    raw = pd.read_csv(path, dtype=str, keep_default_na=False)
    return pd.DataFrame({name: _typed(str(name), raw[name].to_list()) for name in raw.columns})


def _typed(name: str, texts: list[str]) -> NDArray[Any]:
    if name in _TEXT:
        return np.array(texts, dtype=object)
    if name in _WHOLE:
        return np.array([int(text) for text in texts], dtype=np.int64)
    if name == "collapsed":
        return np.array([text == "True" for text in texts], dtype=np.bool_)
    return np.array([float(text) if text else np.nan for text in texts], dtype=np.float64)


def write_text(content: str | bytes, path: Path) -> None:
    """Write a file so that a reader sees the old one or the whole new one."""
    with whole_file(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)
