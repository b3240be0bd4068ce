"""Charts of confidence: against accuracy, collapse by bits, reliability. A table goes in, an Altair chart
comes out.
"""

from __future__ import annotations

import altair as alt
import pandas as pd

from pages.ui.show.charts import HEIGHT, Drawing, band_marks, rim_and_ink, with_bands


def confidence_scatter(
    health: pd.DataFrame, teacher: pd.DataFrame, *, chance: float, quality: str, ink: str
) -> Drawing:
    """Draw mean confidence (x) against quality (y), one dot a candidate with its 95 % interval, the teacher
    and the chance line.

    health: name, bits, confidence, quality, low, high, collapsed. teacher: confidence, quality (one row).
    `quality` names the y axis.
    """
    shown = with_bands(health)
    x = alt.X(
        "confidence:Q",
        axis=alt.Axis(format="~p"),
        scale=alt.Scale(zero=False, nice=True),
        title="mean confidence on the pool",
    )
    y = alt.Y("quality:Q", axis=alt.Axis(format="~p"), scale=alt.Scale(domain=[0, 1]), title=quality)
    color, shape = band_marks(shown)
    tooltip = [
        alt.Tooltip("name:N", title="candidate"),
        alt.Tooltip("confidence:Q", format=".3p"),
        alt.Tooltip("quality:Q", title=quality, format=".3p"),
        alt.Tooltip("low:Q", title="95 % interval from", format=".3p"),
        alt.Tooltip("high:Q", title="to", format=".3p"),
        alt.Tooltip("top_class_share:Q", title="share given to one class", format=".3p"),
    ]
    bars = (
        alt.Chart(shown)
        .mark_rule(opacity=0.22)
        .encode(x, alt.Y("low:Q", title=quality), alt.Y2("high:Q"), color)
    )
    dots = (
        alt.Chart(shown)
        .mark_point(filled=True, size=70, opacity=0.9)
        .encode(x, y, color, shape, tooltip=tooltip)
    )
    floor = pd.DataFrame({"quality": [chance], "label": ["guessing"]})
    line = alt.Chart(floor).mark_rule(color=ink, strokeDash=[5, 4], opacity=0.6).encode(y=y)
    word = (
        alt.Chart(floor)
        .mark_text(align="left", x=4, dy=-7, color=ink, opacity=0.8)
        .encode(y=y, text="label:N")
    )
    float_model = alt.Chart(teacher)
    cross = float_model.mark_point(shape="cross", filled=True, size=150, color=ink, opacity=1).encode(
        x, y, tooltip=tooltip[1:3]
    )
    names = [
        float_model.mark_text(align="left", dx=10, dy=-8, fontWeight="bold", **rim).encode(
            x, y, text=alt.value("teacher")
        )
        for rim in rim_and_ink(ink)
    ]
    return alt.layer(line, word, bars, dots, cross, *names).properties(height=HEIGHT)


def collapse_heat_map(rates: pd.DataFrame) -> Drawing:
    """Draw the share of collapsed candidates by bits and granularity (columns bits, granularity, rate,
    n_candidates).
    """
    shown = rates.assign(text=[f"{rate:.0%}" for rate in rates["rate"]])
    x = alt.X("bits:O", axis=alt.Axis(labelAngle=0), title="bits per weight")
    y = alt.Y("granularity:N", title="scales per")
    color = alt.Color("rate:Q", scale=alt.Scale(domain=[0, 1.15], scheme="reds"), legend=None)
    tooltip = [
        alt.Tooltip("bits:O"),
        alt.Tooltip("granularity:N"),
        alt.Tooltip("rate:Q", title="collapsed", format=".0%"),
        alt.Tooltip("n_candidates:Q", title="candidates"),
    ]
    cells = alt.Chart(shown).mark_rect(cornerRadius=3).encode(x, y, color, tooltip=tooltip)
    words = (
        alt.Chart(shown)
        .mark_text(fontSize=13)
        .encode(
            x,
            y,
            text="text:N",
            color=alt.condition("datum.rate > 0.55", alt.value("#ffffff"), alt.value("#1b2430")),
        )
    )
    return alt.layer(cells, words).properties(height=150)


def reliability_diagram(bins: pd.DataFrame, models: list[str], ink: str) -> Drawing:
    """Draw accuracy against confidence by bin, one mark a model (columns model, confidence, accuracy, count);
    the diagonal is perfect. `models` are the three in the order of their marks.
    """
    x = alt.X("confidence:Q", axis=alt.Axis(format="~p"), scale=alt.Scale(domain=[0, 1]), title="confidence")
    y = alt.Y(
        "accuracy:Q", axis=alt.Axis(format="~p"), scale=alt.Scale(domain=[0, 1]), title="right on your labels"
    )
    scale = alt.Scale(domain=models, range=[ink, "#2f6fb5", "#e07b1f"])
    color = alt.Color("model:N", scale=scale, legend=alt.Legend(title=None, orient="top", labelLimit=240))
    shape = alt.Shape("model:N", scale=alt.Scale(domain=models, range=["cross", "circle", "square"]))
    tooltip = [
        alt.Tooltip("model:N"),
        alt.Tooltip("confidence:Q", format=".3p"),
        alt.Tooltip("accuracy:Q", format=".3p"),
        alt.Tooltip("count:Q", title="labels in this bin"),
    ]
    ideal = (
        alt.Chart(pd.DataFrame({"confidence": [0, 1], "accuracy": [0, 1]}))
        .mark_line(color=ink, strokeDash=[5, 4], opacity=0.4)
        .encode(x, y)
    )
    dots = (
        alt.Chart(bins)
        .mark_point(filled=True, opacity=0.95)
        .encode(
            x,
            y,
            color,
            shape,
            alt.Size("count:Q", scale=alt.Scale(range=[30, 260]), legend=None),
            tooltip=tooltip,
        )
    )
    return alt.layer(ideal, dots).properties(height=320)
