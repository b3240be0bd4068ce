"""What the Collapse page says, against numbers found by other code, on shipped families and made ones.

Each sentence is read back: what it claims must hold, and where its claim is false it must not be said.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import pytest

from engine.decide.choose import statistics_of
from engine.decide.decision import decide
from engine.diagnose.collapse import CollapseReport, collapse_report
from engine.diagnose.collapse_words import (
    collapsed_title,
    regime_sentence,
    regime_title,
    single_class_words,
    surest_words,
    widths_title,
)
from engine.diagnose.health import Regime, candidate_health, collapse_rates, degradation_regime
from engine.predictions.file import load_sample_predictions, make_predictions
from engine.rules.sampling import draw_sample
from engine.rules.statistics import pool_statistics
from engine.samples import sample_names
from engine.types import LabeledSample, Predictions
from tests.families import random_family, softmax
from tests.synthetic_family import synthetic_predictions

# Made so that one thing is true of each that is false of most others.
MADE = ("timid", "healthy", "backwards", "constant", "surer-yet-worse", "unsure-collapse")


@dataclass(frozen=True, eq=False)
class Said:
    """A family with what is said of it, and the arrays to hold that against."""

    family: Predictions
    sample: LabeledSample | None
    report: CollapseReport
    right: np.ndarray  # (M,) accuracy on the labels, or agreement with the teacher
    confidence: np.ndarray  # (M,)
    order: np.ndarray  # (M,) loss on the labels, or distance to the teacher


def made_family(kind: str) -> Predictions:
    """Four to six candidates on 200 images of 5 classes, from sure to unsure and good to bad as named."""
    rng = np.random.default_rng(len(kind))
    labels = rng.integers(0, 5, 200)
    signal = 4 * np.eye(5)[labels] + rng.normal(size=(200, 5))
    noise = rng.normal(size=(6, 200, 5))
    stuck = np.eye(5)[np.zeros(200, dtype=int)]
    logits = {
        "timid": [0.05 * noise[0], 0.2 * signal, 0.5 * signal, signal],
        "healthy": [signal + 0.2 * n for n in noise],
        "backwards": [0.3 * signal, 1.2 * signal + 4 * noise[1], 2 * signal + 9 * noise[2]],
        "constant": [signal, signal, signal],
        "surer-yet-worse": [30 * stuck, 0.02 * noise[0], 0.05 * noise[1], 0.6 * signal, 0.8 * signal, signal],
        "unsure-collapse": [0.9 * stuck + 0.1 * noise[0], 0.02 * signal, 0.03 * signal + 0.01 * noise[1]],
    }[kind]
    return make_predictions(softmax(signal), softmax(np.array(logits)), labels=labels)


def family_of(name: str) -> Predictions:
    kind, _, seed = name.partition(":")
    if kind == "random":
        return random_family(int(seed), n_images=120)
    if kind in MADE:
        return made_family(kind)
    return synthetic_predictions() if kind == "synthetic" else load_sample_predictions(name)


SHIPPED = [name for name in sample_names() if name.startswith(("digits", "pacs"))][:5]
FAMILIES = [*SHIPPED, "synthetic", "random:0", "random:1", *MADE]


@cache
def said_of(name: str, n: int) -> Said:
    family = family_of(name)
    sample = draw_sample(family.labels, n, n_classes=family.n_classes) if n else None
    pool = statistics_of(family)
    decision = decide(family, pool, sample, skip=("cot",))
    answers, teacher = family.candidates.argmax(axis=2), family.teacher.argmax(axis=1)
    right = (answers == teacher) if sample is None else (answers[:, sample.rows] == sample.labels)
    column = "distortion" if sample is None else "loss"
    return Said(
        family=family,
        sample=sample,
        report=collapse_report(family, pool, sample, decision.candidates),
        right=right.mean(axis=1),
        confidence=family.candidates.max(axis=2).mean(axis=1, dtype=np.float64),
        order=np.asarray(decision.candidates[column]),
    )


@pytest.fixture(params=[(name, n) for name in FAMILIES for n in (0, 30)], ids=lambda p: f"{p[0]}-{p[1]}")
def said(request: pytest.FixtureRequest) -> Said:
    return said_of(*request.param)


def percents(sentence: str) -> list[int]:
    return [int(number) for number in re.findall(r"(\d+) %", sentence)]


def correlation(said: Said) -> float:
    if np.ptp(said.right) == 0 or np.ptp(said.confidence) == 0:
        return float("nan")
    return float(np.corrcoef(said.right, said.confidence)[0, 1])


def test_the_regime_says_what_the_numbers_say(said: Said) -> None:
    title, sentence = regime_title(said.report.regime), regime_sentence(said.report.regime)
    r, (best, worst) = correlation(said), (int(said.order.argmin()), int(said.order.argmax()))
    chance = 1 / said.family.n_classes
    has_collapsed = bool((said.right <= 1.5 * chance).any())
    claims = {
        "surer than the best one (": said.confidence[worst] > said.confidence[best],
        "not surer than the best": said.confidence[worst] <= said.confidence[best],
        "close to backwards": r < -0.75,
        "worse candidates before better": r < -0.25,
        "says little about which": not r < -0.25,
        "falls along with": r > 0.5,
        "usable hint": r > 0.5 and said.confidence[worst] <= said.confidence[best],
        "loosely related": abs(r) <= 0.5,
        "tend to be surer": r < -0.5,
        "the same for every candidate": np.isnan(r),
        "No candidate is": not has_collapsed,
        "rises with it": r > 0.5,
        "says little about it": abs(r) <= 0.5,
        "tend to be the surer ones": r < -0.5,
    }
    assert any(words in sentence for words in claims)
    for words, is_true in claims.items():
        assert is_true or words not in sentence, words
    titles = {
        "Sure and wrong": said.confidence[worst] >= 0.5 and said.right[worst] < said.confidence[worst],
        "Sure, and unlike": said.confidence[worst] >= 0.5 and said.right[worst] < said.confidence[worst],
        "not the least sure": said.confidence[worst] > said.confidence[best],
        "Confidence falls with": r > 0.5,
        "the surer, on average": r < -0.5,
        "has collapsed": not has_collapsed,
        "No collapse": not has_collapsed,
    }
    for words, is_true in titles.items():
        assert is_true or words not in title, words
    assert "bit" not in title + sentence.lower()
    if said.sample is None:  # nobody knows what is right
        assert not re.search("wrong|accuracy|guessing", title + sentence)


def test_figures_in_the_regime_are_those_of_the_candidates(said: Said) -> None:
    sentence = regime_sentence(said.report.regime)
    best, worst = int(said.order.argmin()), int(said.order.argmax())
    if "surer than the best one" in sentence:
        shown = [100 * said.confidence[worst], 100 * said.confidence[best]]
    elif "runs from" in sentence:
        shown = [100 * said.right.min(), 100 * said.right.max()]
    else:
        return
    assert percents(sentence) == pytest.approx(shown, abs=1)


def test_the_closest_to_the_teacher_is_the_closest(said: Said) -> None:
    follows = next(verdict for verdict in said.report.assumptions if verdict.rule == "distortion")
    if said.sample is None:
        assert follows.holds is None
        return
    teacher, candidates = (
        np.maximum(np.asarray(probs, np.float64), 1e-8)
        for probs in (said.family.teacher, said.family.candidates)
    )
    distance = (teacher * (np.log(teacher) - np.log(candidates))).sum(axis=2).mean(axis=1)
    shown = [100 * said.right[int(distance.argmin())], 100 * said.right.max()]
    assert percents(follows.sentence) == pytest.approx(shown, abs=1)


def test_titles_count_what_has_collapsed(said: Said) -> None:
    report, is_proxy = said.report, said.sample is None
    collapsed = said.right <= 1.5 / said.family.n_classes
    title = collapsed_title(report.n_collapsed, len(report.health), is_proxy=is_proxy)
    if collapsed.any():
        assert title.startswith(f"{collapsed.sum()} of {len(collapsed)} candidate")
    else:
        assert title.startswith("No candidate")
    assert not (is_proxy and "guessing" in title)
    if not len(report.rates):
        return
    bits = [int(name[1]) for name in said.family.names if re.match(r"b\d-", name)]
    hit = {b for b, bad in zip(bits, collapsed, strict=True) if bad} if len(bits) == len(collapsed) else None
    widths = widths_title(report.rates)
    if hit is not None and "only" in widths:
        assert {int(b) for b in re.findall(r"\d+", widths)} == hit
        assert hit < set(bits)
    elif hit is not None:
        assert ("No candidate" in widths) == (not hit)
        assert ("every bit width" in widths) == (hit == set(bits))


def test_the_surest_is_described_by_its_own_figures(said: Said) -> None:
    pick = int(said.confidence.argmax())
    row = said.report.health.iloc[pick]
    words = surest_words(row["name"], row["confidence"], row["quality"], is_proxy=said.sample is None)
    assert said.family.names[pick] in words
    shown = [100 * said.confidence[pick], 100 * said.right[pick]]
    assert percents(words.replace(said.family.names[pick], "")) == pytest.approx(shown, abs=1)


def test_the_families_differ_in_what_is_true_of_them() -> None:
    """A sentence that is said of all of them, or of none, would not be tested."""
    titles = Counter(regime_title(said_of(name, n).report.regime) for name in FAMILIES for n in (0, 30))
    assert len(titles) >= 6
    sentences = [regime_sentence(said_of(name, 30).report.regime) for name in FAMILIES]
    for words in ("surer than the best one", "usable hint", "No candidate is near guessing"):
        n = sum(words in sentence for sentence in sentences)
        assert 0 < n < len(sentences), words


def test_a_sure_candidate_that_is_right_is_not_called_wrong() -> None:
    """The title once followed from the order of two confidences alone."""
    fields = {"correlation": 0.1, "collapsed_distinct": 0.5, "is_proxy": False, "lowest": 0.1, "highest": 0.9}
    sure = Regime("overconfident", worst_confidence=0.6, best_confidence=0.5, worst_quality=0.7, **fields)
    unsure = Regime("overconfident", worst_confidence=0.22, best_confidence=0.2, worst_quality=0.1, **fields)
    wrong = Regime("overconfident", worst_confidence=0.9, best_confidence=0.5, worst_quality=0.1, **fields)
    assert [regime_title(r) == "Sure and wrong" for r in (sure, unsure, wrong)] == [False, False, True]


@pytest.mark.parametrize("r", [-0.9, -0.6, 0.0, 0.4, float("nan")])
def test_mixed_families_are_not_all_called_loosely_related(r: float) -> None:
    fields = {"collapsed_distinct": 0.5, "is_proxy": False, "lowest": 0.1, "highest": 0.9}
    regime = Regime("mixed", r, worst_confidence=0.3, best_confidence=0.5, worst_quality=0.1, **fields)
    assert ("loosely" in regime_sentence(regime)) == (abs(r) <= 0.5)


def test_bit_widths_in_words() -> None:
    def title(names: list[str], collapsed: list[bool]) -> str:
        rates = [vars(rate) for rate in collapse_rates(names, np.array(collapsed))]
        return widths_title(pd.DataFrame(rates))

    names = ["b2-tensor-q99", "b3-tensor-q99", "b8-tensor-q99", "b8-channel-q99"]
    assert title(names, [True, True, False, False]) == "Candidates have collapsed at 2 and 3 bits only"
    assert title(names, [False] * 4) == "No candidate has collapsed at any bit width"
    assert "most often at 2 and 3 bits (100 % of them)" in title(names, [True, True, True, False])
    assert title(names, [True] * 4) == "100 % of the candidates have collapsed at every bit width"


@pytest.mark.parametrize(
    ("n", "words"), [(0, "No candidate gives"), (1, "1 candidate gives"), (2, "s give ")]
)
def test_one_class_for_nearly_every_image(n: int, words: str) -> None:
    assert words in single_class_words(n, float("nan"))
    assert "nan" not in single_class_words(n, float("nan"))
    assert "4 % of the images" in single_class_words(n, 0.04)


def test_a_regime_is_measured_as_it_is_said(said: Said) -> None:
    pool = pool_statistics(said.family.teacher, said.family.candidates)
    regime = degradation_regime(candidate_health(pool, said.sample), said.order)
    assert (regime.lowest, regime.highest) == pytest.approx((said.right.min(), said.right.max()))
    assert regime.worst_quality == pytest.approx(said.right[int(said.order.argmax())])
