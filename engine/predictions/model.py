"""One model over the pool: build its onnxruntime session with swapped weights, run fixed batches, return
probabilities.

Knows sessions and batches. One thread and fixed batch borders make the bytes the same whoever runs it, and
however often.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from engine.family.quantize import Percentiles
from engine.family.recipes import parse_slug
from engine.family.weights import candidate_weights
from engine.predictions.pruning import HopelessTest
from engine.predictions.store import is_intact, read_array, write_array
from engine.target import normalise
from engine.types import Floats, Kernel, Preprocessing, Teacher, UserError

TEACHER = "teacher"  # the teacher's name in the store, beside candidate slugs

_BATCH_PIXELS = 2 * 224 * 224


class UnusableModelError(Exception):
    """A model cannot or need not be judged to the end; the message says which and why, `n_left` how many
    images were left.
    """

    def __init__(self, reason: str, n_left: int) -> None:
        super().__init__(reason)
        self.n_left = n_left


@dataclass(frozen=True)
class Part:
    """A set of prepared images (the pool, or a study's test set) and the folder its results go to."""

    pixels: Path
    folder: Path
    n_images: int

    def result(self, name: str) -> Path:
        """Return where the probabilities of a model are stored."""
        return self.folder / f"{name}.npy"


@dataclass(frozen=True, eq=False)
class Job:
    """Everything a process needs to judge any member of a family, and where to leave the results."""

    teacher: Teacher
    graph: bytes  # the teacher's, `without_kernels`
    parts: tuple[Part, ...]
    levels: tuple[float, ...]  # clip percentiles that occur in the family
    n_raced: int = (
        0  # candidates that compete when hopeless ones are given up early; 0: all are judged to the end
    )

    @property
    def n_images(self) -> int:
        return sum(part.n_images for part in self.parts)

    def is_done(self, name: str) -> bool:
        """Say whether a model's results are stored, complete and unaltered, on every part."""
        return all(is_intact(part.result(name)) for part in self.parts)

    def stored(self, name: str, part: Part) -> NDArray[np.float32] | None:
        """Return a model's finished probabilities (N, K) on a part, or None if they have to be computed."""
        return read_array(part.result(name), (part.n_images, self.teacher.n_classes))


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


class Session:
    """A one-thread onnxruntime session of a graph `without_kernels`, with all its kernels given here.

    Full optimisation folds BatchNorm into these very kernels at load.
    """

    def __init__(self, graph: bytes, kernels: Mapping[str, NDArray[np.float32]]) -> None:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # onnxruntime borrows these arrays' memory: they must live as long as the session
        self._kernels = {
            name: ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
            for name, array in kernels.items()
        }
        options.add_external_initializers(list(self._kernels), list(self._kernels.values()))
        self._session = ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self._input = self._session.get_inputs()[0].name

    def outputs(self, images: NDArray[np.float32]) -> NDArray[Any]:
        """Return the model's raw outputs for a batch of normalised images; raise UserError if it does not
        take their shape.
        """
        try:
            result: NDArray[Any] = self._session.run(None, {self._input: images})[0]
        except InvalidArgument:
            wanted = self._session.get_inputs()[0].shape
            raise UserError(
                f"the model takes inputs of shape {wanted}, the preprocessing gives {images.shape}. Correct"
                " the input size."
            ) from None
        return result


def probabilities(outputs: NDArray[Any], kind: str) -> NDArray[np.float32]:
    """Return float32 probabilities (batch, K): a stable softmax in float64 of logits, or the outputs as they
    are.
    """
    if kind == "probabilities":
        return outputs.astype(np.float32, copy=False)
    shifted = outputs.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    np.exp(shifted, out=shifted)
    shifted /= shifted.sum(axis=1, keepdims=True)
    return shifted.astype(np.float32)


class Judge:
    """Runs members of one family, sharing what they have in common: the clip thresholds of the teacher's
    kernels.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self._kernels = {name: np.asarray(array, np.float32) for name, array in job.teacher.weights.items()}
        self._percentiles = Percentiles(job.teacher.weights, job.levels)

    def session(self, name: str) -> Session:
        """Build the session of the teacher or of a candidate, by name."""
        changed = (
            {}
            if name == TEACHER
            else candidate_weights(self.job.teacher, parse_slug(name), self._percentiles)
        )
        return Session(self.job.graph, {**self._kernels, **changed})

    def judge(self, name: str, stop: Callable[[], bool], on_batch: Callable[[int], None]) -> bool:
        """Run one model on every part that has no result yet and store the results; say False if told to stop
        before the end.

        `on_batch` gets the number of images after each batch. Raises UnusableModelError if the model yields
        nan or infinity or is hopeless, UserError if its output is not (batch, K).
        """
        session = self.session(name)
        for part in self.job.parts:
            if self.job.stored(name, part) is None:
                result = self._run(session, name, part, stop, on_batch)
                if result is None:
                    return False
                write_array(part.result(name), result)
        return True

    def rehearse(self) -> float:
        """Return about how many seconds one model takes, from building the teacher's session and running its
        first batch.
        """
        part, p = self.job.parts[0], self.job.teacher.preprocessing
        started = time.perf_counter()
        session = self.session(TEACHER)
        built = time.perf_counter()
        first: NDArray[Any] = np.load(part.pixels, mmap_mode="r", allow_pickle=False)[: batch_size(p)]
        session.outputs(normalise(first, p))
        return built - started + (time.perf_counter() - built) * self.job.n_images / len(first)

    def _run(
        self,
        session: Session,
        name: str,
        part: Part,
        stop: Callable[[], bool],
        on_batch: Callable[[int], None],
    ) -> NDArray[np.float32] | None:
        teacher = self.job.teacher
        pixels: NDArray[Any] = np.load(part.pixels, mmap_mode="r", allow_pickle=False)
        result = np.empty((part.n_images, teacher.n_classes), np.float32)
        race = self._race(name, part)
        step = batch_size(teacher.preprocessing)
        buffer = np.empty((step, *pixels.shape[1:]), np.float32)
        for start in range(0, part.n_images, step):
            if stop():
                return None
            rows = slice(start, start + step)
            outputs = session.outputs(normalise(pixels[rows], teacher.preprocessing, buffer))
            self._check(outputs, len(pixels[rows]), name)
            if not np.isfinite(outputs).all():
                raise UnusableModelError(
                    f"{name} returns nan or infinity within rows {start} to {start + len(outputs)}",
                    part.n_images - start,
                )
            result[rows] = probabilities(outputs, teacher.output)
            on_batch(len(outputs))
            if race is not None and race(rows, result[rows]):
                done = start + len(outputs)
                raise UnusableModelError(
                    f"{name} given up after {done} images: farther from the teacher than guessing",
                    part.n_images - done,
                )
        return result

    def _race(self, name: str, part: Part) -> Callable[[slice, Floats], bool] | None:
        """Return the test that may end this model's run early, if there is one: never for the teacher or a
        test set.
        """
        teacher = (
            None
            if name == TEACHER or not self.job.n_raced or part is not self.job.parts[0]
            else self.job.stored(TEACHER, part)
        )
        if teacher is None:
            return None
        test, reference = HopelessTest(self.job.n_raced, self.job.teacher.n_classes), teacher
        return lambda rows, probs: test.is_hopeless(reference[rows], probs)

    def _check(self, outputs: NDArray[Any], n: int, name: str) -> None:
        if outputs.shape != (n, self.job.teacher.n_classes):
            raise UserError(
                f"{name} returns shape {outputs.shape} for {n} images; one row of"
                f" {self.job.teacher.n_classes} classes each is needed. Give the class names that belong to"
                " this model."
            )
