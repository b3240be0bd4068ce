"""What a process needs to judge members of a family, and where the results go. Knows folders and names, runs
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.family.model_file import ModelFile
from engine.predictions.stack import Shard
from engine.predictions.store import is_intact, locate_array, read_array
from engine.types import Kernel, Preprocessing, Recipe, Teacher

TEACHER = "teacher"  # the teacher's name in the store, beside candidate slugs
FILE_PREFIX = "file:"  # before the name of a file in a run: a file may be called `teacher`

_BATCH_PIXELS = 2 * 224 * 224


@dataclass(frozen=True)
class Part:
    """A set of prepared images (the pool, or a study's test set) and the folder its results go to."""

    pixels: Path
    folder: Path
    n_images: int

    def result(self, name: str) -> Path:
        """Return where the probabilities of a model are stored."""
        return self.folder / f"{'probs' if name.startswith(FILE_PREFIX) else name}.npy"


@dataclass(frozen=True)
class FileTask:
    """A model file and its own parts: pixels as this file takes them, a folder for its results alone."""

    model: ModelFile
    parts: tuple[Part, ...]


@dataclass(frozen=True, eq=False)
class Job:
    """Everything a process needs to judge any member of a family, and where to leave the results.

    `teacher`, its `graph` (`without_kernels`) and its `parts` are absent where files are judged without a
    parent.
    """

    teacher: Teacher | None
    graph: bytes
    parts: tuple[Part, ...]
    levels: tuple[float, ...]  # clip percentiles that occur in the family
    n_classes: int
    files: Mapping[str, FileTask] = field(default_factory=dict)  # by name in the run
    # candidates that compete when hopeless ones are given up early; 0: all are judged to the end
    n_raced: int = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many images each part has; the same for every model."""
        parts = self.parts or next(iter(self.files.values())).parts
        return tuple(part.n_images for part in parts)

    @property
    def n_images(self) -> int:
        return sum(self.sizes)

    def parts_of(self, name: str) -> tuple[Part, ...]:
        """Return the parts a model is judged on: its own for a file, the teacher's for all others."""
        return self.files[name].parts if name in self.files else self.parts

    def is_done(self, name: str) -> bool:
        """Say whether a model's results are stored, complete and unaltered, on every part."""
        return all(is_intact(part.result(name)) for part in self.parts_of(name))

    def stored(self, name: str, part: Part) -> NDArray[np.float32] | None:
        """Return a model's finished probabilities (N, K) on a part, or None if they have to be computed."""
        return read_array(part.result(name), (part.n_images, self.n_classes))

    def shard(self, name: str, part: Part) -> Shard | None:
        """Return where a model's finished probabilities lie on disk, or None if they have to be computed."""
        path = part.result(name)
        offset = locate_array(path, (part.n_images, self.n_classes))
        return None if offset is None else Shard(path, offset)


def run_name(candidate: Recipe | ModelFile) -> str:
    """Return a candidate's name in a run: a recipe's slug, or a file's name marked as one."""
    return candidate.slug if isinstance(candidate, Recipe) else FILE_PREFIX + candidate.name


def batch_size(preprocessing: Preprocessing) -> int:
    """Return how many images run at once: a power of two, 2 at 224 x 224: larger batches leave the
    processor's cache and run slower.
    """
    wanted = _BATCH_PIXELS / (preprocessing.height * preprocessing.width)
    return 1 << min(8, max(0, round(math.log2(wanted))))


def without_kernels(graph: bytes, kernels: Sequence[Kernel]) -> bytes:
    """Return the graph with every kernel's values taken out and declared external, to be given when a session
    is built.

    This is the one way to swap weights that happens BEFORE onnxruntime optimises the graph. Its
    `add_initializer` happens after: the folded BatchNorm and the reordered kernels would still be the
    teacher's.
    """
    import onnx  # workers do without it

    model = onnx.ModelProto.FromString(graph)
    names = {kernel.name for kernel in kernels}
    for tensor in model.graph.initializer:
        if tensor.name in names:
            n_bytes = 4 * math.prod(tensor.dims)
            tensor.ClearField("raw_data")
            tensor.ClearField("float_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (("location", "kernels"), ("offset", "0"), ("length", str(n_bytes))):
                tensor.external_data.add(key=key, value=value)
    content: bytes = model.SerializeToString()
    return content
