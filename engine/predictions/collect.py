"""After the run: finished results become Predictions, with sizes, the reference they are compared with, and
what is missing.

Knows stored results. Runs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.family.cost import costs, file_bytes
from engine.family.model_file import ModelFile, Refusal, StandIn
from engine.predictions.job import TEACHER, Job, run_name
from engine.predictions.stack import Shard, Stack, in_memory
from engine.types import Ints, Predictions, Recipe, Teacher, UserError

_NAMED = 3  # failed candidates that a refusal names


def collect(
    job: Job,
    teacher: Teacher | StandIn,
    candidates: Sequence[Recipe | ModelFile],
    labels: Sequence[Ints],
    files: tuple[str, ...] | None,
) -> Predictions:
    """Collect finished results in the candidates' order; labels are in pool order, one array a part."""
    from engine.predictions.file import make_predictions

    finished: list[Recipe | ModelFile] = []
    shards: list[list[Shard]] = []
    for candidate in candidates:
        name = run_name(candidate)
        found = [job.shard(name, part) for part in job.parts_of(name)]
        known = [shard for shard in found if shard is not None]
        if len(known) == len(found):
            shards.append(known)
            finished.append(candidate)
    by_part = zip(*shards, strict=True) if shards else [()] * len(job.sizes)
    stacks = [in_memory(_stack(own, n, job.n_classes)) for own, n in zip(by_part, job.sizes, strict=True)]
    references = _references(job, teacher, finished, stacks)
    optional: dict[str, Any] = {}
    if len(stacks) == 2:
        optional = {
            "teacher_test": references[1],
            "candidates_test": stacks[1],
            "labels_test": labels[1],
        }
    return make_predictions(
        references[0],
        stacks[0],
        labels=labels[0],
        names=[candidate.slug for candidate in finished],
        class_names=teacher.class_names,
        files=files,
        reference=None if isinstance(teacher, Teacher) else teacher.reference,
        teacher_sha256=teacher.fingerprint if isinstance(teacher, Teacher) else None,
        **_sizes(teacher, finished),
        **optional,
    )


def _stack(shards: Sequence[Shard], n_images: int, n_classes: int) -> Stack:
    return Stack(shards=tuple(shards), n_images=n_images, n_classes=n_classes, dtype=np.dtype(np.float32))


def _references(
    job: Job,
    teacher: Teacher | StandIn,
    finished: Sequence[Recipe | ModelFile],
    stacks: Sequence[Any],
) -> list[NDArray[np.float32]]:
    """Return, for each part, the probabilities (N, K) that candidates are compared with."""
    stored: list[NDArray[np.float32] | None]
    if isinstance(teacher, Teacher):
        stored = [job.stored(TEACHER, part) for part in job.parts]
    elif teacher.candidate is None:
        stored = [_consensus(stack) if len(stack) else None for stack in stacks]
    else:
        names = [candidate.slug for candidate in finished]
        if names and teacher.candidate not in names:
            raise UserError(
                f"{teacher.candidate!r} was to stand in for the teacher and could not be judged.",
                "Name another file, or use the consensus of all.",
                option="teacher",
            )
        stored = [stack[names.index(teacher.candidate)] if names else None for stack in stacks]
    known = [probs for probs in stored if probs is not None]
    if not finished or len(known) < len(stored):
        raise UserError(
            "stopped before the teacher and one candidate were done. What was finished is kept: run again"
            " with more time."
        )
    return known


def _consensus(stack: Any) -> NDArray[np.float32]:
    """Return the mean (N, K) of the candidates' probabilities (M, N, K), its rows summing to one."""
    mean = np.zeros(stack.shape[1:])
    for probs in stack:  # one at a time: the stack may be larger than memory
        mean += probs
    mean /= len(stack)
    mean /= mean.sum(axis=1, keepdims=True)
    return mean.astype(np.float32)


def _sizes(teacher: Teacher | StandIn, candidates: Sequence[Recipe | ModelFile]) -> dict[str, Any]:
    """Return bytes and relative cost of every candidate, and the hashes of those that are files.

    A file costs its size over the float teacher's weights; without a float teacher, over the file that stands
    in for it, or over the largest.
    """
    sizes = np.array([_size(teacher, candidate) for candidate in candidates], np.float64)
    if isinstance(teacher, Teacher):
        cost = sizes / teacher.float_bytes
        for index, candidate in enumerate(candidates):
            if isinstance(candidate, Recipe):
                cost[index] = costs(teacher, [candidate])[0]
    else:
        named = [size for size, c in zip(sizes, candidates, strict=True) if c.slug == teacher.candidate]
        cost = sizes / (named[0] if named else sizes.max(initial=1.0))
    hashes = [c.sha256 if isinstance(c, ModelFile) else "" for c in candidates]
    return {"cost": cost, "bytes": sizes, "file_sha256": hashes if any(hashes) else None}


def _size(teacher: Teacher | StandIn, candidate: Recipe | ModelFile) -> float:
    if isinstance(candidate, ModelFile):
        return candidate.n_bytes
    assert isinstance(teacher, Teacher)
    return file_bytes(teacher, candidate)


def check_some_ran(candidates: Sequence[Recipe | ModelFile], failures: dict[str, str]) -> None:
    """Raise UserError with the reasons if every candidate failed: more time would not help."""
    reasons = [(c.slug, failures[run_name(c)]) for c in candidates if run_name(c) in failures]
    if not reasons or len(reasons) < len(candidates):
        return
    named = "; ".join(f"{name}: {reason.removesuffix('.')}" for name, reason in reasons[:_NAMED])
    more = f"; and {len(reasons) - _NAMED} more" if len(reasons) > _NAMED else ""
    raise UserError(
        f"none of the {len(reasons)} candidates could be judged ({named}{more}).",
        "Mend them, or judge others.",
    )


def with_missing(
    result: Predictions,
    candidates: Sequence[Recipe | ModelFile],
    failures: dict[str, str],
    refused: Sequence[Refusal],
) -> Predictions:
    """Add what has no result, and why."""
    done = set(result.names)
    reasons = {
        candidate.slug: failures.get(run_name(candidate), "the run ended before it was judged")
        for candidate in candidates
        if candidate.slug not in done
    }
    reasons |= {refusal.name: refusal.reason for refusal in refused}
    return replace(result, missing=tuple(reasons), missing_reasons=tuple(reasons.values()))
