"""Before the run: images prepared once for every way they are taken, and a folder for every result.

Knows what could change a number and makes it part of a folder's name. Runs no model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import onnxruntime as ort

from engine.family.model_file import ModelFile, StandIn
from engine.family.quantize import QUANTIZER_VERSION
from engine.foreign.session import runtime_version
from engine.predictions.job import FileTask, Job, Part, batch_size, run_name, without_kernels
from engine.predictions.pixels import Pool, PoolOptions, prepare_pool
from engine.predictions.store import make_folder, store_key
from engine.target import ImageSet
from engine.types import Preprocessing, Progress, Recipe, Teacher, UserError

_VERSION = "2"  # raise it when running a model changes a probability
_FILE_VERSION = "1"  # the same for model files

# the pool and, for a study, the test set; one each for every way the images are prepared
Pools = dict[Preprocessing, tuple[Pool, ...]]


def prepare_pools(
    ways: Iterable[Preprocessing],
    sets: Sequence[ImageSet],
    store: Path,
    options: PoolOptions,
    *,
    on_progress: Progress | None = None,
    cancel: Callable[[], bool] | None = None,
) -> Pools:
    """Prepare every set of images once for each distinct preprocessing, in one order for all."""
    return {
        way: tuple(
            prepare_pool(images, way, store, options, on_progress=on_progress, cancel=cancel)
            for images in sets
        )
        for way in dict.fromkeys(ways)
    }


def ways_of(teacher: Teacher | StandIn, candidates: Sequence[Recipe | ModelFile]) -> list[Preprocessing]:
    """Return how images are prepared for each model of a run, the teacher's way first."""
    own = [teacher.preprocessing] if isinstance(teacher, Teacher) else []
    return own + [model.input.preprocessing for model in candidates if isinstance(model, ModelFile)]


def check_names(candidates: Sequence[Recipe | ModelFile]) -> None:
    """Raise UserError if two candidates share a name, or there is none."""
    names = [candidate.slug for candidate in candidates]
    if not names:
        raise UserError("there is no candidate to judge. Give recipes, or files that can be judged.")
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise UserError(f"two candidates are called {repeated!r}. Rename one of the files.")


def make_job(
    teacher: Teacher | StandIn,
    candidates: Sequence[Recipe | ModelFile],
    pools: Pools,
    store: Path,
    n_raced: int,
) -> Job:
    """Give every model and part a folder whose name depends on all that could change a result."""
    recipes = [candidate for candidate in candidates if isinstance(candidate, Recipe)]
    parent = teacher if isinstance(teacher, Teacher) else None
    return Job(
        teacher=parent,
        graph=b"" if parent is None else without_kernels(parent.graph, parent.kernels),
        parts=() if parent is None else _teacher_parts(parent, pools[parent.preprocessing], store),
        levels=tuple(sorted({recipe.percentile for recipe in recipes})),
        n_classes=teacher.n_classes,
        files={
            run_name(model): FileTask(model, _file_parts(model, pools[model.input.preprocessing], store))
            for model in candidates
            if isinstance(model, ModelFile)
        },
        n_raced=n_raced,
    )


def _teacher_parts(teacher: Teacher, pools: Sequence[Pool], store: Path) -> tuple[Part, ...]:
    key = {
        "teacher": teacher.fingerprint,
        "preprocessing": teacher.preprocessing.to_json(),
        "quantizer": QUANTIZER_VERSION,
        "runner": _VERSION,
        "onnxruntime": ort.__version__,
        "batch": batch_size(teacher.preprocessing),
    }
    return _parts(key, pools, store)


def _file_parts(model: ModelFile, pools: Sequence[Pool], store: Path) -> tuple[Part, ...]:
    taken, given = model.input, model.output
    key = {
        "file": model.sha256,
        "runtime": runtime_version(model.runtime),
        "input": [taken.name, taken.preprocessing.to_json(), taken.dtype, taken.scale, taken.zero_point],
        "output": [given.name, given.kind, given.n_classes, given.dtype, given.scale, given.zero_point],
        "batch": [taken.batch, batch_size(taken.preprocessing)],
        "runner": _FILE_VERSION,
        **({"unpacked": True} if model.unpacked else {}),
    }
    return _parts(key, pools, store)


def _parts(key: Mapping[str, object], pools: Sequence[Pool], store: Path) -> tuple[Part, ...]:
    return tuple(
        Part(
            pool.path,
            make_folder(store / "predictions" / store_key({**key, "pool": pool.key})),
            pool.n_images,
        )
        for pool in pools
    )
