"""Comparisons between rules: paired inference, who wins where, and how much of the spread is the shift's
doing.

The unit is the family; executions of one shift and seed are averaged into one unit before a test.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.study.protocol.groups import units
from engine.study.protocol.result import StudyResult
from engine.study.tables.inference import bootstrap_interval, holm, sign_flip_test
from engine.study.tables.regret import family_means, outcomes

# the paper's, one row's family for Holm
PAIRS = (
    ("ce-combo", "val-ce"),
    ("alignment", "val-ce"),
    ("alignment", "ce-combo"),
)
_CELL = ["setting", "rate", "n"]


def paired_inference(result: StudyResult) -> pd.DataFrame:
    """Are the differences more than luck? Mean paired difference, bootstrap interval, sign-flip p, Holm
    within a row.

    A negative difference favours the first rule of the pair. Other rules of the study are compared with
    direct validation.
    """
    per_unit = _per_unit(result)
    rules = set(per_unit["rule"])
    others = [rule for rule in dict.fromkeys(per_unit["rule"]) if rule not in _PAPER_RULES]
    pairs = [pair for pair in (*PAIRS, *((rule, "val-ce") for rule in others)) if set(pair) <= rules]
    rows: list[dict[str, object]] = []
    for (setting, rate, n), cell in per_unit.groupby(_CELL, sort=False):
        regret = cell.pivot_table(index="unit", columns="rule", values="regret")
        rows += _row(pairs, regret, {"setting": setting, "rate": rate, "n": n})
    return pd.DataFrame(rows)


_PAPER_RULES = ("val-ce", "val-acc", "ce-combo", "alignment", "teacher-component", "permutation-control")


def _row(
    pairs: list[tuple[str, str]], regret: pd.DataFrame, cell: dict[str, object]
) -> list[dict[str, object]]:
    """Compare the pairs of one setting, rate and budget, and correct their p-values together."""
    rows: list[dict[str, object]] = []
    for first, second in pairs:
        if first not in regret or second not in regret:
            continue
        differences = (regret[first] - regret[second]).dropna().to_numpy()
        low, high = bootstrap_interval(differences)
        rows.append(
            {
                **cell,
                "comparison": f"{first} − {second}",
                "difference": differences.mean(),
                "low_95": low,
                "high_95": high,
                "p": sign_flip_test(differences),
                "units": len(differences),
            }
        )
    adjusted = holm([float(str(row["p"])) for row in rows])
    return [{**row, "p_holm": p} for row, p in zip(rows, adjusted, strict=True)]


def where_anchoring_wins(result: StudyResult) -> pd.DataFrame:
    """With how many labels does the anchor help? CE-combo against direct validation in every cell, and in how
    many families.
    """
    rows = family_means(_supervised(result), ["setting", "rate", "n", "rule"])
    rows = rows[rows["rule"].isin(("ce-combo", "val-ce"))]
    if len(set(rows["rule"])) < 2:
        return pd.DataFrame()
    paired = rows.pivot_table(index=[*_CELL, "family"], columns="rule", values="regret").reset_index()
    paired["better"] = paired["ce-combo"] < paired["val-ce"]
    paired["worse"] = paired["ce-combo"] > paired["val-ce"]
    grouped = paired.groupby(_CELL, sort=True)
    out = grouped.agg(**{"val-ce": ("val-ce", "mean"), "ce-combo": ("ce-combo", "mean")}).reset_index()
    counts = grouped.agg(
        families_better=("better", "sum"), families_worse=("worse", "sum"), families=("family", "nunique")
    ).reset_index()
    difference = out["ce-combo"] - out["val-ce"]
    winner = np.where(difference < 0, "anchored", np.where(difference > 0, "direct validation", "tie"))
    return out.assign(difference=difference, lower=winner).merge(counts, on=_CELL)


def between_shift_variance(result: StudyResult) -> pd.DataFrame:
    """Is a rule unstable, or are the shifts different? Share of the variance over families that lies between
    shifts.
    """
    table = _supervised(result)
    table = table[(table["rate"] == 0) & (table["shift"] != "")]
    rows = family_means(table, ["setting", "shift", "rule", "n"])
    out = []
    for (setting, rule, n), cell in rows.groupby(["setting", "rule", "n"], sort=False):
        by_shift = cell.groupby("shift")["regret"]
        total = float(((cell["regret"] - cell["regret"].mean()) ** 2).sum())
        if by_shift.ngroups < 2 or by_shift.ngroups == len(cell) or total == 0:
            continue
        between = float((by_shift.size() * (by_shift.mean() - cell["regret"].mean()) ** 2).sum())
        out.append(
            {
                "setting": setting,
                "rule": rule,
                "n": n,
                "between_shifts": between / total,
                "shifts": by_shift.ngroups,
                "families": len(cell),
            }
        )
    return pd.DataFrame(out)


def _supervised(result: StudyResult) -> pd.DataFrame:
    table = outcomes(result)
    return table[table["n"] > 0]


def _per_unit(result: StudyResult) -> pd.DataFrame:
    unit_of = dict(zip(result.groups["family"], units(result.groups), strict=True))
    rows = family_means(_supervised(result), ["setting", "rate", "n", "rule"])
    rows = rows.assign(unit=rows["family"].map(unit_of))
    return rows.groupby([*_CELL, "rule", "unit"], sort=False)["regret"].mean().reset_index()
