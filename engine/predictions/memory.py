"""How much memory a run needs at its peak, stated before it starts. Knows sizes only."""

from __future__ import annotations

import numpy as np

from engine.guard import limits_for
from engine.predictions.job import Job, batch_size
from engine.target import input_shape
from engine.types import Preprocessing, Teacher

_PROCESS = 90_000_000  # an interpreter with numpy and onnxruntime
# of the weights in a worker: the graph as sent, the kernels as sent, a candidate's, onnxruntime's, and those
# it repacks
_COPIES = 5
_ACTIVATIONS = 40  # times the input batch: two layers of VGG16's first block, the widest in common use
_PARENT = 150_000_000
_HEADROOM = 1_500_000_000  # of a worker above its estimate


def peak_memory_estimate(
    teacher: Teacher, n_images: int, n_candidates: int, workers: int, largest_file: int = 0
) -> int:
    """Return an upper estimate, in bytes, of the resident memory of a run over all its processes.

    Images stay on disk and are mapped a batch at a time. What grows with the pool is the result alone:
    (n_candidates + 1) * n_images * n_classes float32 values. Workers stop mattering when there is only one
    (no extra process). `largest_file` is the size of the largest model file among the candidates, if any.
    """
    weights = max(len(teacher.graph), largest_file)
    worker = _worker(weights, teacher.preprocessing)
    result = 4 * (n_candidates + 1) * n_images * teacher.n_classes
    return _PARENT + 2 * weights + result + workers * worker


def judging_limit(job: Job, n_workers: int = 1) -> int:
    """Return how many bytes a worker may allocate: what its largest model is estimated to need, and headroom;
    never less than its part of what a model may have when it is imported.
    """
    ways = [task.model.input.preprocessing for task in job.files.values()]
    if job.teacher is not None:
        ways.append(job.teacher.preprocessing)
    result = 4 * max(job.sizes) * job.n_classes
    estimate = max(_worker(largest_model(job), way) for way in ways) + result
    return max(limits_for("import").memory // n_workers, estimate + _HEADROOM)


def largest_model(job: Job) -> int:
    """Return the bytes of the largest model that is judged: weights in float32, files as they are."""
    weights = [task.model.n_bytes for task in job.files.values()]
    if job.teacher is not None:
        weights.append(len(job.graph) + 4 * sum(kernel.size for kernel in job.teacher.kernels))
    return max(weights)


def _worker(weights: int, preprocessing: Preprocessing) -> int:
    batch = batch_size(preprocessing) * int(np.prod(input_shape(preprocessing))) * 4
    return _PROCESS + _COPIES * weights + _ACTIVATIONS * batch
