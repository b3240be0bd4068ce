"""How a study is drawn: palette, line charts per rule, panels per setting, and rendering to SVG and PNG.

Knows altair and nothing of a study's numbers. Altair is imported when the first picture is made.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

import pandas as pd

from engine.rules.label_free import LABEL_FREE
from engine.study.tables.regret import ABLATIONS

# Okabe and Ito's palette, readable by the colour-blind; lines differ in dash and point shape as well.
RULE_COLORS = {
    "distortion": "#8a8a8a",
    "val-ce": "#2b7fc3",
    "ce-combo": "#d55e00",
    "alignment": "#0a9a73",
    "val-acc": "#b8639a",
    "teacher-component": "#c58f00",
    "permutation-control": "#56b4e9",
    "calibrated": "#7a5cc0",
    "auto": "#a0522d",
}
_INK, _TITLE_CHARACTERS = "#222222", 62
_SPARE = ("#7a5cc0", "#a0522d", "#4d9221", "#c51b7d")
# keeps zero, and does not let one bad rule flatten the rest
SQRT = {
    "type": "sqrt",
    "nice": True,
    "zero": True,
}


def load_altair() -> Any:
    """Return the altair module."""
    import altair

    return altair


def rule_color(alt: Any, rules: list[str]) -> Any:
    """Return the colour encoding of rules; a rule the palette does not know gets a spare colour."""
    spare = iter(_SPARE * len(rules))
    colors = [RULE_COLORS.get(rule) or next(spare) for rule in rules]
    legend = alt.Legend(title=None, symbolOpacity=1)  # not the faint one of a band behind the lines
    return alt.Color("rule:N", sort=rules, legend=legend, scale=alt.Scale(domain=rules, range=colors))


def labels_axis(alt: Any) -> Any:
    """Return the axis of label budgets, one position each: they grow too unevenly for a linear one."""
    return alt.X("n:O", title="labels", axis=alt.Axis(labelAngle=0))


def headline(columns: list[str]) -> list[str]:
    """Leave out the ablations, which crowd a picture; they are in the tables."""
    return [rule for rule in columns if rule not in ABLATIONS]


def rule_lines(alt: Any, rules: list[str], y_title: str) -> Any:
    """Return lines with points, regret against n, one a rule; label-free rules are dashed. The data comes
    with the panels.
    """
    shapes = [
        "circle",
        "square",
        "triangle-up",
        "diamond",
        "cross",
        "triangle-down",
        "triangle-right",
        "triangle-left",
    ]
    encoded = alt.Chart().encode(
        x=labels_axis(alt),
        y=alt.Y("regret:Q", title=y_title, scale=alt.Scale(**SQRT)),
        color=rule_color(alt, rules),
        tooltip=["setting", "rule", "n", alt.Tooltip("regret:Q", format=".4f")],
    )
    dash = alt.StrokeDash(
        "rule:N",
        title=None,
        sort=rules,
        scale=alt.Scale(domain=rules, range=[[4, 3] if rule in LABEL_FREE else [1, 0] for rule in rules]),
    )
    shape = alt.Shape(
        "rule:N", title=None, sort=rules, scale=alt.Scale(domain=rules, range=(shapes * 3)[: len(rules)])
    )
    return encoded.mark_line(strokeWidth=2).encode(strokeDash=dash) + encoded.mark_point(
        filled=True, size=55, opacity=1
    ).encode(shape=shape)


def panels(alt: Any, chart: Any, data: pd.DataFrame, title: str) -> Any:
    """Draw a chart once per setting of the data, three to a line; a single setting gets the whole width."""
    if len(set(data["setting"])) == 1:
        return alt.layer(chart, data=data).properties(width=560, height=300, title=title)
    unit = alt.layer(chart).properties(width=380 if len(set(data["setting"])) == 2 else 260, height=210)
    return unit.facet(facet=alt.Facet("setting:N", title=None), columns=3, data=data).properties(title=title)


def render_svg(chart: Any, *, prefix: str) -> str:
    """Return the chart as SVG for embedding, without its title, which the page sets.

    Text takes the page's colour, and ids start with the prefix, so that many fit one page.
    """
    import vl_convert

    specification = _configured(chart, "currentColor")
    specification.pop("title", None)
    svg = str(vl_convert.vegalite_to_svg(specification))
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}-", svg)


def render_svg_file(chart: Any) -> str:
    """Return the chart as SVG on its own: with its title, dark on white."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg({**_configured(chart, _INK), "background": "white"}))


def render_png(svg: str, *, scale: float = 2.0) -> bytes:
    """Return a picture of `render_svg_file` as PNG."""
    import vl_convert

    return bytes(vl_convert.svg_to_png(svg, scale=scale))


def _configured(chart: Any, ink: str) -> dict[str, Any]:
    quiet = {
        "labelColor": ink,
        "titleColor": ink,
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "titleFontSize": 12,
    }
    axis = {
        **quiet,
        "domainColor": "#8a8a8a",
        "tickColor": "#8a8a8a",
        "gridColor": "#8a8a8a",
        "gridOpacity": 0.25,
    }
    title = {"color": ink, "fontSize": 14, "anchor": "start", "fontWeight": 600, "offset": 12}
    config = {
        "font": "Helvetica, Arial, sans-serif",
        "background": "transparent",
        "axis": axis,
        "legend": {**quiet, "orient": "bottom", "columns": 5, "symbolLimit": 30, "labelLimit": 400},
        "header": {"labelColor": ink, "titleColor": ink, "labelFontSize": 13, "labelFontWeight": 600},
        "title": title,
        "view": {"stroke": "transparent"},
    }
    specification: dict[str, Any] = chart.to_dict()
    specification["config"] = config
    if "title" in specification:
        specification["title"] = textwrap.wrap(specification["title"], _TITLE_CHARACTERS)
    return specification
