"""Regret of `auto` and `calibrated` relative to the paper's rules on the shipped sample families, same subsets for all."""

from collections.abc import Iterator

import numpy as np

from engine.choose import choose, statistics_of
from engine.pool import FLOOR
from engine.predictions import load_predictions
from engine.samples import FOLDER
from engine.sampling import draw_sample
from engine.types import Predictions

RULES = ("val-ce", "val-acc", "ce-combo", "alignment", "calibrated", "auto")
BUDGETS, RATES = (10, 25, 50, 100, 300), (0.0, 0.2, 0.4)


def _regrets(predictions: Predictions) -> np.ndarray:
    assert predictions.candidates_test is not None
    assert predictions.labels_test is not None
    probs = predictions.candidates_test[:, np.arange(len(predictions.labels_test)), predictions.labels_test]
    losses = -np.log(np.maximum(np.asarray(probs, dtype=np.float64), FLOOR)).mean(axis=1)
    return losses - losses.min()


def _family(predictions: Predictions, repetitions: int) -> np.ndarray:
    """Mean regret (rules, budgets, rates) of one family."""
    regrets, pool = _regrets(predictions), statistics_of(predictions)
    means = np.full((len(RULES), len(BUDGETS), len(RATES)), np.nan)
    for i, n in enumerate(BUDGETS):
        for j, rate in enumerate(RATES):
            if n > predictions.n_images:
                continue
            draws = range(repetitions)
            samples = [draw_sample(predictions.labels, n, n_classes=predictions.n_classes, rate=rate, repetition=r) for r in draws]
            for k, rule in enumerate(RULES):
                means[k, i, j] = np.mean([regrets[choose(rule, predictions, sample, pool=pool).index] for sample in samples])
    return means


def main(*, quick: bool = False) -> Iterator[str]:
    families = [load_predictions(path) for path in sorted(FOLDER.glob("*.npz"))]
    usable = [family for family in families if family.has_test and (family.labels >= 0).all()]
    if not usable:
        yield "No sample predictions with a test part are here."
        return
    means = np.nanmean([_family(family, 1 if quick else 10) for family in usable[: 1 if quick else None]], axis=0)
    combo = np.nanmean(means[RULES.index("ce-combo")])
    yield f"Mean over {len(usable)} families, budgets {BUDGETS} and rates {RATES}."
    yield "| rule | mean regret | relative to CE-combo | n=10 clean |"
    yield "|---|---|---|---|"
    for rule, values in zip(RULES, means, strict=True):
        yield f"| {rule} | {np.nanmean(values):.3f} | {np.nanmean(values) / combo:.2f} | {values[0, 0]:.3f} |"
