"""Run a study over many predictions files: in parallel, one family at a time per worker, resumable and atomic.

Knows files, processes and groups. The protocol on one family lives in `engine.study.protocol`.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import platform
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy

from engine import __version__
from engine.predictions import load_predictions
from engine.study.candidates import ATTENUATION_COLUMNS, CANDIDATE_COLUMNS, check_theory, describe_candidates
from engine.study.config import StudyConfig
from engine.study.groups import one_group, read_groups
from engine.study.protocol import COLUMNS, run_family
from engine.study.result import Skipped, StudyResult, read_csv, save_study, write_csv
from engine.study.truth import check_cohort, measure_truth
from engine.types import Progress, UserError

_FORMAT = 1  # raise when the tables of a family change, so that old partial results are not taken up
_SEEDS = {
    "subset": "PCG64(100000 + 7919*n + repetition).choice",
    "corruption": "PCG64(9500 + round(100*rate) + repetition)",
    "permutation": "PCG64(200000 + 7919*n + repetition).permutation",
    "subsample anchor": "PCG64(300000 + 7919*n + repetition).choice",
}
_POLL = 0.2  # seconds between looks at `cancel`


@dataclass(frozen=True)
class _Task:
    family: str
    path: Path
    digest: str
    rows: Path  # the finished rows; written last, hence the mark that a family is done
    config: StudyConfig

    def part(self, name: str) -> Path:
        return self.rows.with_suffix(f".{name}.csv")


def run_study(
    files: Sequence[str | Path],
    out: str | Path,
    config: StudyConfig | None = None,
    *,
    groups: str | Path | None = None,
    workers: int | None = None,
    on_progress: Progress | None = None,
    cancel: Callable[[], bool] | None = None,
) -> StudyResult:
    """Run the protocol on every file and write the study to the folder `out`.

    Families that were finished by an earlier, interrupted run with the same files and config are taken up as they are.
    A family that cannot take part is skipped with its reason; the rest runs. `on_progress` counts families; when `cancel`
    says True the families under way are finished and what there is comes back, with `cancelled` set and no results.csv.
    Raises UserError if no family is left.
    """
    config, folder = config or StudyConfig(), Path(out)
    if not files:
        raise UserError("a study needs at least one predictions file and got none. Give .npz files with a test part.")
    grouping = read_groups(groups) if groups is not None else None
    tasks, skipped = _plan(files, folder, config, grouping)
    reasons, cancelled = _run_all(tasks, workers or os.cpu_count() or 1, on_progress, cancel)
    skipped += [Skipped(family, reason) for family, reason in reasons.items() if reason]
    done = [task for task in tasks if task.rows.is_file() and not reasons.get(task.family)]
    if grouping is not None:
        done, unequal = _equal_within_settings(done, grouping)
        skipped += unequal
    if not done and not cancelled:
        raise UserError(
            f"no family could be studied. {skipped[0].family}: {skipped[0].reason}" if skipped else "no family could be studied."
        )
    result = _assemble(folder, done, skipped, grouping, config, cancelled)
    if not cancelled:
        save_study(result)
    return result


def _plan(
    files: Sequence[str | Path], folder: Path, config: StudyConfig, grouping: pd.DataFrame | None
) -> tuple[list[_Task], list[Skipped]]:
    tasks, skipped, seen = [], [], set()
    listed = None if grouping is None else set(grouping["family"])
    for family, path in zip(_family_names(files), map(Path, files), strict=True):
        if path.resolve() in seen:
            skipped.append(Skipped(family, f"{path.name} was given twice; it counts once."))
        elif not path.is_file():
            skipped.append(Skipped(family, f"{path} is not a file. Give the path of an .npz file."))
        elif listed is not None and family not in listed:
            skipped.append(Skipped(family, "the groups file has no line for it. Add one, or leave the file out."))
        else:
            seen.add(path.resolve())
            digest = _file_hash(path)
            key = json.dumps([_FORMAT, __version__, digest, config.to_dict()], sort_keys=True)
            mark = hashlib.sha256(key.encode()).hexdigest()[:16]
            tasks.append(_Task(family, path, digest, folder / "families" / f"{family}-{mark}.csv", config))
    return tasks, skipped


def _family_names(files: Sequence[str | Path]) -> list[str]:
    """A family is called by its file's stem; where stems repeat, the folder's name goes before."""
    stems = [Path(file).stem for file in files]
    count = Counter(stems)
    return [stem if count[stem] == 1 else f"{Path(file).resolve().parent.name}-{stem}" for stem, file in zip(stems, files, strict=True)]


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _run_task(task: _Task) -> str | None:
    """Study one family and leave its tables on disk; return the reason if it cannot take part."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # One thread a worker: cores are shared by families, and sums then do not depend on how many there are.
    with threadpool_limits(1):
        try:
            predictions = load_predictions(task.path)
            check_cohort(predictions, measure_truth(predictions, floor=task.config.floors[0]))
            rows = run_family(predictions, task.config, name=task.family)
            if not len(rows):
                raise UserError("no rule, label budget or memory budget applies to it. Lower the label budgets or raise the memory budget.")
            write_csv(describe_candidates(predictions, task.config, name=task.family), task.part("candidates"))
            write_csv(check_theory(predictions, name=task.family), task.part("attenuation"))
        except UserError as error:
            return str(error)
    write_csv(rows, task.rows)
    return None


def _run_all(
    tasks: Sequence[_Task], workers: int, on_progress: Progress | None, cancel: Callable[[], bool] | None
) -> tuple[dict[str, str | None], bool]:
    todo = [task for task in tasks if not task.rows.is_file()]
    reasons: dict[str, str | None] = {}
    done = len(tasks) - len(todo)
    if on_progress is not None:
        on_progress(done, len(tasks))
    for family, reason in _outcomes(todo, min(workers, len(todo)), cancel):
        reasons[family] = reason
        done += 1
        if on_progress is not None:
            on_progress(done, len(tasks))
    return reasons, len(reasons) < len(todo)


def _outcomes(todo: Sequence[_Task], workers: int, cancel: Callable[[], bool] | None) -> Iterator[tuple[str, str | None]]:
    """Yield (family, reason or None) as families finish; stop early when cancelled."""
    if workers <= 1 or multiprocessing.current_process().daemon:  # a daemonic process may not have children
        for task in todo:
            if cancel is not None and cancel():
                return
            yield task.family, _run_task(task)
        return
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures: dict[Future[str | None], str] = {pool.submit(_run_task, task): task.family for task in todo}
        waiting = set(futures)
        while waiting:
            finished, waiting = wait(waiting, timeout=_POLL, return_when=FIRST_COMPLETED)
            for future in (f for f in finished if not f.cancelled()):
                yield futures[future], _reason(future, futures[future])
            if cancel is not None and cancel():
                pool.shutdown(wait=True, cancel_futures=True)


def _reason(future: Future[str | None], family: str) -> str | None:
    try:
        return future.result()
    except BrokenProcessPool:
        raise UserError(
            f"a worker process ended while {family} or a family beside it ran, most likely for want of memory. Run again with --workers 1; finished families are kept."
        ) from None


def _equal_within_settings(done: Sequence[_Task], grouping: pd.DataFrame) -> tuple[list[_Task], list[Skipped]]:
    """A setting compares like with like: families whose K or M differ from the first of their setting are left out."""
    setting_of = dict(zip(grouping["family"], grouping["setting"], strict=True))
    first: dict[str, tuple[int, int, str]] = {}
    kept, skipped = [], []
    for task in done:
        table = read_csv(task.part("candidates"))
        shape, setting = (len(table), int(table["n_classes"].iloc[0])), setting_of[task.family]
        n_candidates, n_classes, example = first.setdefault(setting, (*shape, task.family))
        if shape == (n_candidates, n_classes):
            kept.append(task)
        else:
            reason = f"it has {shape[0]} candidates and {shape[1]} classes, {example} in the same setting {n_candidates} and {n_classes}. Give it another setting."
            skipped.append(Skipped(task.family, reason))
    return kept, skipped


def _assemble(
    folder: Path, done: Sequence[_Task], skipped: Sequence[Skipped], grouping: pd.DataFrame | None, config: StudyConfig, cancelled: bool
) -> StudyResult:
    families = [task.family for task in done]
    groups = one_group(families) if grouping is None else grouping[grouping["family"].isin(families)].reset_index(drop=True)
    metadata: dict[str, Any] = {
        "config": config.to_dict(),
        "seeds": _SEEDS,
        "files": {task.family: {"file": task.path.name, "sha256": task.digest} for task in done},
        "skipped": [{"family": entry.family, "reason": entry.reason} for entry in skipped],
        "versions": {
            "engine": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "pandas": pd.__version__,
        },
    }
    return StudyResult(
        folder,
        _together([task.rows for task in done], COLUMNS),
        _together([task.part("candidates") for task in done], CANDIDATE_COLUMNS),
        _together([task.part("attenuation") for task in done], ATTENUATION_COLUMNS),
        groups,
        tuple(skipped),
        metadata,
        cancelled,
    )


def _together(paths: Sequence[Path], columns: Sequence[str]) -> pd.DataFrame:
    tables = [table for table in map(read_csv, paths) if len(table)]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(columns))
