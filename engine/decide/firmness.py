"""How firm a pick is if some labels are wrong: make them wrong on purpose, many times, and choose again.

Sees predictions and a labeled sample. Knows nothing of which labels are wrong in truth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from engine.decide.choose import choose
from engine.rules.sampling import corrupt_labels
from engine.rules.statistics import PoolStatistics
from engine.types import Bools, LabeledSample, Predictions

DRAWS = 20
RULES = ("auto", "ce-combo", "val-ce", "val-acc")


def firmness_table(
    predictions: Predictions,
    pool: PoolStatistics,
    sample: LabeledSample,
    rate: float,
    *,
    rules: Sequence[str] = RULES,
    admissible: Bools | None = None,
) -> pd.DataFrame:
    """Redraw a share `rate` of wrong labels DRAWS times and count how often each rule keeps its pick.

    Returns columns rule, pick, kept (share of draws with the same pick), other (most frequent other pick, ""
    if none).
    """
    drawn = [
        LabeledSample(sample.rows, corrupt_labels(sample.labels, predictions.n_classes, rate, draw))
        for draw in range(DRAWS)
    ]
    rows = []
    for rule in rules:
        pick = choose(rule, predictions, sample, pool=pool, admissible=admissible).name
        again = Counter(
            choose(rule, predictions, wrong, pool=pool, admissible=admissible).name for wrong in drawn
        )
        kept = again.pop(pick, 0)
        rows.append(
            {
                "rule": rule,
                "pick": pick,
                "kept": kept / DRAWS,
                "other": again.most_common(1)[0][0] if again else "",
            }
        )
    return pd.DataFrame(rows)
