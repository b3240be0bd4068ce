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
from engine.types import UNLABELED, Ints, LabeledSample, LabelTrust

ACTIVE = f"{AUTO}-active"  # the recommendation, on labels that label-next asked for
STEP = 5  # labels asked for at a time
MOST = 100  # nobody lets a program choose more one handful after another


def active_samples(
    pool: CalibratedPool,
    observed: Ints,
    budgets: Sequence[int],
    *,
    seed: int,
    trust: LabelTrust = "normal",
) -> Iterator[LabeledSample]:
    """Yield the labeled sample at every budget up to MOST, in increasing order, each an extension of the one
    before.

    observed (N,) are the labels that are given when asked for, right or wrong, UNLABELED where nobody can.
    """
    hidden = np.flatnonzero(observed == UNLABELED)
    sample, most = NO_LABELS, min(MOST, len(observed) - len(hidden))
    for n in sorted(budget for budget in budgets if budget <= most):
        while sample.n < n:
            verdict = calibrate(pool, sample, trust)
            _, doubt = recommendation(verdict)
            done = np.concatenate([sample.rows, hidden])
            plan = label_next(pool, verdict, doubt.best, done, min(STEP, n - sample.n), seed=seed)
            rows = np.concatenate([sample.rows, plan.rows])
            sample = LabeledSample(rows, observed[rows])
        yield sample
