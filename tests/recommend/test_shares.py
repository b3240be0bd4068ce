"""Learned class shares: the derived slope against finite differences. That they find an imbalance is in
test_calibrated.
"""

import numpy as np
import pytest

from engine.recommend.channel import at_labels
from engine.recommend.shares import label_slope
from engine.recommend.trust import ErrorPrior, error_prior
from engine.types import LabelTrust
from tests.families import softmax


def height(logits: np.ndarray, bias: np.ndarray, labels: np.ndarray, prior: ErrorPrior) -> float:
    """Log likelihood of the labels with η summed out by its odds."""
    right = at_labels(softmax(logits + bias)[None], labels)[0]
    k = logits.shape[1]
    terms = [
        odds + np.log((1 - rate) * right + rate / (k - 1) * (1 - right)).sum()
        for rate, odds in zip(prior.rates, prior.log_odds, strict=True)
    ]
    return float(np.logaddexp.reduce(terms))


@pytest.mark.parametrize("trust", ["checked", "normal", "crowd"])
def test_the_slope_is_that_of_the_log_likelihood(trust: LabelTrust) -> None:
    rng = np.random.default_rng(1)
    logits, labels, bias = rng.normal(size=(12, 4)), rng.integers(0, 4, 12), rng.normal(size=4)
    prior = error_prior(trust, 4).symmetric
    slope = label_slope(softmax(logits + bias)[None], labels, prior)[0]
    for k in range(4):
        step = 1e-5 * np.eye(4)[k]
        above, below = (height(logits, bias + sign * step, labels, prior) for sign in (1, -1))
        assert slope[k] == pytest.approx((above - below) / 2e-5, abs=1e-5)
