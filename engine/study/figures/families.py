"""Pictures of the families themselves: confidence against accuracy, coefficients, memory cost, attenuation.

Tables in, altair charts out. A picture with nothing to show is None.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from engine.rules.supervised import SUPERVISED
from engine.study.figures.drawing import RULE_COLORS, SQRT, labels_axis, load_altair
from engine.study.protocol.result import StudyResult
from engine.study.tables import families as family_tables
from engine.study.tables import findings
from engine.study.tables import regret as tables

_BIT_COLORS = {"2–3 bits": "#d1495b", "4–5 bits": "#e69f00", "6–8 bits": "#2b7fc3", "other": "#8a8a8a"}
_MOST_FAMILIES = 6  # panels in one picture


def regimes(result: StudyResult) -> Any | None:
    """Confidence against accuracy, one point a candidate, chance as a dashed line; one panel a family."""
    families = list(dict.fromkeys(result.candidates["family"]))[:_MOST_FAMILIES]
    table = result.candidates[result.candidates["family"].isin(families)]
    if not len(table):
        return None
    alt = load_altair()
    bits = pd.cut(table["bits"], [0, 3, 5, 8], labels=list(_BIT_COLORS)[:3]).astype(object)
    table = table.assign(width=bits.where(bits.notna(), "other"), chance=1 / table["n_classes"])
    widths = [name for name in _BIT_COLORS if name in set(table["width"])]
    points = (
        alt.Chart()
        .mark_point(filled=True, size=45, opacity=0.8)
        .encode(
            x=alt.X("confidence:Q", title="mean confidence on the pool", scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("accuracy:Q", title="accuracy on the test part"),
            color=alt.Color(
                "width:N",
                title=None,
                sort=widths,
                scale=alt.Scale(domain=widths, range=[_BIT_COLORS[name] for name in widths]),
            ),
            shape=alt.Shape(
                "width:N",
                title=None,
                sort=widths,
                scale=alt.Scale(
                    domain=widths, range=["triangle-up", "square", "circle", "cross"][: len(widths)]
                ),
            ),
            tooltip=[
                "family",
                "name",
                alt.Tooltip("confidence:Q", format=".3f"),
                alt.Tooltip("accuracy:Q", format=".3f"),
                alt.Tooltip("loss:Q", format=".3f"),
            ],
        )
    )
    chance = alt.Chart().mark_rule(strokeDash=[3, 3], color="#8a8a8a").encode(y="mean(chance):Q")
    layered = alt.layer(points, chance, data=table).properties(width=240, height=190)
    return layered.facet(facet=alt.Facet("family:N", title=None), columns=3).properties(
        title=findings.regimes(result)
    )


def coefficients(result: StudyResult) -> Any | None:
    """How often cross-validation reverts to the anchor, stays inside the grid or ends at its maximum."""
    table = tables.coefficients(result)
    if not len(table):
        return None
    alt = load_altair()
    table = table[
        (table["rate"] == 0)
        & table["rule"].isin([name for name, rule in SUPERVISED.items() if rule.grid is not None])
    ]
    if not len(table):
        return None
    averaged = (
        table.groupby(["rule", "n"], sort=False)[["reverted_to_anchor", "at_grid_maximum"]]
        .mean()
        .reset_index()
    )
    averaged["between"] = 1 - averaged["reverted_to_anchor"] - averaged["at_grid_maximum"]
    named = {
        "reverted_to_anchor": "back to the anchor",
        "between": "in between",
        "at_grid_maximum": "grid maximum",
    }
    long = averaged.rename(columns=named).melt(["rule", "n"], list(named.values()), "coefficient", "share")
    bars = (
        alt.Chart(long)
        .mark_bar()
        .encode(
            x=labels_axis(alt),
            y=alt.Y(
                "share:Q",
                title="share of outcomes",
                axis=alt.Axis(format="%"),
                scale=alt.Scale(domain=[0, 1]),
            ),
            color=alt.Color(
                "coefficient:N",
                title=None,
                sort=list(named.values()),
                scale=alt.Scale(domain=list(named.values()), range=["#8a8a8a", "#9ecae1", "#d55e00"]),
            ),
            tooltip=["rule", "n", "coefficient", alt.Tooltip("share:Q", format=".1%")],
        )
        .properties(width=190, height=160)
    )
    return bars.facet(
        column=alt.Column("rule:N", title=None, sort=list(dict.fromkeys(long["rule"])))
    ).properties(title=findings.coefficients(result))


def cost_frontier(result: StudyResult) -> Any | None:
    """Best test loss within a memory budget, above the best of all, against the budget; one line a family."""
    table = (
        result.candidates[result.candidates["cost"].notna()]
        .merge(result.groups, on="family")
        .sort_values(["family", "cost"], kind="stable")
    )
    if not len(table):
        return None
    alt = load_altair()
    excess = table.groupby("family")["loss"].cummin() - table.groupby("family")["loss"].transform("min")
    table = table.assign(excess=excess).drop_duplicates(["family", "cost"], keep="last")[
        ["family", "setting", "cost", "excess"]
    ]
    if len(table) > 4000:  # many families: the mean over a setting, on a common grid of budgets
        table = (
            table.assign(cost=table["cost"].round(2))
            .groupby(["setting", "cost"])["excess"]
            .mean()
            .reset_index()
            .assign(family=lambda t: t["setting"])
        )
    return (
        alt.Chart(table)
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X(
                "cost:Q",
                title="memory budget (share of float)",
                axis=alt.Axis(format="%"),
                scale=alt.Scale(zero=False),
            ),
            y=alt.Y("excess:Q", title="loss above the unconstrained best (nats)", scale=alt.Scale(**SQRT)),
            color=alt.Color(
                "setting:N" if len(set(table["setting"])) > 1 else "family:N",
                title=None,
                scale=alt.Scale(range=list(RULE_COLORS.values())),
            ),
            detail="family:N",
            tooltip=["family", alt.Tooltip("cost:Q", format=".3f"), alt.Tooltip("excess:Q", format=".3f")],
        )
        .properties(width=520, height=260, title=findings.cost(result))
    )


def attenuation(result: StudyResult) -> Any | None:
    """Measured slopes on the predicted one; theory is the diagonal."""
    table = family_tables.attenuation(result)
    if not len(table):
        return None
    alt = load_altair()
    long = table.rename(columns={"label_part": "label component", "accuracy": "validation accuracy"}).melt(
        ["setting", "rate", "predicted"], ["label component", "validation accuracy"], "criterion", "slope"
    )
    points = (
        alt.Chart(long)
        .mark_point(filled=True, size=70, opacity=0.9)
        .encode(
            x=alt.X("predicted:Q", title="predicted slope 1 − Kη/(K−1)", scale=alt.Scale(zero=False)),
            y=alt.Y("slope:Q", title="measured slope", scale=alt.Scale(zero=False)),
            color=alt.Color("criterion:N", title=None, scale=alt.Scale(range=["#0a9a73", "#b8639a"])),
            shape=alt.Shape("criterion:N", title=None),
            tooltip=[
                "setting",
                alt.Tooltip("rate:Q", format=".0%"),
                "criterion",
                alt.Tooltip("predicted:Q", format=".3f"),
                alt.Tooltip("slope:Q", format=".3f"),
            ],
        )
    )
    line = (
        alt.Chart(long).mark_line(color="#8a8a8a", strokeDash=[4, 3]).encode(x="predicted:Q", y="predicted:Q")
    )
    return (line + points).properties(width=320, height=260, title=findings.attenuation(result))
