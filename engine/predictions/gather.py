"""predict: prepare the pool, run what is not in the store yet, and gather the result. The one entry point of
this package.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from engine.family.model_file import ModelFile, Refusal, StandIn
from engine.family.weights import check_family
from engine.predictions.collect import check_some_ran, collect, with_missing
from engine.predictions.job import TEACHER, Job, run_name
from engine.predictions.machine import available_cores, available_memory
from engine.predictions.memory import peak_memory_estimate
from engine.predictions.pixels import Pool, PoolOptions
from engine.predictions.planning import check_names, make_job, prepare_pools, ways_of
from engine.predictions.runner import ProgressReport, Watch, run_models
from engine.target import ImageSet
from engine.types import UNLABELED, Ints, Predictions, Progress, Recipe, Teacher, UserError

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
    teacher: Teacher | StandIn,
    candidates: Sequence[Recipe | ModelFile],
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
    refused: Sequence[Refusal] = (),
    ray: str | None = None,
) -> Predictions:
    """Run the teacher and every candidate over the images; resume from the store what an earlier run
    finished.

    Candidates are recipes, made from the teacher's weights, and model files, run as they are in their own
    runtime and with their own preprocessing. A `StandIn` takes the place of a teacher that nobody has.
    labels (N,) belong to the images in the order of the ImageSet, -1 = unlabeled; they are carried along into
    pool order and never used here. `workers` processes of one thread each (default: all cores, as memory
    allows) do not change a byte of the result. When `cancel` says True or `time_budget` seconds are over,
    what is finished is returned and the rest is listed in `missing`. `test` adds a labeled test part for
    studies. `options` sets the pool's order (see `PoolOptions`). `give_up_hopeless` ends candidates that are
    certainly farther from the teacher than guessing (see `HopelessTest`) after a few images: they are missing
    too, the rest is unchanged. `refused` files, which could not even be described, are listed as missing with
    their reasons. `ray` runs the models on the Ray cluster at that address (or `local`) instead, with the
    same bytes as result. Raises UserError if the input is at fault, or if it was stopped before the teacher
    and one candidate were done.
    """
    deadline = None if time_budget is None else time.monotonic() + time_budget
    _check_family(teacher, candidates, give_up_hopeless)
    stop = Watch(0, 0, cancel=cancel, deadline=deadline).stop
    settings = replace(options or PoolOptions(), skip_corrupt=skip_corrupt)
    sets = [images] if test is None else [images, test[0]]
    ways = ways_of(teacher, candidates)
    pools = prepare_pools(ways, sets, store, settings, on_progress=reading(on_progress), cancel=stop)
    job = make_job(teacher, candidates, pools, store, len(candidates) if give_up_hopeless else 0)
    names = _running_names(teacher, candidates)
    waiting = [name for name in names if not job.is_done(name)]
    done = (len(names) - len(waiting)) * job.n_images
    stage = f"running {len(candidates)} candidates"
    watch = Watch(
        total=len(names) * job.n_images,
        done=done,
        on_progress=on_progress,
        cancel=cancel,
        deadline=deadline,
        stage=stage,
    )
    if ray is None:
        run_models(job, waiting, workers or _default_workers(job, len(candidates)), watch)
    else:
        from engine.predictions.ray_run import run_on_ray

        run_on_ray(job, waiting, ray, store, watch)
    given = [labels if labels is not None else images.labels, None if test is None else test[1]]
    own = pools[ways[0]]
    ordered = [
        labels_in_pool_order(some, pool, teacher.n_classes) for some, pool in zip(given, own, strict=False)
    ]
    check_some_ran(candidates, watch.failures)
    result = collect(job, teacher, candidates, ordered, own[0].files)
    return with_missing(result, candidates, watch.failures, refused)


def _check_family(
    teacher: Teacher | StandIn, candidates: Sequence[Recipe | ModelFile], give_up_hopeless: bool
) -> None:
    check_names(candidates)
    recipes = [candidate for candidate in candidates if isinstance(candidate, Recipe)]
    if isinstance(teacher, Teacher):
        check_family(teacher, recipes)
        return
    if recipes:
        raise UserError(
            f"{recipes[0].slug} is made from a float teacher, and there is none. Give the float model, or"
            " judge files alone."
        )
    if give_up_hopeless:
        raise UserError(
            "giving up hopeless candidates compares them with a float teacher, and there is none. Judge all"
            " of them."
        )


def _running_names(teacher: Teacher | StandIn, candidates: Sequence[Recipe | ModelFile]) -> list[str]:
    """Return the models' names in the order they run: the teacher, files, recipes."""
    files = [run_name(model) for model in candidates if isinstance(model, ModelFile)]
    recipes = running_order([recipe for recipe in candidates if isinstance(recipe, Recipe)])
    first = [TEACHER] if isinstance(teacher, Teacher) else []
    return [*first, *files, *(recipe.slug for recipe in recipes)]


def reading(on_progress: Callable[[ProgressReport], None] | None) -> Progress | None:
    """Return a callback for `prepare_pool` that reports through the callback of `predict`."""
    if on_progress is None:
        return None
    report, started = on_progress, time.monotonic()

    def read(done: int, total: int) -> None:
        rate = done / max(time.monotonic() - started, 1e-9)
        report(
            ProgressReport(
                done=done,
                total=total,
                images_per_second=rate,
                seconds_left=(total - done) / rate,
                stage="reading images",
            )
        )

    return read


def _default_workers(job: Job, n_candidates: int) -> int:
    """Return one worker a core, or as many as the free memory holds."""
    free, largest = available_memory(), max((task.model.n_bytes for task in job.files.values()), default=0)
    if free is None or job.teacher is None:
        return available_cores()
    alone, two = (peak_memory_estimate(job.teacher, job.n_images, n_candidates, n, largest) for n in (1, 2))
    return max(1, min(available_cores(), int((free - alone) // (two - alone)) + 1))


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
