"""Is this evidence fit to decide on? Structural checks of a family's predictions and sanity of the teacher's,
on arrays only.

Every problem is one plain sentence that says what was seen and what it suggests. Knows nothing of models,
files or rules.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from engine.diagnose.health import COLLAPSE_FACTOR
from engine.rules.streaming import blocks, row_tops
from engine.types import UNLABELED, Floats, Predictions, Progress
from engine.words import counted, listed, out_of, percent

ENOUGH_LABELS = 20  # below this an accuracy near 1/K says nothing
ENOUGH_IMAGES = 20
UNIFORM = 0.98  # share of the largest possible entropy
SATURATED = 0.9999  # top probability that leaves nothing to compare
NEARLY_ALL = 0.95
CONSTANT = 0.98  # share of images given the same class

_NAMED = 4
_GLANCE = 64  # rows that tell most candidates apart


def evidence_problems(predictions: Predictions, *, on_progress: Progress | None = None) -> tuple[str, ...]:
    """Return everything that speaks against deciding on these predictions, worst first; () if nothing
    does. `on_progress` counts the things looked for.
    """
    looks = (*_STRUCTURAL, _teacher)
    problems: list[str] = []
    for done, look in enumerate(looks, start=1):
        problems += look(predictions)
        if on_progress is not None:
            on_progress(done, len(looks))
    return tuple(problems)


def structural_problems(predictions: Predictions) -> list[str]:
    """Return what disqualifies or weakens the family: missing or identical candidates, all at chance, all
    constant; [] if nothing.
    """
    return [problem for look in _STRUCTURAL for problem in look(predictions)]


def teacher_problems(probs: Floats, class_names: Sequence[str] | None = None) -> list[str]:
    """Return what is odd about the teacher's outputs (N, K) on the pool, most often a sign of wrong
    preprocessing; [] if nothing.
    """
    n_images, n_classes = probs.shape
    if n_images < ENOUGH_IMAGES or n_classes < 2:
        return []
    if all(bool((probs[rows] == probs[0]).all()) for rows in blocks(n_images, n_classes)):
        return [
            "The teacher gives every image the same output: it does not see the images. Check the"
            " preprocessing and the image files."
        ]
    problems = []
    entropy = _mean_entropy(probs) / float(np.log(n_classes))
    if entropy > UNIFORM:
        problems.append(
            f"The teacher's outputs are almost uniform ({percent(entropy)} of the largest entropy): it is"
            " untrained, or its preprocessing is wrong (pixel range, mean and std)."
        )
    classes, tops = row_tops(probs)
    sure = float((tops > SATURATED).mean())
    if sure >= NEARLY_ALL:
        problems.append(
            f"The teacher is certain (above {SATURATED}) on {percent(sure)} of the images: its"
            " confidences carry"
            " no information here. Pixels on the wrong scale (0..255 in place of 0..1) look like this."
        )
    counts = np.bincount(classes, minlength=n_classes)
    if counts.max() >= CONSTANT * n_images:
        top = int(counts.argmax())
        name = f"class {top}" if class_names is None else f"{class_names[top]!r}"
        problems.append(
            f"The teacher answers {name} for {percent(counts.max() / n_images)} of the images. If they"
            " are not all"
            " of that class, its preprocessing is probably wrong (channel order, mean and std, size)."
        )
    return problems


def _teacher(predictions: Predictions) -> list[str]:
    return teacher_problems(predictions.teacher, predictions.class_names)


def _mean_entropy(probs: Floats) -> float:
    """Return the mean of the rows' entropies in nats, a block of rows at a time: a pool may be large."""
    total = 0.0
    for rows in blocks(*probs.shape):
        floored = np.maximum(probs[rows].astype(np.float64), 1e-12)  # half precision knows no 1e-12
        total -= float((floored * np.log(floored)).sum())
    return total / len(probs)


def _missing(predictions: Predictions) -> list[str]:
    if not predictions.missing:
        return []
    total = predictions.n_candidates + len(predictions.missing)
    return [
        f"{out_of(len(predictions.missing), total, 'candidate', ('is', 'are'))} missing"
        f" ({_list(predictions.missing)}): the best one may be among them."
    ]


def _identical(predictions: Predictions) -> list[str]:
    *digests, teachers = _digests(predictions)
    groups: dict[bytes, list[str]] = {}
    for name, digest in zip(predictions.names, digests, strict=True):
        groups.setdefault(digest, []).append(name)
    if len(groups) == 1 and predictions.n_candidates > 1:
        return [
            f"All {predictions.n_candidates} candidates give identical outputs: their weights were not"
            " quantized, or not used."
        ]
    alike = [names for names in groups.values() if len(names) > 1]
    problems = []
    if len(alike) == 1:
        problems = [f"{_list(alike[0])} give identical outputs: they are one model under several names."]
    elif alike:
        shown = listed([" = ".join(names[:3]) for names in alike])
        problems = [f"Some candidates give identical outputs, one model under several names: {shown}."]
    teacher = groups.get(teachers)
    if teacher:
        said = "gives {}: it is" if len(teacher) == 1 else "give {}: they are"
        problems.append(f"{_list(teacher)} {said.format('exactly the teacher’s outputs')} not quantized.")
    return problems


def _at_chance(predictions: Predictions) -> list[str]:
    labeled = predictions.labels != UNLABELED
    n_labels = int(labeled.sum())
    if n_labels < ENOUGH_LABELS:
        return []
    rows, best = np.flatnonzero(labeled), 0.0
    # a candidate at a time, here and below: together they may not fit in memory
    for probs in predictions.candidates:
        best = max(best, float((np.argmax(probs[rows], axis=1) == predictions.labels[rows]).mean()))
        if best > COLLAPSE_FACTOR / predictions.n_classes:
            return []
    return [
        f"Every candidate is at chance on the {counted(n_labels, 'labeled image')} (the best is right on"
        f" {percent(best)}, guessing gives {percent(1 / predictions.n_classes)}): the labels' class"
        " numbering,"
        " the preprocessing or the teacher is wrong."
    ]


def _constant(predictions: Predictions) -> list[str]:
    if predictions.n_images < ENOUGH_IMAGES:
        return []
    by_candidate = (row_tops(probs)[0] for probs in predictions.candidates)
    if not all(bool((classes == classes[0]).all()) for classes in by_candidate):  # most often the first tells
        return []
    n = predictions.n_candidates
    return [
        f"{'The only candidate answers' if n == 1 else f'All {n} candidates answer'} one and the same"
        " class for every image: nothing can be learned here."
    ]


_STRUCTURAL = (_missing, _identical, _at_chance, _constant)


def _list(names: Sequence[str]) -> str:
    return listed(names, _NAMED)


def _digests(predictions: Predictions) -> list[bytes]:
    """Return a digest of each candidate's outputs and, last, of the teacher's: of a few rows where those are
    like nobody else's, of all rows otherwise. A large family is then hardly read.
    """
    candidates, teacher, n = predictions.candidates, predictions.teacher, predictions.n_candidates
    few = teacher[:_GLANCE].astype(candidates.dtype)
    glances = [*(_digest(candidates[m, :_GLANCE]) for m in range(n)), _digest(few)]
    shared = {glance for glance, count in Counter(glances).items() if count > 1}
    return [
        glance
        if glance not in shared
        else _digest(candidates[m] if m < n else teacher.astype(candidates.dtype))
        for m, glance in enumerate(glances)
    ]


def _digest(probs: Floats) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(probs).reshape(-1).view(np.uint8).data).digest()
