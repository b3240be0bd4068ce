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


def stamp_of(path: Path) -> str:
    """Return what changes whenever the predictions at this path do."""
    own = path / "meta.json" if path.is_dir() else path
    return f"{path.resolve()}@{own.stat().st_mtime_ns}"


def is_weighed(folder: Path, path: Path) -> bool:
    """Whether the job's result is there and belongs to these predictions."""
    return _belongs(folder / WEIGHED, path)


def _belongs(kept: Path, path: Path) -> bool:
    return kept.is_file() and str(read_npz(kept, wanted=("stamp",)).get("stamp")) == stamp_of(path)


def transport_costs(folder: Path, path: Path, n_candidates: int) -> Floats:
    """Return the costs of optimal transport (M,) as far as a job made them, nan where it has not."""
    kept = folder / CARRIED
    if not _belongs(kept, path):
        return np.full(n_candidates, np.nan)
    return np.array(read_npz(kept, wanted=(TRANSPORT,))[TRANSPORT], np.float64)


def weighed_pool(folder: Path, path: Path, predictions: Predictions) -> PoolStatistics:
    """Return the statistics that the job made. Raises UserError if it has not."""
    if not is_weighed(folder, path):
        raise UserError(
            "this family is large, and its numbers are not there yet. Open Choose: it makes them."
        )
    pool = statistics_from(predictions, read_npz(folder / WEIGHED, wanted=ARRAYS))
    costs = transport_costs(folder, path, predictions.n_candidates)
    if np.isfinite(costs).all():
        pool.take({TRANSPORT: costs})
    return pool


def weighed_problems(folder: Path, path: Path) -> tuple[str, ...]:
    """Return what the job found to speak against deciding on these predictions; () before it is done."""
    if not is_weighed(folder, path):
        return ()
    found = read_npz(folder / WEIGHED, wanted=("problems",)).get("problems", np.array([], dtype=str))
    return tuple(str(problem) for problem in found)
