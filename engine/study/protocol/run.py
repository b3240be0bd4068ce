"""Run a study over many predictions files: in parallel, one family at a time per worker, resumable and
atomic.

Knows files, processes and groups. The protocol on one family lives in `engine.study.protocol.one_family`.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy

from engine import __version__
from engine.study.protocol.candidates import ATTENUATION_COLUMNS, CANDIDATE_COLUMNS
from engine.study.protocol.config import StudyConfig
from engine.study.protocol.family_task import run_task
from engine.study.protocol.groups import one_group, read_groups
from engine.study.protocol.one_family import COLUMNS
from engine.study.protocol.plan import Task, plan
from engine.study.protocol.result import Skipped, StudyResult, read_csv, save_study
from engine.types import Progress, UserError

_SEEDS = {
    "subset": "PCG64(100000 + 7919*n + repetition).choice",
    "corruption": "PCG64(9500 + round(100*rate) + repetition)",
    "permutation": "PCG64(200000 + 7919*n + repetition).permutation",
    "subsample anchor": "PCG64(300000 + 7919*n + repetition).choice",
}
_POLL = 0.2  # seconds between looks at `cancel`


def run_study(
    files: Sequence[str | Path],
    out: str | Path,
    config: StudyConfig | None = None,
    *,
    groups: str | Path | None = None,
    workers: int | None = None,
    ray: str | None = None,
    on_progress: Progress | None = None,
    cancel: Callable[[], bool] | None = None,
) -> StudyResult:
    """Run the protocol on every file and write the study to the folder `out`.

    Families that were finished by an earlier, interrupted run with the same files and config are taken up as
    they are. A family that cannot take part is skipped with its reason; the rest runs. `on_progress` counts
    families; when `cancel` says True the families under way are finished and what there is comes back, with
    `cancelled` set and no results.csv. `ray` studies cells of families on the Ray cluster at that address (or
    `local`) instead of `workers` processes; the tables are the same. Raises UserError if no family is left.
    """
    config, folder = config or StudyConfig(), Path(out)
    if not files:
        raise UserError(
            "a study needs at least one predictions file and got none. Give .npz files with a test part."
        )
    grouping = read_groups(groups) if groups is not None else None
    tasks, skipped = plan(files, folder, config, grouping)
    todo = [task for task in tasks if not task.rows.is_file()]
    if ray is None:
        outcomes = _outcomes(todo, min(workers or os.cpu_count() or 1, len(todo)), cancel)
    else:
        from engine.study.protocol.ray_study import outcomes_on_ray

        outcomes = outcomes_on_ray(todo, ray, cancel)
    reasons = _counted(outcomes, len(tasks) - len(todo), len(tasks), on_progress)
    cancelled = len(reasons) < len(todo)
    skipped += [Skipped(family, reason) for family, reason in reasons.items() if reason]
    done = [task for task in tasks if task.rows.is_file() and not reasons.get(task.family)]
    if grouping is not None:
        done, unequal = _equal_within_settings(done, grouping)
        skipped += unequal
    if not done and not cancelled:
        raise UserError(
            f"no family could be studied. {skipped[0].family}: {skipped[0].reason}"
            if skipped
            else "no family could be studied."
        )
    result = _assemble(folder, done, skipped, grouping, config, cancelled)
    if not cancelled:
        save_study(result)
    return result


def _counted(
    outcomes: Iterator[tuple[str, str | None]], done: int, total: int, on_progress: Progress | None
) -> dict[str, str | None]:
    """Return the reason (or None) of every family that was run now, reporting each."""
    reasons: dict[str, str | None] = {}
    if on_progress is not None:
        on_progress(done, total)
    for family, reason in outcomes:
        reasons[family] = reason
        if on_progress is not None:
            on_progress(done + len(reasons), total)
    return reasons


def _outcomes(
    todo: Sequence[Task], workers: int, cancel: Callable[[], bool] | None
) -> Iterator[tuple[str, str | None]]:
    """Yield (family, reason or None) as families finish; stop early when cancelled."""
    if workers <= 1 or multiprocessing.current_process().daemon:  # a daemonic process may not have children
        for task in todo:
            if cancel is not None and cancel():
                return
            yield task.family, run_task(task)
        return
    waiting, running = list(reversed(todo)), dict[Future[str | None], str]()
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        while waiting or running:
            if cancel is not None and cancel():
                waiting.clear()
            # No more than one family per worker is handed out, so that a cancelled study ends with those
            # under way.
            while waiting and len(running) < workers:
                task = waiting.pop()
                running[pool.submit(run_task, task)] = task.family
            finished, _ = wait(running, timeout=_POLL, return_when=FIRST_COMPLETED)
            for future in finished:
                family = running.pop(future)
                yield family, _reason(future, family)


def _reason(future: Future[str | None], family: str) -> str | None:
    try:
        return future.result()
    except BrokenProcessPool:
        raise UserError(
            f"a worker process ended while {family} or a family beside it ran, most likely for want of"
            " memory.",
            "Run again with one worker; finished families are kept.",
            option="workers",
        ) from None


def _equal_within_settings(done: Sequence[Task], grouping: pd.DataFrame) -> tuple[list[Task], list[Skipped]]:
    """A setting compares like with like: families whose K or M differ from the first of their setting are
    left out.
    """
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
            reason = (
                f"it has {shape[0]} candidates and {shape[1]} classes, {example} in the same setting"
                f" {n_candidates} and {n_classes}. Give it another setting."
            )
            skipped.append(Skipped(task.family, reason))
    return kept, skipped


def _assemble(
    folder: Path,
    done: Sequence[Task],
    skipped: Sequence[Skipped],
    grouping: pd.DataFrame | None,
    config: StudyConfig,
    cancelled: bool,
) -> StudyResult:
    families = [task.family for task in done]
    groups = (
        one_group(families)
        if grouping is None
        else grouping[grouping["family"].isin(families)].reset_index(drop=True)
    )
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
        out=folder,
        results=_together([task.rows for task in done], COLUMNS),
        candidates=_together([task.part("candidates") for task in done], CANDIDATE_COLUMNS),
        attenuation=_together([task.part("attenuation") for task in done], ATTENUATION_COLUMNS),
        groups=groups,
        skipped=tuple(skipped),
        metadata=metadata,
        cancelled=cancelled,
    )


def _together(paths: Sequence[Path], columns: Sequence[str]) -> pd.DataFrame:
    tables = [table for table in map(read_csv, paths) if len(table)]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(columns))
