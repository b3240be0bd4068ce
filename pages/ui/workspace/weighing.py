"""Statistics of a family too large for the server: made by a job, kept in the session's folder, read from
there.

Knows when they are needed and whether they are there. Computes nothing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from engine.decide.kept import ARRAYS, statistics_from
from engine.files.npz import read_npz
from engine.predictions.stack import Stack
from engine.rules.statistics import TRANSPORT, PoolStatistics
from engine.types import Floats, Predictions, UserError

WEIGHED = "weighed.npz"
CARRIED = "carried.npz"  # costs of optimal transport, made on request; nan where not there yet


def is_large(predictions: Predictions) -> bool:
    """Whether the predictions stay on disk, so that the server must not go through them."""
    return isinstance(predictions.candidates, Stack)


def stamp_of(path: Path, shares: str = "") -> str:
    """Return what changes whenever the predictions at this path or the class shares stated for them do."""
    own = path / "meta.json" if path.is_dir() else path
    return f"{path.resolve()}@{own.stat().st_mtime_ns}{'#' if shares else ''}{shares}"


def is_weighed(folder: Path, path: Path, shares: str = "") -> bool:
    """Whether the job's result is there and belongs to these predictions with these class shares."""
    return _belongs(folder / WEIGHED, stamp_of(path, shares))


def _belongs(kept: Path, stamp: str) -> bool:
    return kept.is_file() and str(read_npz(kept, wanted=("stamp",)).get("stamp")) == stamp


def transport_costs(folder: Path, path: Path, n_candidates: int) -> Floats:
    """Return the costs of optimal transport (M,) as far as a job made them, nan where it has not."""
    kept = folder / CARRIED
    if not _belongs(kept, stamp_of(path)):
        return np.full(n_candidates, np.nan)
    return np.array(read_npz(kept, wanted=(TRANSPORT,))[TRANSPORT], np.float64)


def weighed_pool(folder: Path, path: Path, predictions: Predictions, shares: str = "") -> PoolStatistics:
    """Return the statistics that the job made. Raises UserError if it has not."""
    if not is_weighed(folder, path, shares):
        raise UserError(
            "this family is large, and its numbers are not there yet. Open Choose: it makes them."
        )
    pool = statistics_from(predictions, read_npz(folder / WEIGHED, wanted=ARRAYS))
    costs = transport_costs(folder, path, predictions.n_candidates)
    if np.isfinite(costs).all():
        pool.take({TRANSPORT: costs})
    return pool


def weighed_problems(folder: Path, path: Path, shares: str = "") -> tuple[str, ...]:
    """Return what the job found to speak against deciding on these predictions; () before it is done."""
    if not is_weighed(folder, path, shares):
        return ()
    found = read_npz(folder / WEIGHED, wanted=("problems",)).get("problems", np.array([], dtype=str))
    return tuple(str(problem) for problem in found)
