"""predict_family: candidates of every kind over the pool in one call; what needs calibration images is built
from the pool's own first, and all are timed.

Knows the order: prepare, build, judge, time. Each step is another module's business.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.deploy.calibration import Calibration, read_calibration
from engine.deploy.timing import time_family
from engine.deploy.workshop import Built, BuiltFile, Workshop
from engine.family.cost import admissible
from engine.family.families import split_family
from engine.family.kinds import AnyRecipe
from engine.family.model_file import ModelFile, Refusal, StandIn
from engine.predictions.gather import predict, reading
from engine.predictions.machine import available_cores
from engine.predictions.pixels import Pool, PoolOptions, prepare_pool
from engine.predictions.runner import ProgressReport
from engine.target import ImageSet
from engine.types import Predictions, Progress, Recipe, Teacher, UserError

OnProgress = Callable[[ProgressReport], None]


@dataclass(frozen=True)
class FamilyOptions:
    """What a run over a family of any kind may be told.

    `n_test` rows at the pool's end are held out later and never calibrated on; `budget` drops built
    candidates that turn out larger; `latency` times every candidate at the end.
    """

    n_test: int = 0
    budget: float | None = None
    latency: bool = False


AS_IT_IS = FamilyOptions()


def calibration_of(teacher: Teacher, pool: Pool, n_test: int = 0) -> Calibration:
    """Take the calibration images of a pool: from its leading half, as the predictions file will count it."""
    return read_calibration(teacher, pool.path, (pool.n_images - n_test) // 2)


def predict_family(
    teacher: Teacher | StandIn,
    recipes: Sequence[AnyRecipe],
    images: ImageSet,
    *,
    store: Path,
    family: FamilyOptions = AS_IT_IS,
    outside: Sequence[ModelFile] = (),
    **run: Any,
) -> Predictions:
    """Judge recipes of every kind; `run` is passed on to `predict`, which see.

    `outside` are files that other tools made; they come first, and are not timed. A family of weight-only
    recipes and such files without latency is `predict` and nothing else. Raises UserError if there are
    too few images to calibrate on, or as `predict` does.
    """
    weights, tailored = split_family(recipes)
    if isinstance(teacher, StandIn) or (not tailored and not family.latency):
        return predict(teacher, [*outside, *weights], images, store=store, **run)
    started = time.monotonic()
    stop = _stop(run.get("cancel"), run.get("time_budget"), started)
    calibration = _calibration(teacher, images, store, family, run)
    workshop = Workshop(calibration, store, run.get("on_progress"))
    with _meanwhile(teacher, weights, images, store, run, stop):
        built = _within(workshop.build(tailored, stop), teacher, family.budget)
    files = {file.model.name: file for file in built.files}
    judged = [r if isinstance(r, Recipe) else files[r.slug].model for r in recipes if _is_there(r, files)]
    if run.get("time_budget") is not None:
        run = {**run, "time_budget": max(1.0, run["time_budget"] - (time.monotonic() - started))}
    refused = [*run.pop("refused", ()), *built.refused]
    result = predict(teacher, [*outside, *judged], images, store=store, refused=refused, **run)
    result = _described(result, teacher, built)
    if not family.latency:
        return result
    return _timed(result, calibration, recipes, files, run)


@contextmanager
def _meanwhile(
    teacher: Teacher,
    weights: Sequence[Recipe],
    images: ImageSet,
    store: Path,
    run: Mapping[str, Any],
    stop: Callable[[], bool],
) -> Iterator[None]:
    """Judge weight-only recipes beside the building, which keeps one core busy, until it is done. The run
    after it finds them in the store; what it finds amiss, it says itself.
    """
    alone = run.get("workers") == 1 or available_cores() == 1
    if not weights or alone or run.get("ray") or run.get("give_up_hopeless"):
        yield
        return
    done = threading.Event()
    quiet = {**run, "on_progress": None, "refused": (), "time_budget": None, "workers": 1}

    def judge() -> None:
        with suppress(UserError):
            predict(
                teacher,
                weights,
                images,
                store=store,
                **{**quiet, "cancel": lambda: done.is_set() or stop()},
            )

    thread = threading.Thread(target=judge)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _is_there(recipe: AnyRecipe, files: dict[str, BuiltFile]) -> bool:
    return isinstance(recipe, Recipe) or recipe.slug in files


def _stop(cancel: Callable[[], bool] | None, time_budget: float | None, started: float) -> Callable[[], bool]:
    def stop() -> bool:
        late = time_budget is not None and time.monotonic() - started > time_budget
        return late or (cancel is not None and cancel())

    return stop


def _calibration(
    teacher: Teacher, images: ImageSet, store: Path, family: FamilyOptions, run: dict[str, Any]
) -> Calibration:
    options = replace(run.get("options") or PoolOptions(), skip_corrupt=run.get("skip_corrupt", False))
    pool = prepare_pool(
        images,
        teacher.preprocessing,
        store,
        options,
        on_progress=reading(run.get("on_progress")),
        cancel=run.get("cancel"),
    )
    return calibration_of(teacher, pool, family.n_test)


def _within(built: Built, teacher: Teacher, budget: float | None) -> Built:
    """Drop what turned out larger than the budget."""
    if not built.files:
        return built
    shares = np.array([file.weight_bytes / teacher.float_bytes for file in built.files])
    fits = admissible(shares, budget)
    over = [
        Refusal(file.model.name, f"it takes {share:.1%} of the float memory, more than the budget")
        for file, share, fit in zip(built.files, shares, fits, strict=True)
        if not fit
    ]
    kept = tuple(file for file, fit in zip(built.files, fits, strict=True) if fit)
    return Built(kept, (*built.refused, *over))


def _described(result: Predictions, teacher: Teacher, built: Built) -> Predictions:
    """Add what tailored candidates cost at their true width, and the bits per layer of mixed ones."""
    shares = {file.model.name: file.weight_bytes / teacher.float_bytes for file in built.files}
    assert result.cost is not None
    cost = np.array(
        [shares.get(name, own) for name, own in zip(result.names, result.cost, strict=True)], np.float64
    )
    bits = {name: found for name, found in built.allocations().items() if name in result.names}
    return replace(result, cost=cost, allocation=json.dumps(bits) if bits else None)


def _timed(
    result: Predictions,
    calibration: Calibration,
    recipes: Sequence[AnyRecipe],
    files: dict[str, BuiltFile],
    run: dict[str, Any],
) -> Predictions:
    by_name = {recipe.slug: recipe for recipe in recipes}
    ordered = [by_name[name] for name in result.names if name in by_name]
    found = time_family(calibration, ordered, files, _timing(run.get("on_progress")), run.get("cancel"))
    outside = np.full(len(result.names) - len(ordered), np.nan)  # they come first, and are not timed
    return replace(
        result,
        latency=np.concatenate([outside, found.shipped]),
        latency_spread=np.concatenate([outside, found.spread]),
        latency_unpacked=np.concatenate([outside, found.unpacked]),
    )


def _timing(on_progress: OnProgress | None) -> Progress | None:
    if on_progress is None:
        return None
    report = on_progress

    def tell(done: int, total: int) -> None:
        report(
            ProgressReport(
                done=done, total=total, images_per_second=0.0, seconds_left=None, stage="timing candidates"
            )
        )

    return tell
