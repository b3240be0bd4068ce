"""A study's pictures: tables in, altair charts out, each with a title that states what was found.

Knows which picture goes with which table. How lines and panels look is `engine.study.figures.drawing`'s
matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from engine.study.figures import families as family_figures
from engine.study.figures.drawing import (
    SQRT,
    headline,
    labels_axis,
    load_altair,
    panels,
    rule_color,
    rule_lines,
)
from engine.study.protocol.result import StudyResult
from engine.study.tables import comparisons, findings
from engine.study.tables import regret as tables

_MOST_PANELS = 9  # families with a panel each


def regret_by_budget(result: StudyResult) -> Any | None:
    """Mean regret against the number of clean labels, one line a rule; bands hold the middle half of the
    families.
    """
    table = tables.regret_by_budget(result)
    if not len(table):
        return None
    alt = load_altair()
    rules = headline(list(table.columns[2:]))
    long = table.melt(["setting", "n"], rules, "rule", "regret").merge(
        _middle_half(result), on=["setting", "n", "rule"], how="left"
    )
    band = alt.Chart().transform_filter("isValid(datum.low)").mark_area(opacity=0.15)
    band = band.encode(
        x=labels_axis(alt),
        y=alt.Y("low:Q", scale=alt.Scale(**SQRT)),
        y2="high:Q",
        color=rule_color(alt, rules),
    )
    lines = rule_lines(alt, rules, "mean regret (nats, lower is better)")
    return panels(alt, alt.layer(band, lines), long, findings.budgets(result))


def _middle_half(result: StudyResult) -> pd.DataFrame:
    """Quartiles over families of the two rules the study is about, for settings of at least four families."""
    table = tables.regret_by_family(result)
    rules = [rule for rule in ("val-ce", "ce-combo") if rule in table]
    long = table.melt(["setting", "family", "n"], rules, "rule", "regret")
    grouped = long.groupby(["setting", "n", "rule"])["regret"]
    quartiles = grouped.agg(
        low=lambda regret: regret.quantile(0.25), high=lambda regret: regret.quantile(0.75), families="size"
    ).reset_index()
    return quartiles[quartiles["families"] >= 4].drop(columns="families")


def regret_by_family(result: StudyResult) -> Any | None:
    """As regret_by_budget, one panel a family, where there are several and not too many."""
    table = tables.regret_by_family(result)
    if not 1 < len(result.families) <= _MOST_PANELS or not len(table):
        return None
    alt = load_altair()
    rules = headline(list(table.columns[3:]))
    long = (
        table.drop(columns="setting")
        .rename(columns={"family": "setting"})
        .melt(["setting", "n"], rules, "rule", "regret")
    )
    return panels(alt, rule_lines(alt, rules, "mean regret (nats)"), long, findings.families(result))


def corruption_grid(result: StudyResult) -> Any | None:
    """Mean regret against labels, one panel per setting and corruption rate."""
    table = tables.corruption_grid(result)
    if not len(table):
        return None
    alt = load_altair()
    rules = headline([column for column in table.columns[3:] if column != "lowest"])
    long = table.melt(["setting", "rate", "n"], rules, "rule", "regret")
    long = long.assign(wrong=[f"{rate:.0%} wrong labels" for rate in long["rate"]])
    lines = rule_lines(alt, rules, "mean regret (nats)").properties(width=210, height=170)
    row = {"row": alt.Row("setting:N", title=None)} if len(set(long["setting"])) > 1 else {}
    return lines.facet(column=alt.Column("wrong:N", title=None), data=long, **row).properties(
        title=findings.corruption(result)
    )


def smallest_budget(result: StudyResult) -> Any | None:
    """Every rule's mean regret with the fewest labels, best on top, label-free and supervised apart."""
    table = tables.regret_at_smallest_budget(result)
    if not len(table):
        return None
    alt = load_altair()
    kind = np.where(table["labels"] == "none", "no labels", "with " + table["labels"].astype(str) + " labels")
    order = list(table.groupby("rule")["mean_regret"].mean().sort_values().index)
    data = table.assign(kind=kind)
    points = (
        alt.Chart()
        .mark_point(filled=True, size=90, opacity=1)
        .encode(
            x=alt.X("mean_regret:Q", title="mean regret (nats, lower is better)", scale=alt.Scale(**SQRT)),
            y=alt.Y("rule:N", sort=order, title=None),
            color=alt.Color(
                "kind:N", title=None, scale=alt.Scale(range=["#8a8a8a", "#d55e00"], domain=sorted(set(kind)))
            ),
            shape=alt.Shape(
                "kind:N", title=None, scale=alt.Scale(range=["square", "circle"], domain=sorted(set(kind)))
            ),
            tooltip=[
                "setting",
                "rule",
                "kind",
                alt.Tooltip("mean_regret:Q", format=".4f"),
                alt.Tooltip("sd:Q", format=".3f"),
                "families",
            ],
        )
    )
    return panels(alt, points, data, findings.smallest(result))


def paired_differences(result: StudyResult) -> Any | None:
    """CE-combo minus direct validation with bootstrap intervals, against the number of labels."""
    table = comparisons.paired_inference(result)
    if len(table):
        table = table[(table["comparison"] == "ce-combo − val-ce") & table["low_95"].notna()]
    if not len(table):
        return None
    alt = load_altair()
    rates = [f"{rate:.0%} wrong" for rate in sorted(set(table["rate"]))]
    table = table.assign(labels=[f"{rate:.0%} wrong" for rate in table["rate"]])
    encoded = alt.Chart().encode(
        x=labels_axis(alt),
        xOffset=alt.XOffset("labels:N", sort=rates),
        color=alt.Color(
            "labels:N",
            title=None,
            sort=rates,
            scale=alt.Scale(range=["#2b7fc3", "#e69f00", "#d1495b", "#7a5cc0", "#8a8a8a"]),
        ),
        tooltip=[
            "setting",
            "n",
            "labels",
            alt.Tooltip("difference:Q", format=".4f"),
            alt.Tooltip("p_holm:Q", format=".3f"),
            "units",
        ],
    )
    scale = alt.Y("low_95:Q", title="CE-combo − direct validation (nats)")
    intervals = encoded.mark_rule(strokeWidth=2).encode(y=scale, y2="high_95:Q")
    points = encoded.mark_point(filled=True, size=50, opacity=1).encode(
        y=alt.Y("difference:Q", title="CE-combo − direct validation (nats)")
    )
    zero = alt.Chart().mark_rule(strokeDash=[3, 3], color="#8a8a8a").encode(y=alt.datum(0))
    return panels(alt, alt.layer(intervals, points, zero), table, findings.paired(result))


# A table's name -> the picture that goes with it.
FIGURES: dict[str, Callable[[StudyResult], Any | None]] = {
    "regret_at_smallest_budget": smallest_budget,
    "regret_by_budget": regret_by_budget,
    "regret_by_family": regret_by_family,
    "corruption_grid": corruption_grid,
    "paired_inference": paired_differences,
    "coefficients": family_figures.coefficients,
    "regimes": family_figures.regimes,
    "cost_frontier": family_figures.cost_frontier,
    "attenuation": family_figures.attenuation,
}
