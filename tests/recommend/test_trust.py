"""What is held of wrong labels for each way of making them."""

import numpy as np
import pytest

from engine.recommend.trust import CONFUSION_ODDS, IN_WORDS, error_prior, label_trust
from engine.types import LABEL_TRUSTS, LabelTrust, UserError


def odds(trust: LabelTrust) -> np.ndarray:
    weights = np.exp(error_prior(trust, 10).log_odds)
    return weights / weights.sum()


def test_checked_labels_are_right() -> None:
    prior = error_prior("checked", 10)
    assert prior.rates.tolist() == [0]
    assert not prior.confused.any()


def test_a_crowd_is_expected_to_err_more() -> None:
    means = {trust: odds(trust) @ error_prior(trust, 10).rates for trust in LABEL_TRUSTS}
    clean = {trust: odds(trust)[error_prior(trust, 10).rates == 0].sum() for trust in LABEL_TRUSTS}
    assert means["checked"] == 0 < means["crowd"]
    assert clean["checked"] == 1 > clean["normal"] > clean["crowd"]


def test_normal_holds_every_rate_alike_and_confusions_for_rare() -> None:
    prior = error_prior("normal", 10)
    assert np.unique(prior.symmetric.log_odds).tolist() == [0]
    assert np.exp(prior.log_odds[prior.confused]) == pytest.approx(CONFUSION_ODDS)
    assert 0 not in prior.rates[prior.confused]


def test_rates_stop_short_of_saying_nothing() -> None:
    assert error_prior("normal", 2).rates.max() == pytest.approx(0.4)
    assert error_prior("crowd", 1000).rates.max() == pytest.approx(0.5)


def test_words_are_known_and_others_refused() -> None:
    assert {label_trust(word) for word in LABEL_TRUSTS} == set(IN_WORDS)
    with pytest.raises(UserError, match="checked, normal, crowd"):
        label_trust("sure")
