"""Tables against numbers worked by hand on a tiny made-up study."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from engine.study.protocol.groups import GROUP_COLUMNS
from engine.study.protocol.one_family import COLUMNS
from engine.study.protocol.result import StudyResult
from engine.study.tables import comparisons, paper
from engine.study.tables import families as family_tables
from engine.study.tables import regret as tables
from engine.study.tables.catalog import CATALOG, make_tables


def outcome(family: str, rule: str, n: int, regret: float, **fields: object) -> dict[str, object]:
    row = {
        "family": family,
        "rule": rule,
        "n": n,
        "rate": 0.0,
        "memory_budget": np.nan,
        "repetition": 0,
        "pick": 1,
        "coefficient": np.nan,
        "regret": regret,
        "accuracy_regret": regret / 10,
    }
    return {**row, **fields}


def made_up(
    rows: list[dict[str, object]], *, groups: dict[str, tuple[str, str, str, str]] | None = None
) -> StudyResult:
    families = list(dict.fromkeys(str(row["family"]) for row in rows))
    grouping = groups or dict.fromkeys(families, ("S", "", "", ""))
    candidates = pd.DataFrame(
        [
            {
                "family": family,
                "candidate": m,
                "name": f"b{bits}-tensor-q100",
                "bits": bits,
                "granularity": "tensor",
                "cost": 0.1 * (m + 1),
                "n_classes": 4,
                "loss": loss,
                "accuracy": accuracy,
                "ece": ece,
                "confidence": confidence,
                "distinct": 0.5,
                "agreement": 0.5,
                "distortion": 1.0 - 0.3 * m,
                "collapsed": accuracy <= 0.375,
            }
            for family in families
            for m, (bits, loss, accuracy, ece, confidence) in enumerate(
                [(2, 5.0, 0.25, 0.7, 0.9), (4, 1.0, 0.8, 0.1, 0.5), (8, 1.5, 0.7, 0.3, 0.6)]
            )
        ]
    )
    theory = pd.DataFrame(
        [
            {
                "family": f,
                "rate": 0.2,
                "predicted": 0.7,
                "label_part": 0.72,
                "accuracy": 0.65,
                "identity_error": 1e-15,
            }
            for f in families
        ]
    )
    listed = pd.DataFrame(
        [(family, *values) for family, values in grouping.items()], columns=list(GROUP_COLUMNS)
    )
    metadata = {"config": {"memory_budgets": [None], "floors": [1e-8]}}
    return StudyResult(
        Path("unused"), pd.DataFrame(rows)[list(COLUMNS)], candidates, theory, listed, metadata=metadata
    )


CLEAN = made_up(
    [
        outcome("a", "distortion", 0, 0.5, pick=2),
        outcome("b", "distortion", 0, 0.0, pick=1),
        outcome("a", "avg-confidence", 0, 4.0, pick=0),
        outcome("b", "avg-confidence", 0, 4.0, pick=0),
        outcome("a", "val-ce", 10, 0.2),
        outcome("a", "val-ce", 10, 0.4, repetition=1),
        outcome("b", "val-ce", 10, 0.1),
        outcome("a", "ce-combo", 10, 0.1, coefficient=0.0),
        outcome("a", "ce-combo", 10, 0.1, coefficient=64.0, repetition=1),
        outcome("b", "ce-combo", 10, 0.3, coefficient=0.5),
        outcome("a", "val-ce", 50, 0.0),
        outcome("b", "val-ce", 50, 0.02),
        outcome("a", "ce-combo", 50, 0.04, coefficient=1.0),
        outcome("b", "ce-combo", 50, 0.05, coefficient=1.0),
    ]
)


def test_regret_by_budget_averages_repetitions_within_a_family_first() -> None:
    table = tables.regret_by_budget(CLEAN).set_index("n")
    assert table.loc[10, "val-ce"] == pytest.approx((0.3 + 0.1) / 2)  # not the pooled (0.2 + 0.4 + 0.1) / 3
    assert table.loc[10, "ce-combo"] == pytest.approx(0.2)
    assert table.loc[50, "distortion"] == table.loc[10, "distortion"] == 0.25
    median = tables.median_regret_by_budget(CLEAN).set_index("n")
    assert median.loc[50, "ce-combo"] == pytest.approx(0.045)


def test_smallest_budget_has_both_blocks_and_marks_the_lowest() -> None:
    table = tables.regret_at_smallest_budget(CLEAN).set_index("rule")
    assert table.loc["val-ce", "labels"] == "10"
    assert table.loc["distortion", "labels"] == "none"
    assert table.loc["val-ce", "sd"] == pytest.approx(np.std([0.3, 0.1], ddof=1))
    assert (
        table.index[table["lowest"]].tolist() == ["val-ce"]
        or table["mean_regret"].min() == table[table["lowest"]]["mean_regret"].iloc[0]
    )


def test_tail_pools_outcomes() -> None:
    table = tables.tail(CLEAN).set_index(["n", "rule"])
    assert table.loc[(10, "val-ce"), "catastrophic"] == pytest.approx(2 / 3)
    assert table.loc[(10, "val-ce"), "percentile_95"] == pytest.approx(np.quantile([0.2, 0.4, 0.1], 0.95))


def test_coefficients() -> None:
    row = tables.coefficients(CLEAN).set_index(["rule", "n"]).loc[("ce-combo", 10)]
    assert row["median"] == 0.5
    assert row["reverted_to_anchor"] == pytest.approx(1 / 3)
    assert row["at_grid_maximum"] == pytest.approx(1 / 3)
    assert row["sd_of_family_medians"] == pytest.approx(np.std([32.0, 0.5], ddof=1))


def test_where_anchoring_wins_counts_families() -> None:
    table = comparisons.where_anchoring_wins(CLEAN).set_index("n")
    assert table.loc[10, "difference"] == pytest.approx(0.0)
    assert (table.loc[10, "families_better"], table.loc[10, "families_worse"]) == (1, 1)
    assert table.loc[50, "lower"] == "direct validation"


def test_corruption_grid_names_the_lowest_deployable_rule() -> None:
    rows = [outcome("a", "distortion", 0, 0.3)]
    for rate in (0.0, 0.4):
        rows += [
            outcome("a", "val-ce", 10, 0.2 + rate, rate=rate),
            outcome("a", "permutation-control", 10, 0.01, rate=rate),
        ]
    table = tables.corruption_grid(made_up(rows)).set_index("rate")
    assert table["lowest"].to_dict() == {0.0: "val-ce", 0.4: "distortion"}
    assert tables.corruption_grid(CLEAN).empty


def test_paired_inference_averages_executions_into_one_unit() -> None:
    groups = {"a": ("S", "s1", "0", "1"), "b": ("S", "s1", "0", "2"), "c": ("S", "s2", "0", "1")}
    rows = []
    for family, direct, anchored in (("a", 0.4, 0.1), ("b", 0.2, 0.1), ("c", 0.3, 0.2)):
        rows += [outcome(family, "val-ce", 10, direct), outcome(family, "ce-combo", 10, anchored)]
    table = comparisons.paired_inference(made_up(rows, groups=groups))
    row = table.iloc[0]
    assert row["comparison"] == "ce-combo − val-ce"
    assert row["units"] == 2
    assert row["difference"] == pytest.approx(((0.1 - 0.3) + (0.2 - 0.3)) / 2)
    assert row["p"] == 0.5  # two units: the observed signs and their opposite, of four
    assert row["p_holm"] == 0.5


def test_between_shift_variance() -> None:
    groups = {
        "a": ("S", "s1", "0", ""),
        "b": ("S", "s1", "1", ""),
        "c": ("S", "s2", "0", ""),
        "d": ("S", "s2", "1", ""),
    }
    rows = [
        outcome(family, "val-ce", 10, regret)
        for family, regret in (("a", 0.0), ("b", 0.2), ("c", 0.4), ("d", 0.6))
    ]
    share = comparisons.between_shift_variance(made_up(rows, groups=groups))["between_shifts"].iloc[0]
    assert share == pytest.approx((4 * 0.2**2) / (2 * 0.3**2 + 2 * 0.1**2))


def test_family_tables() -> None:
    regime = family_tables.regimes(CLEAN).iloc[0]
    assert (regime["worst_confidence"], regime["best_confidence"], regime["chance_picks"]) == (0.9, 0.5, 2)
    assert regime["correlation"] == pytest.approx(np.corrcoef([0.25, 0.8, 0.7], [0.9, 0.5, 0.6])[0, 1])
    assert np.isnan(regime["atc-mc"])
    collapse = family_tables.collapse_by_bits(CLEAN).set_index("bits")["tensor"]
    assert collapse.to_dict() == {2: 1.0, 4: 0.0, 8: 0.0}
    cost = family_tables.cost_frontier(CLEAN).set_index("memory_budget")
    assert cost.loc[0.1, "excess_over_free"] == 4.0
    assert cost.loc[0.22].tolist()[1:] == [2.0, 0.0, 4.0, 2.0]
    audit = family_tables.calibration_audit(CLEAN).set_index("measure")
    assert audit.loc["ece", "difference"] == pytest.approx(((0.1 - 0.3) + (0.1 - 0.1)) / 2)
    optimal = family_tables.anchor_already_optimal(CLEAN).iloc[0]
    assert (optimal["families"], optimal["already_optimal"]) == (2, 1)
    theory = family_tables.attenuation(CLEAN).iloc[0]
    assert theory["largest_gap"] == pytest.approx(0.05)
    restricted = family_tables.restricted_families(CLEAN).set_index("part")["median_regret"]
    assert restricted.to_dict() == {"whole family": 0.5, "2 to 4 bits": 0.0, "20 closest to the teacher": 0.5}


def test_variants_have_tables_of_their_own() -> None:
    rows = [
        outcome("a", "val-ce", 10, 0.3),
        outcome("a", "ce-combo", 10, 0.2),
        outcome("a", "ce-combo@cot", 10, 0.1),
        outcome("a", "ce-combo@floor=1e-12", 10, 0.25),
        outcome("a", "val-ce@floor=1e-12", 10, 0.3),
        outcome("a", "ce-combo", 10, 0.7, memory_budget=0.2),
        outcome("a", "distortion", 0, 0.4),
        outcome("a", "distortion", 0, 0.6, memory_budget=0.2),
    ]
    study = made_up(rows)
    assert tables.regret_by_budget(study).columns.tolist() == [
        "setting",
        "n",
        "distortion",
        "val-ce",
        "ce-combo",
    ]
    assert tables.anchor_placement(study).iloc[0, 2:].tolist() == [0.3, 0.2, 0.1]
    floors = tables.floor_sensitivity(study).set_index("rule")
    assert floors.loc["ce-combo", "largest_change"] == pytest.approx(0.05)
    constrained = tables.constrained_selection(study).set_index("memory_budget")
    assert constrained.loc[0.2, "ce-combo"] == 0.7
    assert constrained.loc[np.inf, "distortion"] == 0.4


def test_every_table_copes_with_a_study_of_one_label_free_rule() -> None:
    made = make_tables(made_up([outcome("a", "cot", 0, 0.1)]))
    assert "regret_at_smallest_budget" in made
    assert set(made) <= {table.name for table in CATALOG}


def test_the_papers_numbers_stand_beside_ours() -> None:
    table = paper.anchoring_beside_the_paper(CLEAN).set_index("models")
    assert table.loc["a", "10 labels"] == pytest.approx(0.1 - 0.3)
    assert table.loc["b", "50 labels"] == pytest.approx(0.03)
    assert table.loc["MobileNetV2, DomainNet", "10 labels"] == pytest.approx(0.1026 - 0.2270)
    assert set(table["rate"]) == {0.0}
    # As the paper counts: CE-combo wins 4 of 4 settings with ten labels and 3 of 4 with twenty-five.
    theirs = table[table["source"] == "paper"]
    assert ((theirs["10 labels"] < 0).sum(), (theirs["25 labels"] < 0).sum()) == (4, 3)
    free = paper.label_free_beside_the_paper(CLEAN).set_index("models")
    assert free.loc["a", "distortion"] == 0.5
    assert free.loc["ResNet50, DomainNet", "avg-confidence"] == 15.125
