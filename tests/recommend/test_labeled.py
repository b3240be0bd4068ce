"""Many labels of many classes: a few images at a time give what all at once gives, and hold little."""

import numpy as np
import pytest

from engine.recommend import labeled
from engine.recommend.calibrated import Calibrated, calibrate
from engine.recommend.hypotheses import CalibratedPool, calibrated_pool, soften
from engine.recommend.suspects import Suspect, picks_without, suspects
from engine.rules.statistics import pool_statistics
from engine.types import Floats, LabeledSample
from tests.families import softmax

LIMIT = 3000


LOGITS = 5 * np.random.default_rng(0).normal(size=(200, 6))


@pytest.fixture(scope="module")
def pool() -> CalibratedPool:
    noise = 2 * np.random.default_rng(1).normal(size=LOGITS.shape)
    candidates = softmax(np.stack([LOGITS, 0.5 * LOGITS, LOGITS + noise]))
    return calibrated_pool(softmax(LOGITS), pool_statistics(softmax(LOGITS), candidates))


@pytest.fixture(scope="module")
def sample() -> LabeledSample:
    """Right labels, but for three."""
    labels = LOGITS[:60].argmax(axis=1)
    labels[[3, 17, 40]] = LOGITS[[3, 17, 40]].argmin(axis=1)
    return LabeledSample(np.arange(60), labels)


def verdict_of(
    pool: CalibratedPool, sample: LabeledSample
) -> tuple[Calibrated, Floats, list[tuple[int, int]]]:
    verdict = calibrate(pool, sample)
    found: list[Suspect] = suspects(pool, verdict, sample)
    return verdict, picks_without(pool, verdict, sample), [(one.row, one.likely) for one in found]


def test_in_parts_and_at_once(
    pool: CalibratedPool, sample: LabeledSample, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, picks, listed = verdict_of(pool, sample)
    held = []

    def soften_and_note(log_refs: Floats, temperature: Floats, bias: Floats) -> Floats:
        held.append(log_refs.size)
        return soften(log_refs, temperature, bias)

    for module in ("labeled", "calibrated", "shares"):
        monkeypatch.setattr(f"engine.recommend.{module}.AT_ONCE", LIMIT)
        monkeypatch.setattr(f"engine.recommend.{module}.soften", soften_and_note)
    parts, picks_in_parts, listed_in_parts = verdict_of(pool, sample)
    for name in ("scores", "weights", "bias", "expected", "usual", "residuals", "belief"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(picks_in_parts, picks)
    assert listed_in_parts == listed
    assert listed
    assert max(held) <= LIMIT < 60 * pool.n_classes * len(pool.ref)


def test_few_labels_are_made_once_and_none_is_no_label(pool: CalibratedPool) -> None:
    few = labeled.LabeledReferences(pool, LabeledSample(np.arange(4), np.arange(4)), pool.bias)
    weights = np.exp(pool.log_prior)
    expected = np.einsum("h,hnk->nk", weights, pool.references(np.arange(4)))
    np.testing.assert_allclose(few.mean(weights), expected)
    assert few._only is few._only
    none = labeled.LabeledReferences(pool, LabeledSample(np.arange(0), np.arange(0)), pool.bias)
    assert none.mean(weights).shape == (0, pool.n_classes)
    assert none.at_labels().shape == (len(pool.ref), 0)
