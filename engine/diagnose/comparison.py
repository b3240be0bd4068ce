"""Models side by side: quality with intervals, who loses what by class, which mistakes are new, where they
differ.

Sees arrays only. Measured with labels; without them only where the models differ can be said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import ndtri

from engine.diagnose.health import reliability, wilson
from engine.rules.statistics import FLOOR
from engine.rules.streaming import blocks
from engine.types import Floats, Ints, LabeledSample

LEVEL = 0.95
_DRAWS = 2000
_BLOCK = 1 << 18  # probabilities of one model held at once


@dataclass(frozen=True)
class Interval:
    """A measured value with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Quality:
    """What the labels say of one model: accuracy (Wilson interval), loss in nats (bootstrap interval),
    ECE.
    """

    accuracy: Interval
    loss: Interval
    ece: float


def share_interval(hits: int, n: int) -> Interval:
    """Return a share with its 95 % Wilson interval.

    >>> found = share_interval(8, 10)
    >>> round(found.low, 3), round(found.high, 3)
    (0.49, 0.943)
    """
    low, high = wilson(np.array([hits]), n, LEVEL)
    return Interval(value=hits / n, low=float(low[0]), high=float(high[0]))


def quality(probs: Floats, labels: Ints, *, seed: int = 0) -> Quality:
    """Measure one model's probabilities (n, K) against labels (n,)."""
    losses = _losses(probs, labels)
    rng = np.random.Generator(np.random.PCG64(seed))
    means = losses[rng.integers(0, len(losses), (_DRAWS, len(losses)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Quality(
        accuracy=share_interval(int((probs.argmax(axis=1) == labels).sum()), len(labels)),
        loss=Interval(value=float(losses.mean()), low=float(low), high=float(high)),
        ece=reliability(probs, labels).ece,
    )


def class_effects(before: Floats, after: Floats, labels: Ints, n_classes: int) -> pd.DataFrame:
    """Return what a model loses or gains by class against another one, the worst loss first.

    before, after (n, K) probabilities of the two models on the labeled rows. Columns: class (number), labels,
    before, after (accuracy, shares), change (after - before), low, high (95 % interval of the change, paired:
    Agresti and Min's adjusted Wald interval). Classes without labels are left out.
    """
    right_before, right_after = before.argmax(axis=1) == labels, after.argmax(axis=1) == labels
    rows = []
    for k in range(n_classes):
        of_class = labels == k
        n = int(of_class.sum())
        if n == 0:
            continue
        lost = int((right_before & ~right_after & of_class).sum())
        won = int((~right_before & right_after & of_class).sum())
        low, high = _paired_interval(won, lost, n)
        rows.append(
            {
                "class": k,
                "labels": n,
                "before": float(right_before[of_class].mean()),
                "after": float(right_after[of_class].mean()),
                "change": (won - lost) / n,
                "low": low,
                "high": high,
            }
        )
    columns = ["class", "labels", "before", "after", "change", "low", "high"]
    return pd.DataFrame(rows, columns=columns).sort_values("change", kind="stable", ignore_index=True)


def _paired_interval(won: int, lost: int, n: int) -> tuple[float, float]:
    z = float(ndtri((1 + LEVEL) / 2))
    centre = (won - lost) / (n + 2)
    spread = z * np.sqrt(won + lost + 1 - (won - lost) ** 2 / (n + 2)) / (n + 2)
    return max(-1.0, centre - spread), min(1.0, centre + spread)


def confusion_changes(before: Floats, after: Floats, labels: Ints) -> pd.DataFrame:
    """Return which mistakes one model makes more or less often than another, the largest change first.

    Columns: true, answered (class numbers, different), before, after (counts on the labels), change.
    """
    counts: dict[tuple[int, int], list[int]] = {}
    for place, probs in enumerate((before, after)):
        answers = probs.argmax(axis=1)
        for true, answered in zip(labels.tolist(), answers.tolist(), strict=True):
            if true != answered:
                counts.setdefault((true, answered), [0, 0])[place] += 1
    rows = [
        {"true": true, "answered": answered, "before": a, "after": b, "change": b - a}
        for (true, answered), (a, b) in counts.items()
        if a != b
    ]
    table = pd.DataFrame(rows, columns=["true", "answered", "before", "after", "change"])
    order = table["change"].abs().sort_values(ascending=False, kind="stable").index
    return table.loc[order].reset_index(drop=True)


def disagreements(models: Mapping[str, Floats], *, limit: int) -> pd.DataFrame:
    """Return the images on which the models give different classes, those with most at stake first.

    models: name -> probabilities (N, K); at least two. What is at stake is how far the losses of the most
    different pair are expected to lie apart, in nats, if the models' average is the truth. Columns: row,
    stake, and for each model NAME its class (`NAME`) and that class's probability (`NAME probability`).
    """
    names = list(models)
    n_images, n_classes = next(iter(models.values())).shape
    parts = [_disagreements_in(models, names, rows) for rows in blocks(n_images, n_classes, _BLOCK)]
    found = pd.concat(parts, ignore_index=True)
    return found.sort_values("stake", ascending=False, kind="stable", ignore_index=True).head(limit)


def _disagreements_in(models: Mapping[str, Floats], names: Sequence[str], rows: slice) -> pd.DataFrame:
    probs = np.stack([np.asarray(models[name][rows], np.float64) for name in names])
    answers = probs.argmax(axis=2)
    differ = np.flatnonzero((answers != answers[0]).any(axis=0))
    probs, answers = probs[:, differ], answers[:, differ]
    logs, truth = np.log(np.maximum(probs, FLOOR)), probs.mean(axis=0)
    spread = logs.max(axis=0) - logs.min(axis=0)
    table = pd.DataFrame({"row": differ + rows.start, "stake": (truth * spread).sum(axis=1)})
    for name, classes, values in zip(names, answers, probs, strict=True):
        table[name] = classes
        table[f"{name} probability"] = values[np.arange(len(differ)), classes]
    return table


def labeled_rows(probs: Floats, sample: LabeledSample) -> Floats:
    """Return a model's probabilities on the labeled rows only, (n, K) float64."""
    return np.asarray(probs[sample.rows], np.float64)


def _losses(probs: Floats, labels: Ints) -> Floats:
    right = np.asarray(probs, np.float64)[np.arange(len(labels)), labels]
    return np.asarray(-np.log(np.maximum(right, FLOOR)))
