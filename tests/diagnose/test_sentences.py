"""What the Collapse page says, against the numbers, on ten families: shipped ones and made ones."""

from __future__ import annotations

import re

import numpy as np
import pytest

from engine.decide.choose import statistics_of
from engine.decide.decision import decide
from engine.diagnose.collapse import collapse_report
from engine.predictions.file import load_sample_predictions
from engine.rules.sampling import draw_sample
from engine.samples import sample_names
from engine.types import Predictions
from tests.families import random_family
from tests.synthetic_family import synthetic_predictions


def family_of(name: str) -> Predictions:
    kind, _, seed = name.partition(":")
    if kind == "random":
        return random_family(int(seed), n_images=120)
    return synthetic_predictions() if kind == "synthetic" else load_sample_predictions(name)


SHIPPED = [name for name in sample_names() if (name.startswith(("digits", "pacs")))][:5]
FAMILIES = [*SHIPPED, "synthetic", *(f"random:{seed}" for seed in range(4))]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> Predictions:
    return family_of(request.param)


@pytest.mark.parametrize("n", [0, 30])
def test_every_sentence_says_what_the_numbers_say(family: Predictions, n: int) -> None:
    sample = draw_sample(family.labels, n, n_classes=family.n_classes) if n else None
    pool = statistics_of(family)
    decision = decide(family, pool, sample, skip=("cot",))
    report = collapse_report(family, pool, sample, decision.candidates)
    confidence = family.candidates.max(axis=2).mean(axis=1)
    if sample is None:
        order = np.asarray(decision.candidates["distortion"])
    else:
        order = np.asarray(decision.candidates["loss"])
    best, worst = int(order.argmin()), int(order.argmax())
    sentence = report.regime.sentence
    if "surer than the best" in sentence:
        assert confidence[worst] > confidence[best]
        said = [int(number) for number in re.findall(r"(\d+)%", sentence)]
        assert said == pytest.approx([100 * confidence[worst], 100 * confidence[best]], abs=0.51)
    if "Confidence falls along with" in sentence:
        assert report.regime.correlation > 0.5
        assert ("agreement" in sentence) == (sample is None)
    assert "Low-bit" not in sentence

    follows = next(verdict for verdict in report.assumptions if verdict.rule == "distortion")
    if sample is not None:
        right = (family.candidates[:, sample.rows].argmax(axis=2) == sample.labels).mean(axis=1)
        closest = int(np.asarray(decision.candidates["distortion"]).argmin())
        said = [int(number) for number in re.findall(r"(\d+)%", follows.sentence)]
        assert said == pytest.approx([100 * right[closest], 100 * right.max()], abs=0.51)
    else:
        assert follows.holds is None


def test_the_families_differ_in_what_is_true_of_them() -> None:
    """A sentence that is never false here would not be tested."""
    kinds = set()
    for name in FAMILIES:
        predictions = family_of(name)
        pool = statistics_of(predictions)
        sample = draw_sample(predictions.labels, 30, n_classes=predictions.n_classes)
        decision = decide(predictions, pool, sample, skip=("cot",))
        kinds.add(collapse_report(predictions, pool, sample, decision.candidates).regime.kind)
    assert len(kinds) >= 2
