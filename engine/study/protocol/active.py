"""Labels chosen by `label-next` instead of at random: the same protocol with another way to spend the budget.

Sees one family's predictions. Batches are chosen one after another, each with the labels of those before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from engine.recommend.auto import AUTO, NO_LABELS
from engine.recommend.calibrated import calibrate
from engine.recommend.doubt import recommendation
from engine.recommend.hypotheses import CalibratedPool
from engine.recommend.next_labels import label_next
from engine.rules.sampling import corrupt_labels
from engine.types import UNLABELED, Ints, LabeledSample

ACTIVE = f"{AUTO}-active"  # the recommendation, on labels that label-next asked for
STEP = 5  # labels asked for at a time
MOST = 100  # nobody lets a program choose more one handful after another


def active_samples(
    pool: CalibratedPool, labels: Ints, budgets: Sequence[int], rate: float, repetition: int
) -> Iterator[LabeledSample]:
    """Yield the labeled sample at every budget up to MOST, in increasing order, each an extension of the one
    before.

    labels (N,) may be UNLABELED in part. Wrong labels are drawn once for the whole pool: asking earlier or
    later does not change them.
    """
    labeled = np.flatnonzero(labels != UNLABELED)
    observed = labels.copy()
    observed[labeled] = corrupt_labels(labels[labeled], pool.n_classes, rate, repetition)
    sample, hidden = NO_LABELS, np.flatnonzero(labels == UNLABELED)
    for n in sorted(budget for budget in budgets if budget <= min(MOST, len(labeled))):
        while sample.n < n:
            verdict = calibrate(pool, sample)
            _, doubt = recommendation(verdict)
            done = np.concatenate([sample.rows, hidden])
            plan = label_next(pool, verdict, doubt.best, done, min(STEP, n - sample.n), seed=repetition)
            rows = np.concatenate([sample.rows, plan.rows])
            sample = LabeledSample(rows, observed[rows])
        yield sample
