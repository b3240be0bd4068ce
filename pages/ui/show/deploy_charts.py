"""Charts of what deploying a candidate takes: memory against time, and the bits of each layer. A table goes
in, a chart comes out.
"""

from __future__ import annotations

import altair as alt
import pandas as pd

from pages.ui.show.charts import Drawing

HEIGHT = 380
_BITS_COLORS = {2: "#c8372d", 3: "#d9644b", 4: "#e07b1f", 5: "#efaa5c", 6: "#6f9fd0", 8: "#2f6fb5"}


def latency_scatter(candidates: pd.DataFrame, value: str, ink: str) -> Drawing:
    """Draw candidates by memory (x) and time (y), coloured by `value` ("loss" or "distortion").

    Columns name, cost, latency, spread, the value, admissible, frontier, chosen. The frontier is joined by a
    line and drawn as diamonds; the chosen candidate is ringed.
    """
    title = "loss on your labels" if value == "loss" else "distance to the teacher, nats"
    x = alt.X("cost:Q", axis=alt.Axis(format="~p"), title="weight memory, share of float (lower is cheaper)")
    y = alt.Y("latency:Q", title="time per image, × the float teacher's (lower is faster)")
    color = alt.Color(
        f"{value}:Q", scale=alt.Scale(scheme="viridis", type="log"), legend=alt.Legend(title=f"{title} ↓")
    )
    shape = alt.Shape(
        "frontier:N",
        scale=alt.Scale(domain=[True, False], range=["diamond", "circle"]),
        legend=None,
    )
    tooltip = [
        alt.Tooltip("name:N", title="candidate"),
        alt.Tooltip("cost:Q", title="share of float memory", format=".3p"),
        alt.Tooltip("latency:Q", title="× the teacher's time", format=".2f"),
        alt.Tooltip("spread:Q", title="± between rounds", format=".2f"),
        alt.Tooltip(f"{value}:Q", title=title, format=".3g"),
    ]
    shown = candidates.assign(**{value: candidates[value].clip(lower=1e-5)})
    dots = (
        alt.Chart(shown)
        .mark_point(filled=True, size=80)
        .encode(
            x,
            y,
            color,
            shape,
            opacity=alt.condition("datum.admissible", alt.value(0.95), alt.value(0.2)),
            tooltip=tooltip,
        )
    )
    ring = (
        alt.Chart(shown[shown["chosen"]])
        .mark_point(shape="circle", size=260, strokeWidth=2.5, color=ink, filled=False)
        .encode(x, y)
    )
    return alt.layer(dots, ring).properties(height=HEIGHT)


def allocation_bars(layers: pd.DataFrame) -> Drawing:
    """Draw the bits of each layer as one bar a layer, in the network's order (columns place, layer, bits,
    weights).
    """
    widths = sorted(layers["bits"].unique())
    bars: alt.Chart = (
        alt.Chart(layers)
        .mark_bar()
        .encode(
            alt.X("place:O", title="layer, from input to output", axis=alt.Axis(labels=len(layers) <= 40)),
            alt.Y("bits:Q", title="bits per weight", scale=alt.Scale(domain=[0, max(8, *widths)])),
            alt.Color(
                "bits:O",
                scale=alt.Scale(domain=widths, range=[_BITS_COLORS.get(w, "#6b7280") for w in widths]),
                legend=None,
            ),
            tooltip=[alt.Tooltip("layer:N"), alt.Tooltip("bits:Q"), alt.Tooltip("weights:Q", format=",")],
        )
        .properties(height=180)
    )
    return bars
