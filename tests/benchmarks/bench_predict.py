"""predict against what a practitioner would write: eager PyTorch, Keras `predict`, and the limit, the
teacher's own best onnxruntime time.

All contenders run in one go on the same images, candidates and cores. A slice of the family and of a pool is
timed and compared per model and image; our fixed costs (process start, quantizing, session building) are
measured apart and charged as in a whole run.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from engine.family.quantize import Percentiles
from engine.family.recipes import standard_family
from engine.family.weights import candidate_weights
from engine.predictions import runner
from engine.predictions.gather import predict, running_order
from engine.predictions.job import without_kernels
from engine.predictions.machine import available_cores
from engine.predictions.memory import peak_memory_estimate
from engine.predictions.model import Session
from engine.target import normalise, open_images, prepare
from engine.types import Recipe, Teacher

N_CLASSES = 7
# name: the ratio we promise
TORCH_MODELS = {
    "mobilenetv2_100": 2.5,
    "resnet50": 1.3,
    "vit_tiny_patch16_224": 1.0,
}
KERAS_BAR, LIMIT_BAR = 4.0, 1.15
FULL_MODELS, FULL_IMAGES = 73, 1200


@dataclass(frozen=True)
class Slice:
    """How much of the 72 candidates and of a pool is timed."""

    n_candidates: int
    n_images: int
    repetitions: int


def main(quick: bool = False) -> list[str]:
    """Return the table as Markdown lines."""
    part = Slice(2, 16, 1) if quick else Slice(8, 96, 2)
    models = list(TORCH_MODELS)[: 1 if quick else None]
    runner._SMALL = 0.0  # what is timed is the path of a real run, not the one for toys
    rows = [_torch_row(name, part) for name in models] + [_keras_row(part)]
    return [
        (
            f"Timed: {part.n_candidates} of 72 candidates and the teacher on {part.n_images} images of 224 x"
            f" 224, {available_cores()} cores, best of {part.repetitions}. Ours is scaled to {FULL_MODELS}"
            f" models on {FULL_IMAGES:,} images with process start, quantizing and session building included;"
            " the loops and the limit get prepared images and are charged nothing else."
        ),
        "",
        (
            "| model | ours, images/s | loop it replaces, images/s | faster by | bar | onnxruntime limit,"
            " images/s | ours / limit time | bar | memory stated | measured in workers |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|",
        *rows,
    ]


def _recipes(n_candidates: int) -> tuple[Recipe, ...]:
    return running_order(standard_family())[:n_candidates]


@dataclass(eq=False)
class Contest:
    """One model, one set of images, and what each contender needs for them."""

    teacher: Teacher
    part: Slice

    def __post_init__(self) -> None:
        self.teacher = replace(self.teacher, preprocessing=replace(self.teacher.preprocessing, resize=None))
        shape = (self.part.n_images, self.teacher.preprocessing.height, self.teacher.preprocessing.width, 3)
        self.pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
        prepared = np.stack([prepare(image, self.teacher.preprocessing) for image in self.pixels])
        self.inputs = normalise(prepared, self.teacher.preprocessing)
        self.percentiles = Percentiles.for_recipes(self.teacher.weights, standard_family())

    def ours(self) -> float:
        """Seconds per model and image of a whole run: 72 candidates on 1,200 images, from three smaller runs
        of `predict`.

        A run takes start + models * (session + images * step); two small runs and one large one give the
        three unknowns. Each is a run from nothing: array opened, images prepared, workers started, results
        stored and gathered.
        """
        few, many = self.part.n_candidates // 4 + 1, self.part.n_candidates
        small, large = 8, self.part.n_images
        empty, built, whole = (
            self._predict(few, small),
            self._predict(many, small),
            self._predict(many, large),
        )
        step = (whole - built) / ((many + 1) * (large - small))
        session = max(0.0, (built - empty) / (many - few) - small * step)
        start = max(0.0, empty - (few + 1) * (session + small * step))
        return (start + FULL_MODELS * (session + FULL_IMAGES * step)) / (FULL_MODELS * FULL_IMAGES)

    def _predict(self, n_candidates: int, n_images: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder, "x.npy"), self.pixels[:n_images])
            with _worker_memory() as self.peaks:
                started = time.perf_counter()
                self.result = predict(
                    self.teacher,
                    _recipes(n_candidates),
                    open_images(Path(folder, "x.npy")),
                    store=Path(folder, "store"),
                )
                return time.perf_counter() - started

    def limit(self) -> float:
        """Seconds per image that onnxruntime needs for the unchanged teacher, at its best batch size and
        thread layout.
        """
        graph = without_kernels(self.teacher.graph, self.teacher.kernels)
        cores = available_cores()
        options = ort.SessionOptions()
        options.intra_op_num_threads = cores
        wide = ort.InferenceSession(self.teacher.graph, options, providers=["CPUExecutionProvider"])
        name = wide.get_inputs()[0].name
        narrow = [Session(graph, self.teacher.weights) for _ in range(cores)]
        some = self.inputs[:64]
        shares = np.array_split(some, cores)

        def together(batch: int) -> None:
            for start in range(0, len(some), batch):
                wide.run(None, {name: some[start : start + batch]})

        def apart(batch: int) -> None:
            def one(session: Session, share: np.ndarray) -> None:
                for start in range(0, len(share), batch):
                    session.outputs(share[start : start + batch])

            with ThreadPoolExecutor(cores) as threads:
                list(threads.map(one, narrow, shares))

        wide.run(None, {name: some[:32]})  # warm
        times = {
            (layout, batch): _seconds(layout, batch)
            for layout in (together, apart)
            for batch in (1, 4, 8, 32)
        }
        layout, batch = min(times, key=lambda key: times[key])
        self.layout = f"{layout.__name__}, batch {batch}"
        # The best of eight short runs is partly luck: the winner runs again, for as long as the others do.
        n_passes = max(1, (self.part.n_candidates + 1) * self.part.n_images // len(some))
        return sum(_seconds(layout, batch) for _ in range(n_passes)) / (n_passes * len(some))

    def best(self, contenders: Sequence[Callable[[], float]]) -> list[float]:
        """Best seconds per model and image of each contender, taken in turns so that a busy moment hits all
        of them.
        """
        rounds = [[contender() for contender in contenders] for _ in range(self.part.repetitions)]
        return [min(column) for column in zip(*rounds, strict=True)]

    def check(self, probs: np.ndarray) -> None:
        """Make sure that the loop judged the same last candidate: its probabilities agree with ours."""
        wanted = self.result.candidates[self.result.names.index(_recipes(self.part.n_candidates)[-1].slug)]
        assert np.abs(probs - wanted).max() < 1e-3, "the contenders do not compute the same model"

    def row(self, title: str, seconds: Sequence[float], bar: float) -> str:
        ours, loop, limit = seconds
        rates = [1 / value for value in seconds]
        stated = peak_memory_estimate(
            self.teacher, self.part.n_images, self.part.n_candidates, available_cores()
        )
        line = (
            f"| {title} | {rates[0]:.0f} | {rates[1]:.0f} | {loop / ours:.2f}x | {bar}x | {rates[2]:.0f}"
            f" ({self.layout}) | {ours / limit:.2f}x | {LIMIT_BAR}x | {stated / 1e6:.0f} MB |"
            f" {sum(self.peaks.values()) / 1e6:.0f} MB |"
        )
        logging.getLogger(__name__).warning("%s", line)  # a long benchmark shows each row when it is known
        return line


@contextmanager
def _worker_memory() -> Iterator[dict[str, int]]:
    """Collect the peak resident bytes of each worker process started meanwhile (Linux)."""
    peaks: dict[str, int] = {}
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            for folder in Path("/proc").glob("[0-9]*"):
                with suppress(OSError, StopIteration):
                    status = (folder / "status").read_text()
                    if (
                        f"PPid:\t{os.getpid()}\n" in status
                        and b"engine.predictions.worker" in (folder / "cmdline").read_bytes()
                    ):
                        peaks[folder.name] = 1024 * int(
                            next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]
                        )

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peaks
    finally:
        over.set()
        thread.join()


def _seconds(run: Callable[[int], None], batch: int) -> float:
    started = time.perf_counter()
    run(batch)
    return time.perf_counter() - started


def _torch_row(name: str, part: Slice) -> str:
    import torch

    from engine.teacher.importers.timm import build, timm_preprocessing
    from engine.teacher.importers.torch import import_module

    torch.manual_seed(0)
    torch.set_num_threads(available_cores())
    model = build(name, N_CLASSES).eval()
    contest = Contest(
        import_module(model, name=name, input_shape=(3, 224, 224), preprocessing=timm_preprocessing(model)),
        part,
    )
    model = model.to(memory_format=torch.channels_last)
    inputs = torch.from_numpy(contest.inputs).contiguous(memory_format=torch.channels_last)
    parameters: dict[str, Any] = dict(model.named_parameters())
    originals = {kernel.name: parameters[kernel.name].detach().clone() for kernel in contest.teacher.kernels}

    def judge(recipe: Recipe | None, batch: int) -> np.ndarray:
        changed = {} if recipe is None else candidate_weights(contest.teacher, recipe, contest.percentiles)
        with torch.inference_mode():
            for kernel, original in originals.items():
                parameters[kernel].copy_(torch.from_numpy(changed[kernel]) if kernel in changed else original)
            return torch.cat([model(chunk).softmax(1) for chunk in inputs.split(batch)]).numpy()

    def eager(batch: int) -> float:
        started = time.perf_counter()
        for recipe in (None, *_recipes(part.n_candidates)):
            probs = judge(recipe, batch)
        elapsed = time.perf_counter() - started
        contest.check(probs)
        return elapsed / ((part.n_candidates + 1) * part.n_images)

    judge(None, 32)  # warm
    # the loop gets the batch size that suits it
    batch = min((8, 32), key=lambda size: _seconds(lambda n: judge(None, n), size))
    seconds = contest.best([contest.ours, lambda: eager(batch), contest.limit])
    return contest.row(f"{name}, eager PyTorch (channels_last, inference_mode)", seconds, TORCH_MODELS[name])


def _keras_row(part: Slice) -> str:
    import keras

    from engine.teacher.importers.keras import import_model

    keras.utils.set_random_seed(0)
    model = keras.applications.MobileNetV2((224, 224, 3), weights=None, classes=N_CLASSES)
    contest = Contest(import_model(model, name="MobileNetV2"), part)
    variables = {variable.path: variable for variable in model.variables}

    def loop() -> float:
        started = time.perf_counter()
        for recipe in (None, *_recipes(part.n_candidates)):
            changed = (
                {} if recipe is None else candidate_weights(contest.teacher, recipe, contest.percentiles)
            )
            for kernel, original in contest.teacher.weights.items():
                variables[kernel].assign(changed.get(kernel, original))
            probs = model.predict(contest.inputs, batch_size=32, verbose=0)
        elapsed = time.perf_counter() - started
        contest.check(probs)
        return elapsed / ((part.n_candidates + 1) * part.n_images)

    return contest.row(
        "MobileNetV2, Keras `predict` per candidate",
        contest.best([contest.ours, loop, contest.limit]),
        KERAS_BAR,
    )
