"""Pictures of families: what they draw, and nothing where there is nothing to show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from engine.study.figures import families, rules
from tests.study.tables.test_regret import CLEAN, made_up, outcome

FREE = made_up([outcome("a", "distortion", 0, 0.5, pick=2)])
EMPTY = replace(FREE, candidates=FREE.candidates[:0], attenuation=FREE.attenuation[:0])


def test_nothing_to_show_is_no_picture() -> None:
    assert families.regimes(EMPTY) is None
    assert families.attenuation(EMPTY) is None
    assert families.coefficients(FREE) is None
    assert families.cost_frontier(replace(FREE, candidates=FREE.candidates.assign(cost=np.nan))) is None
    assert rules.regret_by_budget(FREE) is None
    assert rules.corruption_grid(FREE) is None
    assert rules.regret_by_family(FREE) is None
    assert rules.paired_differences(FREE) is None
    assert rules.smallest_budget(replace(FREE, results=FREE.results[:0])) is None
    calibrated = made_up([outcome("a", "calibrated", 10, 0.5, coefficient=1.0)])
    assert families.coefficients(calibrated) is None  # it has no grid


def test_the_frontier_falls_to_nought_as_the_budget_grows() -> None:
    picture = families.cost_frontier(CLEAN).to_dict()
    (data,) = picture["datasets"].values()
    rows = pd.DataFrame(data).query("family == 'a'").sort_values("cost")
    # losses 5.0, 1.0, 1.5: with .1 of float memory 4.0 above the best, from .2 on none
    assert rows["excess"].round(6).tolist() == [4.0, 0.0, 0.0]


def test_many_families_become_their_settings_mean() -> None:
    many = pd.concat(
        [CLEAN.candidates.query("family == 'a'").assign(family=f"f{k}") for k in range(1400)],
        ignore_index=True,
    )
    groups = pd.concat([CLEAN.groups.iloc[:1].assign(family=f"f{k}") for k in range(1400)], ignore_index=True)
    picture = families.cost_frontier(replace(CLEAN, candidates=many, groups=groups)).to_dict()
    (data,) = picture["datasets"].values()
    assert len(data) == 3
