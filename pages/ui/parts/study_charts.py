"""A study's charts as the page shows them: the title as page text, so that it wraps, and short names for
rules.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import streamlit as st

from pages.ui.parts.page import WIDE, chart_text, plain
from pages.ui.show.words import short_title, with_titles

_NAMING = ("rule", "domain", "sort")  # where a specification holds names of rules: data, scales and orders
_CONFIG = {
    # Beside the chart, names would leave a phone no room for lines.
    "legend": {"orient": "bottom", "columns": 2, "labelLimit": 180, "labelFontSize": 12, "symbolSize": 60},
    "axis": {"labelLimit": 180},
}


def page_chart(chart: Any) -> tuple[str, dict[str, Any]]:
    """Return the chart's title and its specification without it."""
    with alt.data_transformers.enable("default", max_rows=None):
        spec: dict[str, Any] = chart.to_dict()
    title = with_titles(str(spec.pop("title", "")))
    spec["config"] = {**spec.get("config", {}), **_CONFIG}
    if "facet" in spec:  # panels keep the size they were drawn for; three to a line are wider than the page
        spec |= {"columns": 2} if "columns" in spec else {}
    else:
        # the legend adds to the height and takes nothing from the picture
        spec["autosize"] = {
            "type": "fit-x",
            "contains": "padding",
        }
    return title, _named(spec)


def show_chart(name: str, title: str, spec: dict[str, Any]) -> None:
    """Show a chart under its finding. Panels side by side may be wider than the screen: they scroll."""
    st.markdown(f"**{plain(title)}**")
    config = {key: {**spec["config"].get(key, {}), **text} for key, text in chart_text().items()}
    spec = {**spec, "config": {**spec["config"], **config}}
    with st.container(key=f"{WIDE}-{name}" if "facet" in spec else None):
        st.vega_lite_chart(spec=spec, width="stretch", alt=title)


def _named(node: Any, key: str = "") -> Any:
    if isinstance(node, dict):
        return {name: _named(value, name) for name, value in node.items()}
    if isinstance(node, list):
        return [_named(value, key) for value in node]
    return short_title(node) if key in _NAMING and isinstance(node, str) else node
