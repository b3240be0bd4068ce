"""One model over the pool: open its session, run fixed batches, return probabilities.

Knows sessions and batches, of candidates made by swapping weights and of files that are judged as they are.
One thread and fixed batch borders make the bytes the same whoever runs it, and however often.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.family.model_file import InputForm, ModelFile
from engine.family.quantize import Percentiles
from engine.family.recipes import parse_slug
from engine.family.weights import candidate_weights
from engine.foreign.feeding import Feed
from engine.foreign.session import FileSession
from engine.predictions.job import TEACHER, Job, Part, batch_size
from engine.predictions.pruning import HopelessTest
from engine.predictions.store import write_array
from engine.target import normalise
from engine.teacher.apart import Way, opened
from engine.teacher.reason import reason
from engine.teacher.runtime import FAILURES, excess
from engine.types import Floats, UserError

# images whose answers are checked and turned into probabilities at a time, a power of two: for one batch of
# large images, the calls would cost as much as half their pixels
_TOGETHER = 64
_LARGEST_SUM = 1.5  # of a row of probabilities: rounding to 8 bits loses far more than it adds


class UnusableModelError(Exception):
    """A model cannot or need not be judged to the end; the message says why, `n_left` how many images were
    left.
    """

    def __init__(self, reason: str, n_left: int) -> None:
        super().__init__(reason)
        self.n_left = n_left


class Session:
    """A one-thread onnxruntime session of a graph `without_kernels`, with all its kernels given here.

    Full optimisation folds BatchNorm into these very kernels at load.
    """

    def __init__(self, graph: bytes, kernels: Mapping[str, NDArray[np.float32]]) -> None:
        self._graph = graph
        try:
            self._run = opened(graph, Way(), kernels)
        except FAILURES as error:
            raise UserError(
                f"onnxruntime cannot load the model: {reason(error)}. Export the teacher with standard ONNX"
                " operators."
            ) from error

    def outputs(self, images: NDArray[np.float32]) -> NDArray[Any]:
        """Return the model's raw outputs for a batch of normalised images; raise UserError if it does not
        take their shape.
        """
        try:
            return self._run(None, images)[0]
        except FAILURES as error:
            if "INVALID_ARGUMENT" in str(error):
                raise UserError(
                    f"the model takes inputs of shape {_taken(self._graph)}, the preprocessing gives"
                    f" {images.shape}. Correct the input size."
                ) from None
            if what := excess(error):
                raise UserError(
                    f"the model asks for {what} on {len(images)} images of shape {images.shape[1:]}.",
                    "Give a smaller model; the host's limit is set by ANCHORPOINT_JUDGE_MEMORY_GB.",
                ) from None
            raise UserError(
                f"onnxruntime fails on {len(images)} images: {reason(error)}. Export the teacher with"
                " standard ONNX operators and a dynamic batch size."
            ) from error


def _taken(graph: bytes) -> tuple[int | None, ...]:
    from onnx import ModelProto  # which a worker need not have

    from engine.teacher.normal_form import input_shape

    return input_shape(ModelProto.FromString(graph).graph)


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


def file_probabilities(outputs: NDArray[Any], model: ModelFile) -> NDArray[np.float32]:
    """Return the probabilities (batch, K) a file's outputs stand for; raise UserError if they are none.

    A file may round its probabilities to integers or half precision: rows are brought to sum one again, and a
    row of nothing but zeros is a guess.
    """
    if model.output.kind == "logits":
        return probabilities(outputs, "logits")
    probs: NDArray[np.float64] = outputs.astype(np.float64)
    sums = probs.sum(axis=1, keepdims=True)
    if (probs < 0).any() or (sums > _LARGEST_SUM).any():
        raise UserError("its outputs were taken as probabilities and are none. State what they are")
    guess = np.full_like(probs, 1 / probs.shape[1])
    np.divide(probs, sums, out=guess, where=sums > 0)
    return guess.astype(np.float32)


@dataclass(frozen=True, eq=False)
class _Opened:
    """An open model: how pixels become its input, what runs it, and what its outputs say."""

    feed: Feed
    run: Callable[[NDArray[Any]], NDArray[Any]]
    answer: Callable[[NDArray[Any]], NDArray[np.float32]]


class Judge:
    """Runs members of one family, sharing what they have in common: the clip thresholds of the teacher's
    kernels.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        weights = {} if job.teacher is None else job.teacher.weights
        self._kernels = {name: np.asarray(array, np.float32) for name, array in weights.items()}
        self._percentiles = Percentiles(weights, job.levels)
        self._last: tuple[str, _Opened] | None = None

    def session(self, name: str) -> Session:
        """Build the session of the teacher or of a recipe, by name."""
        assert self.job.teacher is not None
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
        nan or infinity or is hopeless, or is a file that fails; UserError if the output of any other is not
        (batch, K).
        """
        left = sum(part.n_images for part in self.job.parts_of(name) if self.job.stored(name, part) is None)

        def count(n: int) -> None:
            nonlocal left
            left -= n
            on_batch(n)

        try:
            opened = self._open(name)
            for part in self.job.parts_of(name):
                if self.job.stored(name, part) is None:
                    result = self._run(opened, name, part, stop, count)
                    if result is None:
                        return False
                    write_array(part.result(name), result)
        except UserError as error:
            if name not in self.job.files:
                raise
            raise UnusableModelError(str(error), left) from None
        return True

    def judge_block(self, name: str, pixels: NDArray[Any]) -> NDArray[np.float32]:
        """Return a model's probabilities (n, K) on a block of prepared images that begins and ends where
        batches do; the model stays open for the next block. Raises as `judge` does.
        """
        try:
            if self._last is None or self._last[0] != name:
                self._last = None  # two models at once would need twice the memory
                self._last = name, self._open(name)
            result = self._answers(self._last[1], name, pixels, None, lambda: False, lambda n: None)
        except UserError as error:
            if name not in self.job.files:
                raise
            raise UnusableModelError(str(error), len(pixels)) from None
        assert result is not None
        return result

    def rehearse(self) -> float:
        """Return about how many seconds one model takes, from building the teacher's session and running its
        first batch.
        """
        assert self.job.teacher is not None
        part, p = self.job.parts[0], self.job.teacher.preprocessing
        started = time.perf_counter()
        session = self.session(TEACHER)
        built = time.perf_counter()
        first: NDArray[Any] = np.load(part.pixels, mmap_mode="r", allow_pickle=False)[: batch_size(p)]
        session.outputs(normalise(first, p))
        return built - started + (time.perf_counter() - built) * self.job.n_images / len(first)

    def _open(self, name: str) -> _Opened:
        if name in self.job.files:
            model = self.job.files[name].model
            file = FileSession(read_judged(model), model)
            return _Opened(_feed(model.input), file.run, lambda raw: file_probabilities(raw, model))
        teacher = self.job.teacher
        assert teacher is not None
        feed, session = _feed(InputForm("", teacher.preprocessing)), self.session(name)
        return _Opened(feed, session.outputs, lambda raw: probabilities(raw, teacher.output))

    def _run(
        self,
        opened: _Opened,
        name: str,
        part: Part,
        stop: Callable[[], bool],
        on_batch: Callable[[int], None],
    ) -> NDArray[np.float32] | None:
        pixels: NDArray[Any] = np.load(part.pixels, mmap_mode="r", allow_pickle=False)
        return self._answers(opened, name, pixels, self._race(name, part), stop, on_batch)

    def _answers(
        self,
        opened: _Opened,
        name: str,
        pixels: NDArray[Any],
        race: Callable[[slice, Floats], bool] | None,
        stop: Callable[[], bool],
        on_batch: Callable[[int], None],
    ) -> NDArray[np.float32] | None:
        source, n_images = np.asarray(pixels), len(pixels)  # a memory map is slow to slice
        result = np.empty((n_images, self.job.n_classes), np.float32)
        together = opened.feed.n_images if race is not None else max(opened.feed.n_images, _TOGETHER)
        for start in range(0, n_images, together):
            outputs = self._outputs(opened, name, source[start : start + together], stop, on_batch)
            if outputs is None:
                return None
            end = start + len(outputs)
            if not np.isfinite(outputs).all():
                raise UnusableModelError(
                    f"it returns nan or infinity within rows {start} to {end}", n_images - end
                )
            result[start:end] = opened.answer(outputs)
            if race is not None and race(slice(start, end), result[start:end]):
                raise UnusableModelError(
                    f"given up after {end} images: farther from the teacher than guessing", n_images - end
                )
        return result

    def _outputs(
        self,
        opened: _Opened,
        name: str,
        pixels: NDArray[Any],
        stop: Callable[[], bool],
        on_batch: Callable[[int], None],
    ) -> NDArray[Any] | None:
        """Return the outputs (n, K) for prepared images, run batch by batch; None if told to stop."""
        found: list[NDArray[Any]] = []
        for start in range(0, len(pixels), opened.feed.n_images):
            if stop():
                return None
            images = pixels[start : start + opened.feed.n_images]
            outputs = opened.run(opened.feed(images))
            self._check(outputs, len(images), name)
            found.append(outputs)
            on_batch(len(images))
        return np.concatenate(found)

    def _race(self, name: str, part: Part) -> Callable[[slice, Floats], bool] | None:
        """Return the test that may end this model's run early, if there is one: never for the teacher or a
        test set.
        """
        if name == TEACHER or not self.job.n_raced or part is not self.job.parts_of(name)[0]:
            return None
        reference = self.job.stored(TEACHER, self.job.parts[0])
        if reference is None:
            return None
        test, known = HopelessTest(self.job.n_raced, self.job.n_classes), reference
        return lambda rows, probs: test.is_hopeless(known[rows], probs)

    def _check(self, outputs: NDArray[Any], n: int, name: str) -> None:
        if outputs.shape != (n, self.job.n_classes):
            raise UserError(
                f"{'it' if name in self.job.files else name} returns shape {outputs.shape} for {n} images;"
                f" one row of {self.job.n_classes} classes each is needed. Give the class names that belong"
                " to this model."
            )


def _feed(form: InputForm) -> Feed:
    return Feed(form, batch_size(form.preprocessing))


def read_judged(model: ModelFile) -> bytes:
    """Return the bytes of a model file; raise UserError if they are gone or no longer those described."""
    try:
        content = Path(model.path).read_bytes()
    except OSError as error:
        raise UserError(f"the file cannot be read ({error.strerror})") from None
    if hashlib.sha256(content).hexdigest() != model.sha256:
        raise UserError("the file has changed since it was looked into. Start again")
    return content
