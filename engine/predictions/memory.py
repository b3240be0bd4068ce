"""How much memory a run needs at its peak, stated before it starts. Knows sizes only."""

from __future__ import annotations

import numpy as np

from engine.predictions.job import batch_size
from engine.target import input_shape
from engine.types import Teacher

_PROCESS = 90_000_000  # an interpreter with numpy and onnxruntime
# of the weights in a worker: the graph as sent, the kernels as sent, a candidate's, onnxruntime's, and those
# it repacks
_COPIES = 5
_ACTIVATIONS = 40  # times the input batch: two layers of VGG16's first block, the widest in common use
_PARENT = 150_000_000


def peak_memory_estimate(
    teacher: Teacher, n_images: int, n_candidates: int, workers: int, largest_file: int = 0
) -> int:
    """Return an upper estimate, in bytes, of the resident memory of a run over all its processes.

    Images stay on disk and are mapped a batch at a time. What grows with the pool is the result alone:
    (n_candidates + 1) * n_images * n_classes float32 values. Workers stop mattering when there is only one
    (no extra process). `largest_file` is the size of the largest model file among the candidates, if any.
    """
    weights = max(len(teacher.graph), largest_file)
    batch = batch_size(teacher.preprocessing) * int(np.prod(input_shape(teacher.preprocessing))) * 4
    worker = _PROCESS + _COPIES * weights + _ACTIVATIONS * batch
    result = 4 * (n_candidates + 1) * n_images * teacher.n_classes
    return _PARENT + 2 * weights + result + workers * worker
