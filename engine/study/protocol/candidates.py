"""One row per candidate of a family: what it costs, how it behaves on the pool and how good it really is on
the test part.

Sees one family's predictions. Regimes, cost frontiers and calibration audits are read off this table.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.decide.choose import statistics_of
from engine.diagnose.health import COLLAPSE_FACTOR, reliability
from engine.family.kinds import traits_of
from engine.rules.theory import identity_errors, measure_attenuation
from engine.study.protocol.config import StudyConfig
from engine.study.protocol.truth import measure_truth
from engine.types import UNLABELED, Predictions

CANDIDATE_COLUMNS = (
    "family",
    "candidate",
    "name",
    "bits",
    "granularity",
    "cost",
    "n_classes",
    "loss",
    "accuracy",
    "ece",
    "confidence",
    "distinct",
    "agreement",
    "distortion",
    "collapsed",
)
ATTENUATION_COLUMNS = ("family", "rate", "predicted", "label_part", "accuracy", "identity_error")
_ATTENUATION_RATES = (0.1, 0.2, 0.3, 0.4)  # the paper's
_THEORY_VALUES = (
    20_000_000  # probabilities taken into the checks of the theory; more rows would only cost memory
)


def describe_candidates(
    predictions: Predictions, config: StudyConfig, *, name: str = "family"
) -> pd.DataFrame:
    """Return one row per candidate with the columns CANDIDATE_COLUMNS.

    loss, accuracy and ece (15 bins) come from the test part; confidence, distinct, agreement and distortion
    from the pool. bits and granularity are empty when the names are not candidate slugs. Raises UserError
    without a test part.
    """
    floor = config.floors[0]
    truth, pool = measure_truth(predictions, floor=floor), statistics_of(predictions, floor=floor)
    assert predictions.candidates_test is not None
    assert predictions.labels_test is not None
    labels = predictions.labels_test
    table = pd.DataFrame(
        {
            "candidate": np.arange(predictions.n_candidates),
            "name": predictions.names,
            "cost": np.nan if predictions.cost is None else predictions.cost,
            "n_classes": predictions.n_classes,
            "loss": truth.loss,
            "accuracy": truth.accuracy,
            "ece": [reliability(probs, labels).ece for probs in predictions.candidates_test],
            "confidence": np.mean(pool.confidence, axis=1),
            "distinct": [len(np.unique(row)) / len(row) for row in pool.confidence],
            "agreement": np.mean(pool.agrees, axis=1),
            "distortion": pool.distortion,
            "collapsed": truth.accuracy <= COLLAPSE_FACTOR / predictions.n_classes,
        }
    )
    return table.assign(family=name, **_recipe_columns(predictions.names))[list(CANDIDATE_COLUMNS)]


def _recipe_columns(names: tuple[str, ...]) -> dict[str, list[float] | list[str]]:
    found = [traits_of(name) for name in names]
    return {
        "bits": [np.nan if traits is None or traits.bits is None else float(traits.bits) for traits in found],
        "granularity": ["" if traits is None else traits.granularity or "" for traits in found],
    }


def check_theory(predictions: Predictions, *, name: str = "family") -> pd.DataFrame:
    """Return one row per corruption rate: predicted and measured attenuation, and the largest error of the
    identities.

    Uses the labeled rows of the pool; empty if there are none.
    """
    most = max(2, _THEORY_VALUES // (predictions.n_candidates * predictions.n_classes))
    rows = np.flatnonzero(predictions.labels != UNLABELED)[:most]
    if not len(rows):
        return pd.DataFrame(columns=list(ATTENUATION_COLUMNS))
    teacher, candidates, labels = (
        predictions.teacher[rows],
        predictions.candidates[:, rows],
        predictions.labels[rows],
    )
    errors = identity_errors(teacher, candidates, labels)
    measured = [measure_attenuation(teacher, candidates, labels, rate) for rate in _ATTENUATION_RATES]
    return pd.DataFrame(
        {
            "family": name,
            "rate": _ATTENUATION_RATES,
            "predicted": [m.predicted for m in measured],
            "label_part": [m.label_part for m in measured],
            "accuracy": [m.accuracy for m in measured],
            "identity_error": max(errors.quadratic, errors.teacher_part, errors.split),
        }
    )
