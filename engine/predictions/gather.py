"""predict: prepare the pool, run what is not in the store yet, and gather the result. The one entry point of
this package.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from engine.family.cost import costs
from engine.family.quantize import QUANTIZER_VERSION
from engine.family.weights import check_family
from engine.predictions.machine import available_cores, available_memory
from engine.predictions.memory import peak_memory_estimate
from engine.predictions.model import TEACHER, Job, Part, batch_size, without_kernels
from engine.predictions.pixels import Pool, PoolOptions, prepare_pool
from engine.predictions.runner import ProgressReport, Watch, run_models
from engine.predictions.store import make_folder, store_key
from engine.target import ImageSet
from engine.types import UNLABELED, Ints, Predictions, Progress, Recipe, Teacher, UserError

_VERSION = "2"  # raise it when running a model changes a probability
# ends and middle of the range before the rest: a cut-off run still spans it
_BITS_FIRST = (
    8,
    4,
    6,
    5,
    3,
    2,
    7,
)


def running_order(recipes: Sequence[Recipe]) -> tuple[Recipe, ...]:
    """Return the recipes most informative first: per-channel, unclipped, all layers at every bit width, then
    the variations.
    """

    def rank(recipe: Recipe) -> tuple[int, float, int]:
        variations = (recipe.granularity == "tensor") + (recipe.percentile < 100) + recipe.float_ends
        return variations, -recipe.percentile, _BITS_FIRST.index(recipe.bits)

    return tuple(sorted(recipes, key=rank))


def predict(
    teacher: Teacher,
    recipes: Sequence[Recipe],
    images: ImageSet,
    *,
    store: Path,
    labels: Ints | None = None,
    workers: int | None = None,
    on_progress: Callable[[ProgressReport], None] | None = None,
    cancel: Callable[[], bool] | None = None,
    time_budget: float | None = None,
    skip_corrupt: bool = False,
    test: tuple[ImageSet, Ints] | None = None,
    options: PoolOptions | None = None,
    give_up_hopeless: bool = False,
) -> Predictions:
    """Run the teacher and every candidate over the images; resume from the store what an earlier run
    finished.

    labels (N,) belong to the images in the order of the ImageSet, -1 = unlabeled; they are carried along into
    pool order and never used here. `workers` processes of one thread each (default: all cores, as memory
    allows) do not change a byte of the result. When `cancel` says True or `time_budget` seconds are over,
    what is finished is returned and the rest is listed in `missing`. `test` adds a labeled test part for
    studies. `options` sets the pool's order (see `PoolOptions`). `give_up_hopeless` ends candidates that are
    certainly farther from the teacher than guessing (see `HopelessTest`) after a few images: they are missing
    too, the rest is unchanged. Raises UserError if the input is at fault, or if it was stopped before the
    teacher and one candidate were done.
    """
    deadline = None if time_budget is None else time.monotonic() + time_budget
    check_family(teacher, recipes)
    stop = Watch(0, 0, cancel=cancel, deadline=deadline).stop
    settings = replace(options or PoolOptions(), skip_corrupt=skip_corrupt)
    sets = [images] if test is None else [images, test[0]]
    pools = [
        prepare_pool(s, teacher.preprocessing, store, settings, on_progress=reading(on_progress), cancel=stop)
        for s in sets
    ]
    job = _make_job(teacher, recipes, pools, store, len(recipes) if give_up_hopeless else 0)
    names = [TEACHER, *(recipe.slug for recipe in running_order(recipes))]
    waiting = [name for name in names if not job.is_done(name)]
    done = (len(names) - len(waiting)) * job.n_images
    watch = Watch(
        len(names) * job.n_images, done, on_progress, cancel, deadline, f"running {len(recipes)} candidates"
    )
    run_models(job, waiting, workers or _default_workers(job, len(recipes)), watch)
    return _gather(
        job,
        recipes,
        pools,
        [labels if labels is not None else images.labels, None if test is None else test[1]],
    )


def reading(on_progress: Callable[[ProgressReport], None] | None) -> Progress | None:
    """Return a callback for `prepare_pool` that reports through the callback of `predict`."""
    if on_progress is None:
        return None
    report, started = on_progress, time.monotonic()

    def read(done: int, total: int) -> None:
        rate = done / max(time.monotonic() - started, 1e-9)
        report(ProgressReport(done, total, rate, (total - done) / rate, "reading images"))

    return read


def _make_job(
    teacher: Teacher, recipes: Sequence[Recipe], pools: Sequence[Pool], store: Path, n_raced: int
) -> Job:
    """Give every part a folder whose name depends on all that could change a result."""
    parts = []
    for pool in pools:
        key = {
            "teacher": teacher.fingerprint,
            "pool": pool.key,
            "quantizer": QUANTIZER_VERSION,
            "runner": _VERSION,
            "onnxruntime": ort.__version__,
            "batch": batch_size(teacher.preprocessing),
        }
        parts.append(Part(pool.path, make_folder(store / "predictions" / store_key(key)), pool.n_images))
    graph = without_kernels(teacher.graph, teacher.kernels)
    return Job(
        teacher, graph, tuple(parts), tuple(sorted({recipe.percentile for recipe in recipes})), n_raced
    )


def _default_workers(job: Job, n_candidates: int) -> int:
    """Return one worker a core, or as many as the free memory holds."""
    alone, two = (peak_memory_estimate(job.teacher, job.n_images, n_candidates, n) for n in (1, 2))
    free = available_memory()
    fitting = available_cores() if free is None else int((free - alone) // (two - alone)) + 1
    return max(1, min(available_cores(), fitting))


def _gather(
    job: Job, recipes: Sequence[Recipe], pools: Sequence[Pool], labels: Sequence[Ints | None]
) -> Predictions:
    """Collect finished results in family order; what is not finished on every part is missing."""
    from engine.predictions.file import make_predictions

    teachers = [job.stored(TEACHER, part) for part in job.parts]
    stacks = [
        np.empty((len(recipes), part.n_images, job.teacher.n_classes), np.float32) for part in job.parts
    ]
    finished: list[Recipe] = []
    for recipe in recipes:
        results = [job.stored(recipe.slug, part) for part in job.parts]
        if all(result is not None for result in results):
            for stack, result in zip(stacks, results, strict=True):
                stack[len(finished)] = result
            finished.append(recipe)
    if not finished or any(teacher is None for teacher in teachers):
        raise UserError(
            "stopped before the teacher and one candidate were done. What was finished is kept: run again"
            " with more time."
        )
    ordered = [
        labels_in_pool_order(given, pool, job.teacher.n_classes)
        for given, pool in zip(labels, pools, strict=False)
    ]
    optional: dict[str, Any] = {}
    if len(pools) == 2:
        optional = {
            "teacher_test": teachers[1],
            "candidates_test": stacks[1][: len(finished)],
            "labels_test": ordered[1],
        }
    assert teachers[0] is not None
    return make_predictions(
        teachers[0],
        stacks[0][: len(finished)],
        labels=ordered[0],
        names=[recipe.slug for recipe in finished],
        cost=costs(job.teacher, finished),
        class_names=job.teacher.class_names,
        files=pools[0].files,
        missing=[recipe.slug for recipe in recipes if recipe not in finished],
        **optional,
    )


def labels_in_pool_order(labels: Ints | None, pool: Pool, n_classes: int) -> Ints:
    """Return (N,) int64 labels of the pool's rows, from labels in the order of the ImageSet; -1 where
    unknown.

    Raises UserError if there are not as many labels as images, or one is no class.
    """
    if labels is None:
        return np.full(pool.n_images, UNLABELED, np.int64)
    array = np.asarray(labels, np.int64)
    if array.shape != (pool.n_source,):
        raise UserError(
            f"there are {pool.n_source} images and labels of shape {array.shape}. Give one label per image,"
            " -1 if unknown."
        )
    if array.size and not (array.min() >= UNLABELED and array.max() < n_classes):
        raise UserError(
            f"labels run from {array.min()} to {array.max()}; this teacher knows classes 0 to"
            f" {n_classes - 1}, and -1 for unknown."
        )
    ordered: Ints = array[pool.order]
    return ordered
