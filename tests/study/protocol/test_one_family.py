"""What a study varies, and that each variation means what the protocol says, on brute-force oracles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.decide.choose import METHODS, choose, statistics_of
from engine.diagnose.health import candidate_health
from engine.recommend.auto import prepare
from engine.rules.label_free import HIGHEST_PRECISION, LABEL_FREE
from engine.rules.sampling import corrupt_labels
from engine.study.protocol.active import active_samples
from engine.study.protocol.candidates import CANDIDATE_COLUMNS, check_theory, describe_candidates
from engine.study.protocol.one_family import COLUMNS, StudyConfig, run_family
from engine.study.protocol.truth import check_cohort, measure_truth
from engine.types import UserError
from tests.study.families import make_family

FAMILY = make_family(0)


def test_columns_and_counts() -> None:
    results = run_family(
        FAMILY,
        StudyConfig(budgets=(10, 60, 500), rates=(0.0, 0.2), rules=("val-ce", "distortion")),
        name="toy",
    )
    assert tuple(results.columns) == COLUMNS
    assert set(results["family"]) == {"toy"}
    counts = results.groupby(["rule", "n", "rate"]).size().to_dict()
    # 25 clean and 10 corrupted repetitions; the complete pool once when clean; 500 labels are beyond the pool
    # of 60.
    assert counts == {
        ("distortion", 0, 0.0): 1,
        ("val-ce", 10, 0.0): 25,
        ("val-ce", 10, 0.2): 10,
        ("val-ce", 60, 0.0): 1,
        ("val-ce", 60, 0.2): 10,
    }


def test_regret_against_loops() -> None:
    results = run_family(
        FAMILY,
        StudyConfig(budgets=(10,), rules=("val-acc", "cot"), memory_budgets=(None, 0.15), repetitions=3),
    )
    losses, accuracies = [], []
    for probs in FAMILY.candidates_test:
        losses.append(
            float(
                np.mean(
                    [
                        -np.log(max(float(row[y]), 1e-8))
                        for row, y in zip(probs, FAMILY.labels_test, strict=True)
                    ]
                )
            )
        )
        accuracies.append(
            float(
                np.mean([int(np.argmax(row)) == y for row, y in zip(probs, FAMILY.labels_test, strict=True)])
            )
        )
    for row in results.itertuples():
        inside = [m for m in range(12) if np.isnan(row.memory_budget) or FAMILY.cost[m] <= row.memory_budget]
        assert row.pick in inside
        assert row.regret == pytest.approx(losses[row.pick] - min(losses[m] for m in inside), abs=1e-12)
        assert row.accuracy_regret == pytest.approx(
            max(accuracies[m] for m in inside) - accuracies[row.pick], abs=1e-12
        )


def test_every_method_takes_part_and_label_free_rules_appear_once() -> None:
    results = run_family(make_family(2, n_pool=30), StudyConfig(budgets=(5,), repetitions=1))
    assert set(results["rule"]) == set(METHODS)
    free = results[results["rule"].isin([*LABEL_FREE, HIGHEST_PRECISION])]
    assert set(free["n"]) == {0}
    assert not free["rule"].duplicated().any()


def test_partly_labeled_pool_draws_labeled_rows_only() -> None:
    labels = FAMILY.labels.copy()
    labels[::2] = -1
    results = run_family(replace(FAMILY, labels=labels), StudyConfig(budgets=(10, 30, 60), rules=("val-ce",)))
    assert set(results["n"]) == {10, 30}


def test_unlabeled_pool_leaves_the_label_free_rules() -> None:
    results = run_family(
        replace(FAMILY, labels=np.full(60, -1)), StudyConfig(rules=("ce-combo", "distortion"))
    )
    assert list(results["rule"]) == ["distortion"]


def test_without_costs_or_slugs_memory_budgets_and_highest_precision_fall_away() -> None:
    bare = replace(FAMILY, cost=None, names=tuple(f"model {m}" for m in range(12)))
    results = run_family(
        bare, StudyConfig(budgets=(10,), rules=("val-ce", HIGHEST_PRECISION), memory_budgets=(None, 0.2))
    )
    assert set(results["rule"]) == {"val-ce"}
    assert results["memory_budget"].isna().all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budgets": ()}, "budgets must list at least one"),
        ({"budgets": (10, 10)}, "none twice"),
        ({"budgets": (0,)}, "whole number from 1"),
        ({"rates": (1.0,)}, "below 1"),
        ({"rules": ("val-f1",)}, "unknown rule 'val-f1'"),
        ({"anchors": ("moon",)}, "unknown anchor 'moon'"),
        ({"floors": (0.5,)}, "between 0 and 0.1"),
        ({"repetitions": 0}, "at least 1"),
        ({"memory_budgets": (-0.1,)}, "positive share"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        StudyConfig(**settings)
    assert "\n" not in str(caught.value)


def test_families_that_show_nothing_are_refused() -> None:
    truth = measure_truth(FAMILY, floor=1e-8)
    with pytest.raises(UserError, match="no test part"):
        measure_truth(replace(FAMILY, labels_test=None, teacher_test=None, candidates_test=None), floor=1e-8)
    with pytest.raises(UserError, match="were not run"):
        check_cohort(replace(FAMILY, missing=("b2-tensor-q99",)), truth)
    with pytest.raises(UserError, match="exactly the same"):
        check_cohort(replace(FAMILY, candidates=np.repeat(FAMILY.candidates[:1], 12, axis=0)), truth)
    with pytest.raises(UserError, match="at chance"):
        check_cohort(FAMILY, replace(truth, accuracy=np.full(12, 0.3)))
    check_cohort(FAMILY, truth)


def test_candidate_table_and_theory() -> None:
    table = describe_candidates(FAMILY, StudyConfig())
    assert tuple(table.columns) == CANDIDATE_COLUMNS
    assert list(table["bits"]) == [8.0] * 12
    truth = measure_truth(FAMILY, floor=1e-8)
    assert np.array_equal(table["loss"], truth.loss)
    confidence = [np.mean([max(row) for row in probs]) for probs in FAMILY.candidates.astype(float)]
    assert np.allclose(table["confidence"], confidence, atol=1e-12)
    health = candidate_health(statistics_of(FAMILY))
    assert np.array_equal(table["distinct"], health.distinct)
    assert np.array_equal(table["agreement"], health.agreement)
    theory = check_theory(FAMILY)
    assert theory["identity_error"].max() < 1e-12
    assert theory["predicted"].tolist() == pytest.approx([1 - 5 * rate / 4 for rate in (0.1, 0.2, 0.3, 0.4)])
    assert check_theory(replace(FAMILY, labels=np.full(60, -1))).empty


def test_active_labels_are_studied_on_request() -> None:
    """Budgets are nested, unlabeled rows are never asked for, and the outcome is that of `auto` on the rows
    that label-next named.
    """
    labels = FAMILY.labels.copy()
    labels[::3] = -1
    family = replace(FAMILY, labels=labels)
    config = StudyConfig(
        budgets=(5, 10, 500),
        rates=(0.0, 0.4),
        rules=("auto-active",),
        repetitions=2,
        memory_budgets=(None, 0.15),
    )
    results = run_family(family, config)
    counts = results.groupby(["rule", "n", "rate"]).size().to_dict()
    assert counts == {("auto-active", n, rate): 4 for n in (5, 10) for rate in (0.0, 0.4)}
    prepared = prepare(family, statistics_of(family))
    observed, asked = labels.copy(), np.flatnonzero(labels >= 0)
    observed[asked] = corrupt_labels(labels[asked], family.n_classes, 0.4, 1)
    small, large = active_samples(prepared, observed, (10, 5), seed=1)
    np.testing.assert_array_equal(small.rows, large.rows[:5])
    assert (labels[large.rows] >= 0).all()
    assert len(set(large.rows.tolist())) == 10
    pick = choose("auto", family, large, pool=statistics_of(family)).index
    row = results[
        (results["n"] == 10)
        & (results["rate"] == 0.4)
        & (results["repetition"] == 1)
        & results["memory_budget"].isna()
    ]
    assert row["pick"].item() == pick
