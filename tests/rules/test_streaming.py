"""Statistics in blocks, in float32 and on demand: equal to loops and to numpy on the whole, and nothing read
in vain.
"""

import numpy as np
import pytest

from engine.decide.choose import METHODS, choose
from engine.decide.decision import decide
from engine.predictions.file import make_predictions
from engine.rules import streaming
from engine.rules.decoding import Decoder
from engine.rules.label_free import LABEL_FREE, passes_for
from engine.rules.statistics import BY_ROW, CORRELATION, DISTORTION, SPECTRUM, pool_statistics
from engine.types import LabeledSample
from tests import literal
from tests.families import random_arrays, softmax
from tests.synthetic_family import synthetic_predictions

STREAMED = [rule for rule in LABEL_FREE if rule != "cot"]


class Counted:
    """Candidates that note which values were asked for."""

    def __init__(self, values):
        self.values, self.read = values, []
        self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim

    def __len__(self):
        return len(self.values)

    def __getitem__(self, key):
        got = self.values[key]
        if isinstance(key, slice):  # a part of the candidates: nothing is read yet
            part = Counted(got)
            part.read = self.read
            return part
        self.read.append(got.size)
        return got


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_blocks_and_threads_agree_with_loops(monkeypatch, dtype):
    monkeypatch.setattr(streaming.blocks, "__defaults__", (40,))  # ten blocks
    monkeypatch.setattr(streaming, "_SERIAL", 0)
    teacher, candidates, _ = random_arrays(4, n_candidates=5, n_images=61, n_classes=6)
    teacher, candidates = teacher.astype(dtype), candidates.astype(dtype)
    expected = literal.label_free(teacher.astype(np.float64), candidates.astype(np.float64), 13)
    pool = pool_statistics(teacher, candidates, calibration=13)
    for rule in STREAMED:
        np.testing.assert_allclose(LABEL_FREE[rule].score(pool), expected[rule], atol=1e-9, err_msg=rule)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("seed", range(4))
def test_float32_for_big_families_moves_no_pick(monkeypatch, dtype, seed):
    family = synthetic_predictions(n_images=400, n_classes=30, seed=seed)
    stored = make_predictions(
        family.teacher.astype(dtype),
        family.candidates.astype(dtype),
        labels=family.labels,
        names=family.names,
    )
    sample = LabeledSample(np.arange(25), family.labels[:25])
    methods = [method for method in METHODS if method != "cot"]
    exact = [choose(method, stored, sample) for method in methods]
    monkeypatch.setattr(streaming, "BIG", 1)
    for method, before in zip(methods, exact, strict=True):
        after = choose(method, stored, sample)
        assert (after.index, after.ties) == (before.index, before.ties), method
        # ATC counts rows on one side of a threshold: one that lies on it may change sides
        slack = 1 / 400 if method.startswith("atc") else 1e-6
        np.testing.assert_allclose(after.scores, before.scores, rtol=1e-6, atol=slack, err_msg=method)


def test_every_float16_is_decoded_as_numpy_converts_it():
    # all that are finite and not negative
    every = np.arange(0, 0x7C00, dtype=np.uint16).view(np.float16)[None]
    decoder = Decoder(every.dtype, 1e-8)
    expected = np.maximum(every.astype(np.float64), 1e-8)
    out = np.empty(every.shape)
    np.testing.assert_array_equal(decoder.floored(every, out), expected)
    np.testing.assert_array_equal(decoder.logs(every, expected, out), np.log(expected))


@pytest.mark.parametrize("method", ["val-ce", "val-acc"])
def test_direct_validation_reads_labeled_rows_only(method):
    teacher, candidates, labels = random_arrays(0, n_images=300)
    counted = Counted(candidates)
    family = make_predictions(teacher, candidates, labels=labels)
    object.__setattr__(family, "candidates", counted)
    choice = choose(method, family, LabeledSample(np.arange(7), labels[:7]))
    assert sum(counted.read) == len(candidates) * 7 * 4
    assert (
        choice.index
        == choose(
            method, make_predictions(teacher, candidates), LabeledSample(np.arange(7), labels[:7])
        ).index
    )


def test_one_pass_makes_all_that_was_asked_for():
    teacher, candidates, _ = random_arrays(0, n_images=300)
    counted = Counted(candidates)
    pool = pool_statistics(teacher, counted)
    assert not counted.read
    pool.need(DISTORTION, BY_ROW, CORRELATION)
    for rule in ("distortion", "entropy", "atc-mc", "softmax-corr"):
        LABEL_FREE[rule].score(pool)
    assert sum(counted.read) == candidates.size
    assert passes_for(LABEL_FREE) == {DISTORTION, BY_ROW, CORRELATION, SPECTRUM}


def test_a_decision_reads_the_pool_once_for_its_statistics(family):
    counted = Counted(np.asarray(family.candidates))
    pool = pool_statistics(family.teacher, counted)
    decision = decide(family, pool, None, skip=("cot",))
    passes = sum(counted.read) / counted.values.size
    assert decision.recommended.index == choose("auto", family).index
    assert passes < 4.5  # one for the statistics, one again for collapsed spectra, the rest are auto's own


def test_progress_counts_candidates_and_stops_when_it_raises():
    teacher, candidates, _ = random_arrays(0)
    seen = []
    pool_statistics(teacher, candidates).need(DISTORTION, on_progress=lambda *report: seen.append(report))
    assert seen == [(m, 8) for m in range(1, 9)]

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool_statistics(teacher, candidates).need(DISTORTION, on_progress=stop)


def test_spectrum_of_a_collapsed_candidate_survives_blocks(monkeypatch):
    monkeypatch.setattr(streaming.blocks, "__defaults__", (60,))
    rng = np.random.default_rng(0)
    logits = np.zeros((400, 6))
    logits[:, 0] = 14 + rng.normal(size=400)  # singular values far below the digits that a Gram matrix keeps
    probs = softmax(logits)
    pool = pool_statistics(probs, probs[None])
    expected = np.linalg.svd(np.maximum(probs, 1e-8), compute_uv=False).sum()
    assert pool.spectrum_sum[0] == pytest.approx(expected, rel=1e-13)


def test_thousands_of_classes_on_few_rows_give_the_same_and_fill_no_memory() -> None:
    """SoftmaxCorr and the nuclear norm from QQᵀ; the oracle is numpy on QᵀQ, small enough to hold once."""
    probs = np.random.default_rng(0).dirichlet(np.full(2500, 0.05), (2, 6))
    found = streaming.stream(probs[0], probs, {"correlation", "spectrum"}, floor=1e-8)
    for m in range(2):
        floored = np.maximum(probs[m], 1e-8)
        gram = floored.T @ floored
        assert found["correlation"].trace[m] == pytest.approx(np.trace(gram), rel=1e-12)
        assert found["correlation"].norm[m] == pytest.approx(np.linalg.norm(gram), rel=1e-12)
        assert found["spectrum"][m] == pytest.approx(np.linalg.svd(floored, compute_uv=False).sum(), rel=1e-9)
