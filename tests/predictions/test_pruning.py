"""Giving up early: the promised error holds in simulation, collapsed candidates go within a few images, good
ones never.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from engine.family.recipes import standard_family
from engine.predictions import runner
from engine.predictions.gather import predict
from engine.predictions.pruning import ERROR, HopelessTest
from engine.target import open_images
from tests.tiny_teacher import tiny_teacher

K = 7


def sure(classes: np.ndarray, confidence: float) -> np.ndarray:
    """Probabilities with the given confidence in the given classes."""
    rest = (1 - confidence) / (K - 1)
    return np.where(np.eye(K)[classes] == 1, confidence, rest)


def given_up(teacher: np.ndarray, candidate: np.ndarray, n_candidates: int = 72) -> int | None:
    test = HopelessTest(n_candidates, K)
    for i in range(len(teacher)):
        if test.is_hopeless(teacher[i : i + 1], candidate[i : i + 1]):
            return i + 1
    return None


def test_a_sure_and_wrong_candidate_goes_within_a_few_images() -> None:
    teacher = sure(np.arange(200) % K, 0.9)
    assert (given_up(teacher, sure(np.zeros(200, int), 0.999)) or 999) < 40


def test_useful_candidates_stay() -> None:
    rng = np.random.default_rng(0)
    classes = np.arange(2000) % K
    teacher = sure(classes, 0.8)
    noisy = np.where(rng.random(2000) < 0.35, rng.integers(0, K, 2000), classes)
    assert given_up(teacher, teacher) is None
    assert given_up(teacher, np.full((2000, K), 1 / K)) is None
    assert given_up(teacher, sure(noisy, 0.7)) is None


def test_batches_do_not_matter() -> None:
    rng = np.random.default_rng(1)
    teacher, candidate = rng.dirichlet(np.ones(K), 64), rng.dirichlet(np.full(K, 0.2), 64)
    one, whole = HopelessTest(72, K), HopelessTest(72, K)
    for i in range(0, 64, 4):
        one.is_hopeless(teacher[i : i + 4], candidate[i : i + 4])
    whole.is_hopeless(teacher, candidate)
    np.testing.assert_allclose(one._capital, whole._capital)


@pytest.mark.slow
def test_the_promised_error_holds_where_it_is_hardest_to_keep() -> None:
    """Candidates exactly at the line, E[x] = 0: right and wrong answers balanced so that the mean excess is
    zero.
    """
    rng = np.random.default_rng(2)
    # x when right, x when wrong, for a certain teacher
    excess = [-np.log(c) - np.log(K) for c in (0.9, (1 - 0.9) / (K - 1))]
    p_wrong = -excess[0] / (min(excess[1], 2.0) - excess[0])
    lost = 0
    n_runs, n_images = 1500, 600
    for _ in range(n_runs):
        wrong = rng.random(n_images) < p_wrong
        teacher = sure(np.zeros(n_images, int), 1 - 1e-9)
        candidate = sure(np.where(wrong, 1, 0), 0.9)
        test = HopelessTest(1, K)
        lost += any(
            test.is_hopeless(teacher[i : i + 60], candidate[i : i + 60]) for i in range(0, n_images, 60)
        )
    assert lost <= n_runs * ERROR + 3 * np.sqrt(n_runs * ERROR)


@pytest.mark.parametrize("workers", [1, 2])
def test_predict_gives_up_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, workers: int
) -> None:
    monkeypatch.setattr(runner, "_SMALL", 0.0)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 256, (600, 16, 16, 3), dtype=np.uint8))
    teacher, images = tiny_teacher(gain=400.0), open_images(tmp_path / "x.npy")
    family = standard_family()[:12] + standard_family()[60:]
    whole = predict(teacher, family, images, store=tmp_path / "whole", workers=workers)
    with caplog.at_level(logging.WARNING):
        raced = predict(
            teacher, family, images, store=tmp_path / "raced", workers=workers, give_up_hopeless=True
        )
    assert whole.missing == ()
    assert 0 < len(raced.missing) < len(family)
    assert all(f"{name} counts as missing: given up after" in caplog.text for name in raced.missing)
    assert all(reason.startswith("given up after") for reason in raced.missing_reasons)
    for name, probs in zip(raced.names, raced.candidates, strict=True):
        np.testing.assert_array_equal(probs, whole.candidates[whole.names.index(name)])
