"""How long a candidate takes per image beside the float teacher, on this processor, in the same minutes.

Knows timing. What is timed is the file that ships, one thread, one image and a batch.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from engine.guard import Fallen, Limits, Part, Pool, is_limited
from engine.teacher.apart import UnrunnableError, running_limits
from engine.teacher.reason import reason
from engine.teacher.runtime import FAILURES
from engine.teacher.steady import is_steady
from engine.types import UserError

ROUNDS = (5, 15)  # at least, at most
_SECONDS = 0.6  # after which a file is not timed further than the fewest rounds
_PATIENCE = 4.0  # of what a batch may take: a timing is some dozens of them
_WHILE = 4e-3  # seconds; shorter runs are repeated that long


@dataclass(frozen=True)
class Latency:
    """Time per image relative to the float teacher's: the median of rounds, and half the distance between
    their quartiles.
    """

    ratio: float
    spread: float


NOT_MEASURED = Latency(float("nan"), float("nan"))


class Stopwatch:
    """Times files against the float teacher on the same images (n, ...): one at a time, then all at once."""

    def __init__(self, teacher: bytes, images: NDArray[np.float32]) -> None:
        self._images = images
        # What may do other work for other images is timed behind limits.
        self._apart = None if is_limited() or is_steady(teacher) else teacher
        if self._apart is None:
            self._teacher = self._runs(teacher, unpacked=False)

    def measure(self, content: bytes, *, unpacked: bool) -> Latency:
        """Time a file. `unpacked` turns packed weights into floats when the file is opened; otherwise they
        stay packed and are unpacked at every use.
        """
        if self._apart is not None:
            return _measured_apart(self._apart, content, self._images, unpacked)
        candidate = self._runs(content, unpacked=unpacked)
        ratios: list[float] = []
        started = time.perf_counter()
        while len(ratios) < ROUNDS[1]:
            # teacher and candidate take turns, so that a busy moment meets both
            pairs = [
                (_seconds(own), _seconds(other)) for own, other in zip(candidate, self._teacher, strict=True)
            ]
            ratios.append(
                _per_image([own for own, _ in pairs], len(self._images))
                / _per_image([t for _, t in pairs], len(self._images))
            )
            if len(ratios) >= ROUNDS[0] and time.perf_counter() - started > _SECONDS:
                break
        low, middle, high = statistics.quantiles(ratios, n=4)
        return Latency(middle, (high - low) / 2)

    def _runs(self, content: bytes, *, unpacked: bool) -> tuple[Callable[[], object], Callable[[], object]]:
        """Return one run of a single image and one of the batch, both warm."""
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        if unpacked:
            options.add_session_config_entry("session.disable_quant_qdq", "1")
        session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        single, batch = {name: self._images[:1]}, {name: self._images}
        runs: tuple[Callable[[], object], Callable[[], object]] = (
            lambda: session.run(None, single),
            lambda: session.run(None, batch),
        )
        runs[0]()
        runs[1]()
        return runs


@cache
def _pool(limits: Limits) -> Pool:
    return Pool("engine.deploy.latency:measure_in_child", limits, "timing it")


def _measured_apart(teacher: bytes, content: bytes, images: NDArray[np.float32], unpacked: bool) -> Latency:
    facts = {"lengths": [len(teacher), len(content)], "shape": images.shape, "unpacked": unpacked}
    pixels = np.ascontiguousarray(images, np.float32).tobytes()
    limits = running_limits(len(teacher) + len(content))
    pool = _pool(replace(limits, seconds=_PATIENCE * limits.seconds))
    answer = pool.ask([Part(facts, teacher + content + pixels)])[0]
    if isinstance(answer, Fallen):
        raise UnrunnableError(f"the model was stopped: {answer.reason}.", "Check the model file.")
    if isinstance(answer, UserError):
        raise answer
    return Latency(**answer.facts)


def measure_in_child(
    content: bytes, lengths: list[int], shape: list[int], unpacked: bool
) -> tuple[dict[str, float], bytes]:
    """The child's part of `measure`."""
    teacher, images = content[: lengths[0]], content[sum(lengths) :]
    try:
        watch = Stopwatch(teacher, np.frombuffer(images, np.float32).reshape(shape))
        found = watch.measure(content[lengths[0] : sum(lengths)], unpacked=unpacked)
    except FAILURES as error:
        raise UserError(f"the model cannot be timed: {reason(error)}.", "Check the model file.") from None
    return asdict(found), b""


def _per_image(seconds: list[float], n_images: int) -> float:
    """Return the time per image, averaged over the single image and the batch."""
    return (seconds[0] + seconds[1] / n_images) / 2


def _seconds(run: Callable[[], object]) -> float:
    """Return how long a run takes: the median of as many as fit into a short while, so that being interrupted
    once does not count.
    """
    times: list[float] = []
    while sum(times) < _WHILE or len(times) == 2:
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return statistics.median(times)
