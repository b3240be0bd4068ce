"""A family too large to hold: the same hypotheses, losses and picks, made block by block."""

import numpy as np
import pytest

from engine.decide.choose import choose
from engine.predictions.file import make_predictions
from engine.recommend import hypotheses, streamed
from engine.recommend.hypotheses import calibrated_pool
from engine.recommend.streamed import StreamedReferences
from engine.rules import streaming
from engine.rules.statistics import CORRELATION, DISTORTION, pool_statistics
from engine.types import LabeledSample
from tests.rules.test_streaming import Counted
from tests.synthetic_family import synthetic_predictions


@pytest.fixture
def stream(monkeypatch):
    """From now on every family counts as large, in many blocks and on several threads."""

    def start():
        monkeypatch.setattr(hypotheses, "BIG", 1)
        monkeypatch.setattr(streamed, "_BLOCK", 20_000)
        monkeypatch.setattr(hypotheses, "_BALANCE_VALUES", 1)
        monkeypatch.setattr(streaming, "_SERIAL", 0)

    return start


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_blocks_make_what_the_whole_makes(stream, dtype):
    family = synthetic_predictions(n_images=150)
    teacher, candidates = family.teacher.astype(dtype), family.candidates.astype(dtype)
    whole = calibrated_pool(teacher, pool_statistics(teacher, candidates))
    stream()
    parts = calibrated_pool(teacher, pool_statistics(teacher, candidates))
    assert isinstance(parts.log_refs, StreamedReferences)
    assert parts.log_refs.shape == whole.log_refs.shape
    np.testing.assert_allclose(parts.log_refs[:, 3:9], whole.log_refs[:, 3:9], rtol=1e-12)
    np.testing.assert_allclose(parts.log_refs[0, [7, 1]], whole.log_refs[0, [7, 1]], rtol=1e-12)
    np.testing.assert_allclose(parts.bias, whole.bias, rtol=1e-10)
    np.testing.assert_allclose(parts.confusion, whole.confusion, rtol=1e-10)
    np.testing.assert_allclose(parts.expected, whole.expected, rtol=1e-5)
    np.testing.assert_allclose(parts.contest, whole.contest, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_labels", [0, 10, 60])
def test_no_pick_moves(stream, seed, n_labels):
    family = synthetic_predictions(n_images=300, n_classes=20, seed=seed)
    stored = make_predictions(
        family.teacher.astype(np.float16), family.candidates.astype(np.float16), names=family.names
    )
    sample = LabeledSample(np.arange(n_labels), family.labels[:n_labels]) if n_labels else None
    before = {method: choose(method, stored, sample) for method in ("auto", "calibrated")}
    stream()
    for method, expected in before.items():
        found = choose(method, stored, sample)
        assert found.index == expected.index
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4, atol=1e-4)


def test_the_pool_is_gone_through_twice_and_rows_are_asked_for_once(stream):
    family = synthetic_predictions(n_images=4000, n_classes=8)
    counted = Counted(np.asarray(family.candidates))
    stream()
    pool = pool_statistics(family.teacher, counted)
    pool.need(DISTORTION, CORRELATION)
    prepared = calibrated_pool(family.teacher, pool)
    passes = sum(counted.read) / counted.values.size
    sampled = 2000 / 4000 + 512 / 4000  # where class shares are evened out, and where learned ones are tried
    assert passes <= 2.01 + sampled
    counted.read.clear()
    for _ in range(3):  # once a hypothesis
        prepared.references(np.arange(40))
    assert sum(counted.read) == len(counted) * 40 * 8
