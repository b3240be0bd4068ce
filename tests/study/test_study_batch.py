"""The batched coefficient search against the one-sample selector, pick by pick and coefficient by coefficient."""

from __future__ import annotations

import numpy as np
import pytest

from engine.choose import admissible_under, choose, statistics_of
from engine.sampling import draw_sample
from engine.selectors import SUPERVISED
from engine.study.protocol import StudyConfig, run_family
from tests.study.families import make_family

RULES = tuple(SUPERVISED)


@pytest.mark.parametrize("duplicates", [False, True], ids=["distinct", "ties"])
@pytest.mark.parametrize("seed", range(4))
def test_every_supervised_outcome_equals_choose(seed: int, duplicates: bool) -> None:
    family = make_family(seed, duplicates=duplicates)
    config = StudyConfig(
        budgets=(1, 2, 7, 10, 25, 60), rates=(0.0, 0.4), rules=RULES, repetitions=3,
        memory_budgets=(None, 0.2), anchors=("pool", "sample", "subsample", "cot"), floors=(1e-8, 1e-4),
    )  # fmt: skip
    results = run_family(family, config)
    assert len(results) > 1000
    pools = {floor: statistics_of(family, floor=floor) for floor in config.floors}
    for row in results.itertuples():
        rule, anchor, floor = _variant(str(row.rule))
        sample = draw_sample(family.labels, row.n, n_classes=family.n_classes, rate=row.rate, repetition=row.repetition)
        budget = None if np.isnan(row.memory_budget) else row.memory_budget
        choice = choose(
            rule, family, sample, pool=pools[floor], admissible=admissible_under(family, budget),
            anchor=anchor, floor=floor, repetition=row.repetition,
        )  # fmt: skip
        assert (row.pick, row.coefficient) == (choice.index, choice.coefficient) or (
            row.pick == choice.index and choice.coefficient is None
        )


def _variant(name: str) -> tuple[str, str, float]:
    rule, *suffixes = name.split("@")
    anchor = next((s for s in suffixes if not s.startswith("floor=")), "pool")
    floor = next((float(s.removeprefix("floor=")) for s in suffixes if s.startswith("floor=")), 1e-8)
    return rule, anchor, floor
