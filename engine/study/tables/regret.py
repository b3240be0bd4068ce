"""Regret tables: what each rule costs, by number of labels, corruption rate, memory budget, anchor and floor.

Every function takes a StudyResult and returns a table; empty if the study has nothing to say on its question.
Repetitions are averaged within a family first: means and medians run over families.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from engine.rules.supervised import SUPERVISED
from engine.study.protocol.result import StudyResult

CATASTROPHE = 0.1  # a regret above this counts as a catastrophic selection (the paper's limit)
ANCHOR = "distortion"
ABLATIONS = ("teacher-component", "permutation-control")  # they explain; nobody would deploy by them
Statistic = Literal["mean", "median"]
_CELL = ["setting", "rule", "n", "rate"]


def outcomes(result: StudyResult, *, variants: bool = False) -> pd.DataFrame:
    """Return the outcomes without memory budget (or under the loosest, if all have one), with their setting.

    `variants` keeps other anchors and floors, whose rules carry an @.
    """
    table = result.results
    free = table["memory_budget"].isna()
    table = table[free if free.any() else table["memory_budget"] == table["memory_budget"].max()]
    if not variants:
        table = table[~table["rule"].str.contains("@")]
    return table.merge(result.groups, on="family", how="inner")


def family_means(table: pd.DataFrame, by: Sequence[str] = _CELL) -> pd.DataFrame:
    """Average regret and accuracy regret over repetitions within each family and cell."""
    return table.groupby([*by, "family"], sort=False)[["regret", "accuracy_regret"]].mean().reset_index()


def wide(table: pd.DataFrame, index: list[str], value: str, *, statistic: Statistic = "mean") -> pd.DataFrame:
    """Turn a table with one row per family and rule into one column per rule, in the order of first
    appearance.
    """
    rules = list(dict.fromkeys(table["rule"]))
    cells = table.pivot_table(index=index, columns="rule", values=value, aggfunc=statistic)
    return cells[rules].reset_index().rename_axis(columns=None)


def with_anchor(supervised: pd.DataFrame, label_free: pd.DataFrame) -> pd.DataFrame:
    """Put the anchor's regret, which no label changes, before the supervised rules of every row of a
    setting.
    """
    constant = label_free[label_free["rule"] == ANCHOR]
    cells = supervised[["setting", "n", "rate"]].drop_duplicates()
    repeated = cells.merge(constant.drop(columns=["n", "rate"]), on="setting")
    return pd.concat([repeated, supervised], ignore_index=True)


# --- the tables -----------------------------------------------------------------------------


def regret_at_smallest_budget(result: StudyResult) -> pd.DataFrame:
    """What does each rule cost with the fewest labels? Mean and standard deviation over families, best
    first.
    """
    table = outcomes(result)
    table = table[table["rate"] == 0]
    supervised = table[table["n"] > 0]
    smallest = supervised[supervised["n"] == supervised["n"].min()]
    rows = family_means(pd.concat([smallest, table[table["n"] == 0]]))
    grouped = rows.groupby(["setting", "rule", "n"], sort=False)
    out = grouped.agg(
        mean_regret=("regret", "mean"),
        sd=("regret", "std"),
        accuracy_regret=("accuracy_regret", "mean"),
        families=("family", "nunique"),
    ).reset_index()
    out.insert(1, "labels", np.where(out["n"] == 0, "none", out["n"].astype(str)))
    out["lowest"] = out["mean_regret"] == out.groupby("setting")["mean_regret"].transform("min")
    return (
        out.sort_values(["setting", "n", "mean_regret"], ascending=[True, False, True], kind="stable")
        .drop(columns="n")
        .reset_index(drop=True)
    )


def regret_by_budget(result: StudyResult, statistic: Statistic = "mean") -> pd.DataFrame:
    """How does regret fall as clean labels accumulate? `statistic` (mean or median) over families, one column
    a rule.
    """
    rows = family_means(_clean(result))
    supervised = with_anchor(rows[rows["n"] > 0], rows[rows["n"] == 0])
    return (
        wide(supervised, ["setting", "n"], "regret", statistic=statistic)
        if len(supervised)
        else pd.DataFrame()
    )


def median_regret_by_budget(result: StudyResult) -> pd.DataFrame:
    """As regret_by_budget, medians of family means."""
    return regret_by_budget(result, "median")


def regret_by_family(result: StudyResult) -> pd.DataFrame:
    """Which family drives the averages? Mean regret of every rule, family by family."""
    rows = family_means(_clean(result))
    supervised = with_anchor(rows[rows["n"] > 0], rows[rows["n"] == 0])
    return wide(supervised, ["setting", "family", "n"], "regret") if len(supervised) else pd.DataFrame()


def corruption_grid(result: StudyResult) -> pd.DataFrame:
    """What if labels are few and wrong? Mean regret by corruption rate and budget, with the lowest rule
    named.

    The ablations are shown and cannot be the lowest; the anchor, which sees no label, can.
    """
    table = outcomes(result)
    supervised = table[table["n"] > 0]
    if len(set(supervised["rate"])) < 2:
        return pd.DataFrame()
    joined = with_anchor(family_means(supervised), family_means(table[table["n"] == 0]))
    out = wide(joined, ["setting", "rate", "n"], "regret")
    rules = [rule for rule in out.columns[3:] if rule not in ABLATIONS]
    return out.assign(lowest=out[rules].idxmin(axis=1))


def tail(result: StudyResult) -> pd.DataFrame:
    """How bad can it get? 95th percentile of regret and Pr(R > 0.1), pooled over families and subsets."""
    table = _clean(result)
    grouped = table[table["n"] > 0].groupby(["setting", "n", "rule"], sort=False)["regret"]
    return grouped.agg(
        percentile_95=lambda regret: regret.quantile(0.95),
        catastrophic=lambda regret: (regret > CATASTROPHE).mean(),
        outcomes="size",
    ).reset_index()


def coefficients(result: StudyResult) -> pd.DataFrame:
    """How far do labels move the choice from the anchor? Distribution of the coefficient; zero means back to
    the anchor.
    """
    table = outcomes(result)
    table = table[table["coefficient"].notna() & (table["n"] > 0)]
    highest = {name: float(rule.grid[-1]) for name, rule in SUPERVISED.items() if rule.grid is not None}
    rows = []
    for (setting, rule, n, rate), cell in table.groupby(_CELL, sort=False):
        values = cell["coefficient"]
        medians = cell.groupby("family")["coefficient"].median()
        at_most = (values == highest[rule]).mean() if rule in highest else np.nan
        rows.append(
            {
                "setting": setting,
                "rule": rule,
                "n": n,
                "rate": rate,
                "median": values.median(),
                "quartile_1": values.quantile(0.25),
                "quartile_3": values.quantile(0.75),
                "reverted_to_anchor": (values == 0).mean(),
                "at_grid_maximum": at_most,
                "sd_of_family_medians": medians.std(),
            }
        )
    return pd.DataFrame(rows)


def controls(result: StudyResult) -> pd.DataFrame:
    """What does the direction add? Alignment beside its permuted control and its teacher component, median
    regret.
    """
    table = _clean(result)
    wanted = ("alignment", "permutation-control", "teacher-component")
    rows = family_means(table)
    supervised = rows[rows["rule"].isin(wanted) & (rows["n"] > 0)]
    if len(set(supervised["rule"])) < 2:
        return pd.DataFrame()
    out = wide(with_anchor(supervised, rows[rows["n"] == 0]), ["setting", "n"], "regret", statistic="median")
    control = table[table["rule"] == "permutation-control"]
    reverted = (
        (control["coefficient"] == 0)
        .groupby([control["setting"], control["n"]])
        .mean()
        .rename("control_reverted_to_anchor")
    )
    return out.merge(reverted.reset_index(), on=["setting", "n"], how="left")


def constrained_selection(result: StudyResult) -> pd.DataFrame:
    """Does the choice survive a memory budget? Mean regret against the best admissible candidate."""
    table = result.results[~result.results["rule"].str.contains("@")].merge(result.groups, on="family")
    table = table[table["rate"] == 0].fillna({"memory_budget": np.inf})  # no limit, and sorted last
    if len(set(table["memory_budget"])) < 2:
        return pd.DataFrame()
    rows = family_means(table, ["setting", "memory_budget", "n", "rate", "rule"])
    constant = rows[rows["rule"] == ANCHOR].drop(columns=["n", "rate"])
    supervised = rows[rows["n"] > 0]
    cells = supervised[["setting", "memory_budget", "n", "rate"]].drop_duplicates()
    joined = pd.concat(
        [cells.merge(constant, on=["setting", "memory_budget"]), supervised], ignore_index=True
    )
    return wide(joined, ["setting", "memory_budget", "n"], "regret") if len(joined) else pd.DataFrame()


def floor_sensitivity(result: StudyResult) -> pd.DataFrame:
    """Do magnitudes depend on where probabilities are clipped? Mean regret of each rule at each floor."""
    table = outcomes(result, variants=True)
    parts = table["rule"].str.split("@floor=", n=1, expand=True)
    if parts.shape[1] < 2:
        return pd.DataFrame()
    main = float(result.metadata["config"]["floors"][0])
    table = table.assign(rule=parts[0], floor=parts[1].astype(float).fillna(main))
    table = table[~table["rule"].str.contains("@") & (table["rate"] == 0)]
    rows = family_means(table, ["setting", "rule", "n", "floor"])
    cells = rows.pivot_table(
        index=["setting", "rule", "n"], columns="floor", values="regret", aggfunc="mean", sort=False
    )
    largest = cells.max(axis=1) - cells.min(axis=1)
    cells.columns = [f"floor {floor:g}" for floor in cells.columns]
    return cells.assign(largest_change=largest).reset_index()


def anchor_placement(result: StudyResult) -> pd.DataFrame:
    """Where should the anchor be measured, and must it be the teacher? Mean regret of each anchored rule per
    anchor.
    """
    table = outcomes(result, variants=True)
    table = table[(table["rate"] == 0) & (table["n"] > 0) & ~table["rule"].str.contains("@floor=")]
    varied = set(table["rule"][table["rule"].str.contains("@")].str.split("@").str[0])
    if not varied:
        return pd.DataFrame()
    keep = table["rule"].str.split("@").str[0].isin(varied | {"val-ce"})
    return wide(family_means(table[keep]), ["setting", "n"], "regret")


def _clean(result: StudyResult) -> pd.DataFrame:
    table = outcomes(result)
    return table[table["rate"] == 0]
