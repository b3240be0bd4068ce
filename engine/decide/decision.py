"""The decision: every rule's choice on the same evidence, and the one that is recommended.

Knows which rules apply. Formulas stay in the rules' own rooms; the tables that explain are in `tables`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.decide.choose import METHODS, RECOMMENDED, choose
from engine.decide.tables import candidates_table, rule_table
from engine.recommend.doubt import SURE
from engine.rules.label_free import HIGHEST_PRECISION, passes_for
from engine.rules.statistics import BY_ROW, DISTORTION, FLOOR, PoolStatistics
from engine.rules.supervised import SUPERVISED
from engine.types import Bools, Choice, LabeledSample, LabelTrust, Predictions, UserError


@dataclass(frozen=True, eq=False)
class Decision:
    """Every rule's choice on the same evidence, the one we recommend, and the tables that explain it."""

    recommended: Choice
    choices: Mapping[str, Choice]
    rules: pd.DataFrame
    candidates: pd.DataFrame
    teacher_loss: float | None  # mean -log q_f(y) on S; None without labels

    @property
    def n_labels(self) -> int:
        return self.recommended.n_labels

    @property
    def same(self) -> tuple[int, ...]:
        """Candidates that are as good as the recommended one for all we know, itself left out: within
        epsilon of the best as surely as 90 %, or as surely as the recommended one where that is less.

        Empty if the rule does not say.
        """
        close = self.candidates["probability_close"]
        enough = min(SURE, float(close.iloc[self.recommended.index]))
        return tuple(int(m) for m in close.index[close >= enough] if m != self.recommended.index)

    @property
    def cheapest(self) -> int | None:
        """The cheapest of the candidates that are as good as the recommended one, if it is another one."""
        cost = self.candidates["cost"]
        cheaper = [m for m in self.same if cost[m] < cost[self.recommended.index]]
        return min(cheaper, key=lambda m: (cost[m], m)) if cheaper else None


def decide(
    predictions: Predictions,
    pool: PoolStatistics,
    sample: LabeledSample | None,
    admissible: Bools | None = None,
    *,
    skip: Collection[str] = (),
    trust: LabelTrust = "normal",
) -> Decision:
    """Run every rule that the evidence allows except those to `skip`, and gather the tables.

    `trust` says how the labels were made.

    Raises UserError if no candidate is admissible.
    """
    given = sample if sample is not None and sample.n else None
    choices: dict[str, Choice] = {}
    methods = [m for m in METHODS if m not in skip and (m not in SUPERVISED or given is not None)]
    pool.need(DISTORTION, BY_ROW, *passes_for(methods))  # one pass for all of them and for the table
    for method in methods:
        try:
            choices[method] = choose(
                method, predictions, given, pool=pool, admissible=admissible, trust=trust
            )
        except UserError:
            # The only rule that may not apply to foreign candidates: it needs slugs or costs to know the
            # precision.
            if method != HIGHEST_PRECISION:
                raise
    recommended = choices[RECOMMENDED]
    candidates = candidates_table(predictions, pool, given, choices, admissible)
    return Decision(
        recommended=recommended,
        choices=choices,
        rules=rule_table(choices, candidates),
        candidates=candidates,
        teacher_loss=teacher_loss(predictions, given),
    )


def teacher_loss(predictions: Predictions, sample: LabeledSample | None) -> float | None:
    """Return the float teacher's mean -log q_f(y) on S, or None without labels."""
    if sample is None or not sample.n:
        return None
    right = np.asarray(predictions.teacher[sample.rows], dtype=np.float64)[np.arange(sample.n), sample.labels]
    return float(np.mean(-np.log(np.maximum(right, FLOOR))))
