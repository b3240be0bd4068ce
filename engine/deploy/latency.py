"""How long a candidate takes per image beside the float teacher, on this processor, in the same minutes.

Knows timing. What is timed is the file that ships, one thread, one image and a batch.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

ROUNDS = (5, 15)  # at least, at most
_SECONDS = 0.6  # after which a file is not timed further than the fewest rounds
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
        self._teacher = self._runs(teacher, unpacked=False)

    def measure(self, content: bytes, *, unpacked: bool) -> Latency:
        """Time a file. `unpacked` turns packed weights into floats when the file is opened; otherwise they
        stay packed and are unpacked at every use.
        """
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
