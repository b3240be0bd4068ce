"""The decision's picture: every candidate by memory and accuracy. A table goes in, an Altair chart comes
out.
"""

from __future__ import annotations

from typing import Literal

import altair as alt
import pandas as pd

from pages.ui.show.charts import Drawing, rim_and_ink

_HEIGHT = 300


def decision_dots(
    dots: pd.DataFrame, what: str, teacher: float | None, ink: str, *, whole: str = "float"
) -> Drawing:
    """Columns name, memory, height (shares), taken; `teacher` is its accuracy, drawn as a line."""
    x = alt.X("memory:Q", title=f"weights, share of {whole}", axis=alt.Axis(format="~p", tickCount=5))
    y = alt.Y("height:Q", title=what, axis=alt.Axis(format=".3~p", tickCount=5), scale=alt.Scale(zero=False))
    tooltip = [
        alt.Tooltip("name:N", title="candidate"),
        alt.Tooltip("height:Q", title=what, format=".3p"),
        alt.Tooltip("memory:Q", title=f"share of {whole}", format=".3p"),
    ]
    own = dots[dots["taken"]]
    is_left = bool((own["memory"] < dots["memory"].max() / 2).all())  # a name runs towards the middle
    align: Literal["left", "right"] = "left" if is_left else "right"
    shift = -6 if is_left else 6
    layers = [
        alt.Chart(dots).mark_circle(size=50, opacity=0.5, color="#2f6fb5").encode(x=x, y=y, tooltip=tooltip),
        alt.Chart(own).mark_point(size=240, strokeWidth=2, color=ink).encode(x=x, y=y, tooltip=tooltip),
        *(
            alt.Chart(own)
            .mark_text(align=align, dx=shift, dy=18, fontWeight="bold", **rim)
            .encode(x=x, y=y, text="name:N")
            for rim in rim_and_ink(ink)
        ),
    ]
    if teacher is not None:
        line = alt.Chart(pd.DataFrame({"height": [teacher], "word": ["teacher"]}))
        layers.append(line.mark_rule(strokeDash=[5, 4], color=ink).encode(y=y))
        layers.append(
            line.mark_text(align="left", dx=4, dy=-7, color=ink).encode(y=y, x=alt.value(0), text="word:N")
        )
    return alt.layer(*layers).properties(height=_HEIGHT)
