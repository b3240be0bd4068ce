"""The titles of a decision's pictures, against the numbers that are drawn, on families of every kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

from engine.decide.choose import statistics_of
from engine.decide.decision import Decision, decide
from engine.decide.findings import choice_finding, memory_finding
from engine.rules.sampling import draw_sample
from tests.diagnose.test_collapse_words import FAMILIES, family_of


@pytest.mark.parametrize("name", FAMILIES)
def test_titles_hold_on_every_family(name: str) -> None:
    family = family_of(name)
    sample = draw_sample(family.labels, 30, n_classes=family.n_classes)
    decision = decide(family, statistics_of(family), sample, skip=("cot",))
    table, pick = decision.candidates, decision.recommended.index
    labeled = np.maximum(family.candidates[:, sample.rows], 1e-8)
    losses = -np.log(labeled[:, np.arange(sample.n), sample.labels]).mean(axis=1)
    title = choice_finding(decision)
    fits = losses[pick] <= losses.min() + 1e-6
    assert fits == ("fits your labels best" in title and "though another" not in title)
    distance = np.asarray(table["distortion"])
    closest = distance[pick] <= distance.min()
    assert closest == title.startswith("The candidate closest")
    if family.cost is not None:
        tau = kendalltau(family.cost, distance).statistic
        said = memory_finding(table)
        assert ("The more memory, the closer" not in said) or tau < -0.3
        assert ("more distance" not in said) or tau > 0.3


def table(cost: list[float], distortion: list[float], loss: list[float]) -> pd.DataFrame:
    return pd.DataFrame({"cost": cost, "distortion": distortion, "loss": loss, "admissible": True})


@pytest.mark.parametrize(
    ("cost", "distortion", "words"),
    [
        ([0.1, 0.2, 0.3, 0.4], [4, 3, 2, 1], "the closer"),
        ([0.1, 0.2, 0.3, 0.4], [1, 2, 3, 4], "more distance"),
        ([0.1, 0.2, 0.3, 0.4], [2, 4, 1, 3], "does not reliably"),
        ([float("nan")] * 4, [2, 4, 1, 3], "How far"),
        ([0.1] * 4, [2, 4, 1, 3], "How far"),
    ],
)
def test_memory_is_said_to_help_only_where_it_does(
    cost: list[float], distortion: list[float], words: str
) -> None:
    assert words in memory_finding(table(cost, distortion, [1.0] * 4))


@pytest.mark.parametrize(
    ("pick", "words"),
    [
        (0, "also fits your labels best"),
        (1, "neither the closest"),
        (2, "though another fits your labels better"),
        (3, "fits your labels best; another is closer"),
    ],
)
def test_all_four_titles(good: Decision, pick: int, words: str) -> None:
    losses = {0: [1, 2, 2, 2], 1: [1, 2, 2, 2], 2: [2, 2, 2, 1], 3: [2, 2, 2, 1]}[pick]
    distances = {0: [1, 2, 2, 2], 1: [2, 3, 1, 4], 2: [2, 2, 1, 2], 3: [1, 2, 2, 2]}[pick]
    candidates = table([0.1, 0.2, 0.3, 0.4], list(map(float, distances)), list(map(float, losses)))
    decision = replace(good, candidates=candidates, recommended=replace(good.recommended, index=pick))
    assert words in choice_finding(decision)


@pytest.fixture(scope="module")
def good() -> Decision:
    family = family_of("synthetic")
    sample = draw_sample(family.labels, 20, n_classes=family.n_classes)
    return decide(family, statistics_of(family), sample, skip=("cot",))
