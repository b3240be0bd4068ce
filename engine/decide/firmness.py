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
from engine.types import Bools, LabeledSample, Predictions, Progress

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
    on_progress: Progress | None = None,
) -> pd.DataFrame:
    """Redraw a share `rate` of wrong labels DRAWS times and count how often each rule keeps its pick.

    Returns columns rule, pick, kept (share of draws with the same pick), other (most frequent other pick, ""
    if none). `on_progress` counts draws.
    """

    def picks(given: LabeledSample) -> dict[str, str]:
        return {
            rule: choose(rule, predictions, given, pool=pool, admissible=admissible).name for rule in rules
        }

    own, again = picks(sample), []
    for draw in range(DRAWS):  # all rules on one draw, which they then read once
        wrong = corrupt_labels(sample.labels, predictions.n_classes, rate, draw)
        again.append(picks(LabeledSample(sample.rows, wrong)))
        if on_progress is not None:
            on_progress(draw + 1, DRAWS)
    return pd.DataFrame(
        [_firmness(rule, pick, [picked[rule] for picked in again]) for rule, pick in own.items()]
    )


def _firmness(rule: str, pick: str, again: Sequence[str]) -> dict[str, object]:
    counts = Counter(again)
    kept = counts.pop(pick, 0)
    other = counts.most_common(1)[0][0] if counts else ""
    return {"rule": rule, "pick": pick, "kept": kept / len(again), "other": other}
