"""Tables about the families themselves: degradation regimes, collapse, memory cost, calibration, attenuation,
the anchor's pick.

Every function takes a StudyResult and returns a table; empty if the study has nothing to say on its question.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.study.protocol.result import StudyResult
from engine.study.tables.inference import bootstrap_interval
from engine.study.tables.regret import ANCHOR, outcomes

CONFIDENCE_RULES = ("avg-confidence", "entropy", "atc-mc", "atc-ne")
_BUDGETS = (0.10, 0.16, 0.22)  # the paper's shares of float memory, where the study sets none
_TOP = 20  # the paper's restricted family: the closest to the teacher


def regimes(result: StudyResult) -> pd.DataFrame:
    """Does confidence rise or fall as candidates degrade? Medians over families, with the confidence rules'
    regret.

    correlation is Pearson's between test accuracy and mean confidence over candidates; worst and best are by
    test loss; distinct is the share of distinct confidences among collapsed candidates; chance_picks counts
    the families in which average confidence picks a collapsed candidate.
    """
    facts = pd.DataFrame(
        [_regime(family, table) for family, table in result.candidates.groupby("family", sort=False)]
    )
    table = outcomes(result)
    picked = table[table["rule"].isin(CONFIDENCE_RULES) & (table["n"] == 0)]
    regret = (
        picked.pivot_table(index="family", columns="rule", values="regret")
        .reindex(columns=list(CONFIDENCE_RULES))
        .reset_index()
    )
    joined = (
        facts.merge(result.groups, on="family")
        .merge(regret, on="family", how="left")
        .merge(_chance_picks(result, picked), on="family", how="left")
    )
    named = {rule: (rule, "median") for rule in CONFIDENCE_RULES}
    medians = {
        name: (name, "median") for name in ("correlation", "worst_confidence", "best_confidence", "distinct")
    }
    grouped = joined.groupby("setting", sort=True)
    return grouped.agg(
        families=("family", "nunique"),
        classes=("n_classes", "first"),
        **named,
        **medians,
        chance_picks=("chance_pick", "sum"),
    ).reset_index()


def _regime(family: object, table: pd.DataFrame) -> dict[str, object]:
    varies = np.ptp(table["accuracy"]) > 0 and np.ptp(table["confidence"]) > 0
    collapsed = table[table["collapsed"].astype(bool)]
    return {
        "family": family,
        "n_classes": int(table["n_classes"].iloc[0]),
        "correlation": table["accuracy"].corr(table["confidence"]) if varies else np.nan,
        "worst_confidence": table["confidence"].iloc[int(np.argmax(table["loss"]))],
        "best_confidence": table["confidence"].iloc[int(np.argmin(table["loss"]))],
        "distinct": collapsed["distinct"].median() if len(collapsed) else np.nan,
    }


def _chance_picks(result: StudyResult, picked: pd.DataFrame) -> pd.DataFrame:
    confident = picked[picked["rule"] == "avg-confidence"][["family", "pick"]]
    looked_up = confident.merge(
        result.candidates, left_on=["family", "pick"], right_on=["family", "candidate"]
    )
    return looked_up.assign(chance_pick=looked_up["collapsed"].astype(bool))[["family", "chance_pick"]]


def collapse_by_bits(result: StudyResult) -> pd.DataFrame:
    """Where does the family break? Share of candidates at chance, by bit width and scaling granularity."""
    table = result.candidates[result.candidates["bits"].notna()].merge(result.groups, on="family")
    if not len(table):
        return pd.DataFrame()
    share = table.assign(collapsed=table["collapsed"].astype(float))
    out = (
        share.pivot_table(index=["setting", "bits"], columns="granularity", values="collapsed")
        .reset_index()
        .rename_axis(columns=None)
    )
    return out.assign(bits=out["bits"].astype(int))


def cost_frontier(result: StudyResult) -> pd.DataFrame:
    """What does a memory budget cost, and is there still something to choose inside it? Means over
    families.
    """
    table = result.candidates.merge(result.groups, on="family")
    table = table[table["cost"].notna()]
    given = [budget for budget in result.metadata["config"]["memory_budgets"] if budget is not None]
    rows = []
    for (setting, family), members in table.groupby(["setting", "family"], sort=True):
        for budget in [*sorted(given or _BUDGETS), np.inf]:
            fits = members[members["cost"] <= budget + 1e-12]
            if len(fits):
                excess, spread = (
                    fits["loss"].min() - members["loss"].min(),
                    fits["loss"].max() - fits["loss"].min(),
                )
                rows.append(
                    {
                        "setting": setting,
                        "memory_budget": budget,
                        "family": family,
                        "n": len(fits),
                        "excess": excess,
                        "spread": spread,
                    }
                )
    if not rows:
        return pd.DataFrame()
    grouped = pd.DataFrame(rows).groupby(["setting", "memory_budget"], sort=True)
    return grouped.agg(
        admissible=("n", "mean"),
        excess_over_free=("excess", "mean"),
        internal_spread=("spread", "mean"),
        families=("family", "nunique"),
    ).reset_index()


def calibration_audit(result: StudyResult) -> pd.DataFrame:
    """Why does validation leave the anchor's pick? ECE, accuracy and loss of both picks, paired, with
    bootstrap intervals.

    Validation uses the largest clean budget of each family. Values are medians over families; differences are
    means.
    """
    table = outcomes(result)
    table = table[table["rate"] == 0]
    validated = table[table["rule"] == "val-ce"]
    largest = validated[validated["n"] == validated.groupby("family")["n"].transform("max")]
    columns = ["ece", "accuracy", "loss"]
    facts = result.candidates[["family", "candidate", *columns]]
    picks = {}
    for name, rows in (("distortion", table[table["rule"] == ANCHOR]), ("val-ce", largest)):
        looked_up = rows.merge(facts, left_on=["family", "pick"], right_on=["family", "candidate"])
        picks[name] = looked_up.groupby(["setting", "family"])[columns].mean()
    out = [_audit_row(setting, picks, columns) for setting in sorted(set(table["setting"])) if len(largest)]
    return pd.DataFrame([row for rows in out for row in rows])


def _audit_row(setting: str, picks: dict[str, pd.DataFrame], columns: list[str]) -> list[dict[str, object]]:
    if any(setting not in table.index.get_level_values(0) for table in picks.values()):
        return []
    anchor, validated = (picks[name].loc[setting] for name in ("distortion", "val-ce"))
    rows: list[dict[str, object]] = []
    for column in columns:
        differences = (validated[column] - anchor[column]).dropna().to_numpy()
        low, high = bootstrap_interval(differences)
        rows.append(
            {
                "setting": setting,
                "measure": column,
                "distortion": anchor[column].median(),
                "val-ce": validated[column].median(),
                "difference": differences.mean(),
                "low_95": low,
                "high_95": high,
                "families": len(differences),
            }
        )
    return rows


def attenuation(result: StudyResult) -> pd.DataFrame:
    """Does theory predict the measurement? Slopes of corrupted on clean statistics beside 1 - Kη/(K-1), means
    over families.
    """
    table = result.attenuation.merge(result.groups, on="family")
    if not len(table):
        return pd.DataFrame()
    grouped = table.groupby(["setting", "rate"], sort=True)
    out = grouped.agg(
        predicted=("predicted", "mean"),
        label_part=("label_part", "mean"),
        accuracy=("accuracy", "mean"),
        identity_error=("identity_error", "max"),
        families=("family", "nunique"),
    ).reset_index()
    gap = np.maximum((out["label_part"] - out["predicted"]).abs(), (out["accuracy"] - out["predicted"]).abs())
    out.insert(5, "largest_gap", gap)
    return out


def anchor_already_optimal(result: StudyResult) -> pd.DataFrame:
    """How often is the anchor's pick already the best, and is it always the same candidate?"""
    table = outcomes(result)
    picked = table[(table["rule"] == ANCHOR) & (table["n"] == 0)]
    named = picked.merge(
        result.candidates[["family", "candidate", "name"]],
        left_on=["family", "pick"],
        right_on=["family", "candidate"],
    )
    rows = []
    for setting, cell in named.groupby("setting", sort=True):
        favourite = cell["name"].value_counts().index[0]
        rows.append(
            {
                "setting": setting,
                "families": len(cell),
                "already_optimal": int((cell["regret"] == 0).sum()),
                "mean_regret": cell["regret"].mean(),
                "most_frequent_pick": favourite,
                "picked_in": int((cell["name"] == favourite).sum()),
            }
        )
    return pd.DataFrame(rows)


def restricted_families(result: StudyResult) -> pd.DataFrame:
    """Is one catastrophic candidate to blame? The anchor's median regret inside parts of the family."""
    table = result.candidates.merge(result.groups, on="family")
    rows = []
    for (setting, family), members in table.groupby(["setting", "family"], sort=True):
        parts = {
            "whole family": members,
            "6 to 8 bits": members[members["bits"] >= 6],
            "2 to 4 bits": members[members["bits"] <= 4],
            f"{_TOP} closest to the teacher": members.nsmallest(_TOP, "distortion"),
        }
        for order, (part, inside) in enumerate(parts.items()):
            if len(inside) > 1:
                pick = inside["loss"].iloc[int(np.argmin(inside["distortion"]))]
                rows.append(
                    {
                        "setting": setting,
                        "order": order,
                        "part": part,
                        "family": family,
                        "regret": pick - inside["loss"].min(),
                    }
                )
    if not rows:
        return pd.DataFrame()
    grouped = pd.DataFrame(rows).groupby(["setting", "order", "part"])
    return (
        grouped.agg(median_regret=("regret", "median"), families=("family", "nunique"))
        .reset_index()
        .drop(columns="order")
    )
