"""Charts of candidates: a table goes in, an Altair chart comes out. Colours and shapes mean the same on every
page.

2–3 bits red triangles, 4–5 bits orange squares, 6–8 bits blue circles, candidates of mixed or unknown
bits grey diamonds, the teacher in ink, the chosen candidate ringed.
"""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import pandas as pd

Drawing = alt.Chart | alt.LayerChart | alt.FacetChart  # what altair's own types say a chart may become

BANDS = ("2–3 bits", "4–5 bits", "6–8 bits", "mixed or unknown bits")
COLORS = ("#c8372d", "#e07b1f", "#2f6fb5", "#6b7280")
SHAPES = ("triangle-up", "square", "circle", "diamond")
HEIGHT = 380
PAPER = {"light": "#ffffff", "dark": "#12161c"}  # the pages' own colours, as in .streamlit/config.toml
_RING = 240
_GRANULARITY_MARKS = {
    "tensor": ("#8a5fb0", "square"),
    "channel": ("#2f8f83", "circle"),
    "lastaxis": ("#b0853a", "diamond"),
}


def with_bands(table: pd.DataFrame) -> pd.DataFrame:
    """Add the column `band` that colours and shapes are read from."""
    bits = pd.to_numeric(table["bits"])
    band = pd.cut(bits, [0, 3, 5, 8], labels=list(BANDS[:3])).astype(object).fillna(BANDS[3])
    return table.assign(band=band)


def band_marks(shown: pd.DataFrame) -> tuple[alt.Color, alt.Shape]:
    """Colour and shape of the bands that a table with the column `band` has. A scale that lacks a value draws
    nothing for it, and a legend of one band explains nothing.
    """
    bands = [band for band in BANDS if band in set(shown["band"])] or list(BANDS[:3])
    places = [BANDS.index(band) for band in bands]
    legend = alt.Legend(title=None, orient="top", symbolOpacity=1) if bands != [BANDS[3]] else None
    colors = alt.Scale(domain=bands, range=[COLORS[place] for place in places])
    shapes = alt.Scale(domain=bands, range=[SHAPES[place] for place in places])
    return (
        alt.Color("band:N", scale=colors, legend=legend),
        alt.Shape("band:N", scale=shapes, legend=legend),
    )


def _log_axis(values: pd.Series) -> alt.Axis:
    """Ticks at 1, 2 and 5 times powers of ten within the data, so that a log axis is not a thicket of lines;
    even steps where the data lies between two of those.
    """
    low, high = float(values.min()), float(values.max())
    steps = (1,) if high / max(low, 1e-9) > 300 else (1, 2, 5)
    ticks = [step * 10.0**power for power in range(-6, 4) for step in steps]
    if sum(low <= tick <= high for tick in ticks) < 2 and high > low:
        room = (high - low) / 2  # two steps fit whatever the first tick is
        whole = 10.0 ** math.floor(math.log10(room))
        step = whole * max(times for times in (1, 2, 5) if times == 1 or times * whole <= room)
        ticks = [step * at for at in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return alt.Axis(format="~g", values=[round(tick, 9) for tick in ticks if low / 2 <= tick <= high * 2])


def _candidate_tooltip(*more: alt.Tooltip) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("name:N", title="candidate"),
        *more,
        alt.Tooltip("cost:Q", title="share of float memory", format=".3p"),
        alt.Tooltip("distortion:Q", title="distance to teacher (nats)", format=".3g"),
        alt.Tooltip("agreement:Q", title="agrees with teacher", format=".3p"),
    ]


def choice_scatter(candidates: pd.DataFrame, picks: pd.DataFrame, line: pd.DataFrame, ink: str) -> Drawing:
    """Draw candidates by anchor distance (x) and labeled loss (y), with the picks named and the iso-score
    line of the dial.

    candidates: columns name, bits, cost, distortion, agreement, loss, accuracy, admissible. picks:
    distortion, loss, label, main. line: distortion, loss; may be empty.
    """
    shown = with_bands(candidates).assign(distance=candidates["distortion"].clip(lower=1e-5))
    named = picks.assign(distance=picks["distortion"].clip(lower=1e-5))
    x = alt.X(
        "distance:Q",
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=_log_axis(shown["distance"]),
        title="distance to the teacher, nats (log scale; left is closer)",
    )
    y = alt.Y(
        "loss:Q",
        scale=alt.Scale(type="log", zero=False, nice=False, padding=12),
        axis=_log_axis(shown["loss"]),
        title="loss on your labels, nats (lower is better)",
    )
    tooltip = _candidate_tooltip(
        alt.Tooltip("loss:Q", title="loss on your labels", format=".3g"),
        alt.Tooltip("accuracy:Q", title="right on your labels", format=".3p"),
    )
    faded = alt.condition("datum.admissible", alt.value(0.9), alt.value(0.15))
    dots = (
        alt.Chart(shown)
        .mark_point(filled=True, size=70)
        .encode(x, y, *band_marks(shown), opacity=faded, tooltip=tooltip)
    )
    curve = (
        alt.Chart(line.assign(distance=line["distortion"].clip(lower=1e-5)))
        .mark_line(strokeDash=[5, 4], color=ink, opacity=0.55)
        .encode(x, y, order="loss:Q")
    )
    ring = (
        alt.Chart(named[named["main"]])
        .mark_point(shape="circle", size=_RING, strokeWidth=2.5, color=ink, filled=False)
        .encode(x, y)
    )
    return _layered(curve, dots, ring, *_named_points(named, x, y, ink))


def rim_and_ink(ink: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """How a name is written, twice over: first as a rim of the page's colour, which keeps it readable where
    it crosses points, then in ink.
    """
    paper = PAPER["dark" if ink.lower() > "#8" else "light"]
    return {"stroke": paper, "strokeWidth": 4, "strokeJoin": "round", "color": paper}, {"color": ink}


def _named_points(named: pd.DataFrame, x: alt.X, y: alt.Y, ink: str) -> list[alt.Chart]:
    """Name the picks beside their points, the main one in bold, as far above as the table says."""
    charts = []
    for _, row in named.iterrows():
        is_right = row["side"] == "right"
        for rim in rim_and_ink(ink):
            text = alt.Chart(pd.DataFrame([row])).mark_text(
                align="left" if is_right else "right",
                dx=8 if is_right else -8,
                dy=-row["lift"],
                fontSize=12,
                fontWeight="bold" if row["main"] else "normal",
                **rim,
            )
            charts.append(text.encode(x, y, text="label:N"))
    return charts


def memory_scatter(candidates: pd.DataFrame, picks: pd.DataFrame, ink: str) -> Drawing:
    """Draw candidates by memory (x) and distance to the teacher (y): the picture when there are no labels."""
    shown = with_bands(candidates).assign(distance=candidates["distortion"].clip(lower=1e-5))
    named = picks.assign(distance=picks["distortion"].clip(lower=1e-5))
    x = alt.X("cost:Q", axis=alt.Axis(format="~p"), title="weight memory, share of float (lower is cheaper)")
    y = alt.Y(
        "distance:Q",
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=_log_axis(shown["distance"]),
        title="distance to the teacher, nats (log scale)",
    )
    faded = alt.condition("datum.admissible", alt.value(0.9), alt.value(0.15))
    dots = (
        alt.Chart(shown)
        .mark_point(filled=True, size=70)
        .encode(x, y, *band_marks(shown), opacity=faded, tooltip=_candidate_tooltip())
    )
    ring = (
        alt.Chart(named[named["main"]])
        .mark_point(shape="circle", size=_RING, strokeWidth=2.5, color=ink, filled=False)
        .encode(x, y)
    )
    return _layered(dots, ring, *_named_points(named, x, y, ink))


def dial_curve(dial: pd.DataFrame, at: float, ink: str) -> Drawing:
    """Draw the held-out loss of each coefficient (columns position, coefficient, cv_loss, pick, chosen), and
    where the dial stands.
    """
    x = alt.X(
        "position:O",
        axis=alt.Axis(labels=False, ticks=False, domain=False),
        title="coefficient, small to large",
    )
    y = alt.Y(
        "cv_loss:Q",
        scale=alt.Scale(zero=False, padding=10),
        axis=alt.Axis(tickCount=4),
        title="held-out loss ↓",
    )
    tooltip = [
        alt.Tooltip("coefficient:Q"),
        alt.Tooltip("cv_loss:Q", title="held-out loss", format=".3g"),
        alt.Tooltip("pick:N"),
    ]
    line = alt.Chart(dial).mark_line(color="#8a94a3").encode(x, y)
    dots = (
        alt.Chart(dial)
        .mark_point(filled=True, size=60, color="#8a94a3", opacity=1)
        .encode(x, y, tooltip=tooltip)
    )
    best = (
        alt.Chart(dial[dial["chosen"]])
        .mark_point(filled=True, size=110, color=ink, opacity=1)
        .encode(x, y, tooltip=tooltip)
    )
    here = (
        alt.Chart(dial[dial["coefficient"] == at])
        .mark_rule(color=ink, strokeDash=[5, 4], opacity=0.55)
        .encode(x)
    )
    return alt.layer(here, line, dots, best).properties(height=170)


def cost_chart(family: pd.DataFrame, budget: float | None, ink: str) -> Drawing:
    """Draw each candidate's cost against its bits (columns name, bits, granularity, cost, size, admissible),
    and the budget line.
    """
    shown = with_bands(family)
    x = alt.X("bits:O", axis=alt.Axis(labelAngle=0), title="bits per weight")
    y = alt.Y(
        "cost:Q",
        axis=alt.Axis(format="~p"),
        scale=alt.Scale(zero=True),
        title="weight memory ↓, share of float",
    )
    kinds = [kind for kind in _GRANULARITY_MARKS if kind in set(family["granularity"])]
    marks = [_GRANULARITY_MARKS[kind] for kind in kinds]
    color = alt.Color(
        "granularity:N",
        scale=alt.Scale(domain=kinds, range=[color for color, _ in marks]),
        legend=alt.Legend(title="scales per", orient="top"),
    )
    shape = alt.Shape("granularity:N", scale=alt.Scale(domain=kinds, range=[shape for _, shape in marks]))
    tooltip = [
        alt.Tooltip("name:N", title="candidate"),
        alt.Tooltip("cost:Q", title="share of float", format=".3p"),
        alt.Tooltip("size:N", title="weights"),
    ]
    dots = (
        alt.Chart(shown)
        .mark_point(filled=True, size=80)
        .encode(
            x,
            y,
            color,
            shape,
            xOffset=alt.XOffset("granularity:N"),
            tooltip=tooltip,
            opacity=alt.condition("datum.admissible", alt.value(0.9), alt.value(0.12)),
        )
    )
    if budget is None:
        return _layered(dots)
    limit = alt.Chart(pd.DataFrame({"cost": [budget], "label": ["budget"]}))
    return _layered(
        dots,
        limit.mark_rule(color=ink, strokeDash=[5, 4]).encode(y=y),
        limit.mark_text(align="left", dx=4, dy=-7, color=ink, x=0).encode(y=y, text="label:N"),
    )


def layer_bars(layers: pd.DataFrame) -> Drawing:
    """Draw bytes per layer (columns layer, order, bytes, size, kind) in the teacher's own order."""
    chart: Drawing = (
        alt.Chart(layers)
        .mark_bar(cornerRadiusEnd=2)
        .encode(
            alt.X("order:O", axis=alt.Axis(labels=False, ticks=False), title="layers, first to last"),
            alt.Y("bytes:Q", axis=alt.Axis(format="~s", tickCount=5), title="bytes as float"),
            alt.Color(
                "kind:N",
                scale=alt.Scale(
                    domain=["quantizable", "first or last: can stay float", "always float"],
                    range=["#2f6fb5", "#e07b1f", "#9aa3af"],
                ),
                legend=alt.Legend(
                    title=None, orient="top", labelLimit=220, columns=2
                ),  # three do not fit a phone
            ),
            tooltip=[
                alt.Tooltip("layer:N"),
                alt.Tooltip("shape:N"),
                alt.Tooltip("size:N"),
                alt.Tooltip("kind:N"),
            ],
        )
        .properties(height=260)
    )
    return chart


def _layered(*layers: alt.Chart) -> Drawing:
    return alt.layer(*layers).properties(height=HEIGHT)


def class_bars(counts: pd.DataFrame) -> Drawing:
    """Draw how many labels each class has (columns class, order, labels)."""
    x = alt.X(
        "class:N",
        sort=alt.SortField("order"),
        axis=alt.Axis(labelAngle=0 if len(counts) <= 12 else -90, labelLimit=80),
        title=None,
    )
    y = alt.Y("labels:Q", axis=alt.Axis(tickMinStep=1, tickCount=4), title="labels")
    chart: Drawing = (
        alt.Chart(counts)
        .mark_bar(color=COLORS[2], cornerRadiusEnd=2)
        .encode(x, y, tooltip=["class:N", "labels:Q"])
        .properties(height=180)
    )
    return chart


def size_bars(sizes: pd.DataFrame) -> Drawing:
    """Draw sizes from float to disk as horizontal bars (columns what, order, bytes, size), each named with
    its size.
    """
    y = alt.Y("what:N", sort=alt.SortField("order"), title=None, axis=alt.Axis(labelLimit=240))
    x = alt.X("bytes:Q", axis=alt.Axis(format="~s", tickCount=4), title="bytes", scale=alt.Scale(padding=40))
    color = alt.Color(
        "what:N",
        sort=alt.SortField("order"),
        scale=alt.Scale(range=["#9aa3af", "#b9cfe8", COLORS[2]]),
        legend=None,
    )
    bars = alt.Chart(sizes).mark_bar(cornerRadiusEnd=3).encode(x, y, color, tooltip=["what:N", "size:N"])
    words = alt.Chart(sizes).mark_text(align="left", dx=5).encode(x, y, text="size:N")
    return alt.layer(bars, words).properties(height=150)
