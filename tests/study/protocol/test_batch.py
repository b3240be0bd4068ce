"""The batched coefficient search against the one-sample selector, pick by pick and coefficient by
coefficient.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decide.choose import admissible_under, choose, statistics_of
from engine.recommend.auto import CALIBRATED_RULES
from engine.rules.sampling import draw_sample
from engine.rules.supervised import SUPERVISED
from engine.study.protocol.one_family import StudyConfig, run_family
from engine.types import Predictions
from tests.study.families import make_family

RULES = (*SUPERVISED, *CALIBRATED_RULES)


def assert_equals_choose(family: Predictions, config: StudyConfig) -> int:
    """Every outcome of the study is what `choose` says on the same draw; returns how many were compared."""
    results = run_family(family, config).query("n > 0")
    pools = {floor: statistics_of(family, floor=floor) for floor in config.floors}
    for row in results.itertuples():
        rule, anchor, floor = _variant(str(row.rule), config.floors[0])
        sample = draw_sample(
            family.labels, row.n, n_classes=family.n_classes, rate=row.rate, repetition=row.repetition
        )
        budget = None if np.isnan(row.memory_budget) else row.memory_budget
        choice = choose(
            rule,
            family,
            sample,
            pool=pools[floor],
            admissible=admissible_under(family, budget),
            anchor=anchor,
            floor=floor,
            repetition=row.repetition,
        )
        assert row.pick == choice.index, row
        assert (
            np.isnan(row.coefficient) if choice.coefficient is None else row.coefficient == choice.coefficient
        ), row
    return len(results)


def _variant(name: str, main_floor: float) -> tuple[str, str, float]:
    rule, *suffixes = name.split("@")
    anchor = next((s for s in suffixes if not s.startswith("floor=")), "pool")
    floor = next((float(s.removeprefix("floor=")) for s in suffixes if s.startswith("floor=")), main_floor)
    return rule, anchor, floor


@pytest.mark.slow
@pytest.mark.parametrize("duplicates", [False, True], ids=["distinct", "ties"])
def test_every_variant_equals_choose(duplicates: bool) -> None:
    config = StudyConfig(
        budgets=(1, 2, 7, 25, 60),
        rates=(0.0, 0.4),
        rules=RULES,
        repetitions=2,
        memory_budgets=(None, 0.2),
        anchors=("pool", "sample", "subsample", "cot"),
        floors=(1e-8, 1e-4),
    )
    assert assert_equals_choose(make_family(1, duplicates=duplicates), config) > 1000


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n_candidates=st.integers(2, 9),
    n_pool=st.integers(3, 40),
    n_classes=st.integers(2, 7),
    duplicates=st.booleans(),
    dtype=st.sampled_from(["float16", "float32", "float64"]),
    rate=st.sampled_from([0.0, 0.3]),
)
def test_any_family_equals_choose(
    seed: int, n_candidates: int, n_pool: int, n_classes: int, duplicates: bool, dtype: str, rate: float
) -> None:
    family = make_family(
        seed,
        n_candidates=n_candidates,
        n_pool=n_pool,
        n_test=9,
        n_classes=n_classes,
        duplicates=duplicates,
        dtype=dtype,
    )
    assert_equals_choose(
        family,
        StudyConfig(
            budgets=(1, 3, n_pool) if n_pool > 3 else (1, 3), rates=(rate,), rules=RULES, repetitions=2
        ),
    )


def test_batches_of_any_size_give_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    family, config = (
        make_family(3),
        StudyConfig(budgets=(10, 25), rates=(0.0, 0.2), rules=RULES, repetitions=5),
    )
    whole = run_family(family, config)
    monkeypatch.setattr("engine.study.protocol.one_family._BATCH_VALUES", 1)
    split = run_family(family, config)
    order = ["rule", "n", "rate", "repetition"]
    assert (
        whole.sort_values(order)
        .reset_index(drop=True)
        .equals(split.sort_values(order).reset_index(drop=True))
    )
