"""Pictures that can be read: names keep off points, and axes have more than one tick."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pages.ui.show.charts import PAPER, choice_scatter, memory_scatter

ROOT = Path(__file__).resolve().parents[4]
CANDIDATES = pd.DataFrame(
    {
        "name": ["b2", "b4", "b8"],
        "bits": [2, 4, 8],
        "cost": [0.1, 0.2, 0.3],
        "distortion": [1.0, 0.1, 0.01],
        "agreement": [0.5, 0.8, 0.9],
        "loss": [2.0, 0.9, 1.0],
        "accuracy": [0.4, 0.8, 0.7],
        "admissible": [True, True, True],
    }
)
PICKS = CANDIDATES.iloc[1:].assign(
    label=["recommended", "closest"], main=[True, False], side=["left", "right"], lift=[-18, 14]
)
NO_LINE = CANDIDATES.iloc[:0][["distortion", "loss"]]


@pytest.mark.parametrize(("ink", "theme"), [("#111418", "light"), ("#e6eaf0", "dark")])
def test_a_name_has_a_rim_of_the_pages_colour(ink: str, theme: str) -> None:
    configured = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())["theme"][theme]
    assert PAPER[theme] == configured["backgroundColor"]
    drawn: dict[str, Any] = choice_scatter(CANDIDATES, PICKS, NO_LINE, ink).to_dict()
    names = [layer["mark"] for layer in drawn["layer"] if layer["mark"]["type"] == "text"]
    assert [mark.get("stroke") for mark in names] == [PAPER[theme], None] * 2
    assert [mark["color"] for mark in names] == [PAPER[theme], ink] * 2


@pytest.mark.parametrize(("bits", "bands"), [((None, None, None), 1), ((4, 8, None), 3), ((2, 4, 8), 3)])
def test_every_candidate_is_drawn_whether_or_not_its_bits_are_known(
    bits: tuple[int | None, ...], bands: int
) -> None:
    """A colour scale without a candidate's band would leave it out of the picture."""
    table = CANDIDATES.assign(bits=bits)
    for drawn in (
        choice_scatter(table, PICKS, NO_LINE, "#111418").to_dict(),
        memory_scatter(table, PICKS, "#111418").to_dict(),
    ):
        dots = next(layer for layer in drawn["layer"] if "color" in layer["encoding"])
        named = {row["band"] for row in drawn["datasets"][dots["data"]["name"]]}
        domain = dots["encoding"]["color"]["scale"]["domain"]
        assert set(domain) == named
        assert len(domain) == bands
        assert len(set(dots["encoding"]["shape"]["scale"]["range"])) == bands
        assert (dots["encoding"]["color"]["legend"] is None) == (bits == (None, None, None))


@pytest.mark.parametrize("losses", [(0.7, 0.9, 1.0), (1.1, 1.2, 1.3), (0.02, 2.0, 30.0), (2.1, 2.3, 4.4)])
def test_an_axis_has_more_than_one_tick(losses: tuple[float, ...]) -> None:
    table = CANDIDATES.assign(loss=losses)
    drawn: dict[str, Any] = choice_scatter(table, PICKS, NO_LINE, "#111418").to_dict()
    dots = next(
        layer["encoding"]
        for layer in drawn["layer"]
        if layer["mark"]["type"] == "point" and layer["mark"]["filled"]
    )
    ticks = dots["y"]["axis"]["values"]
    inside = [tick for tick in ticks if min(losses) <= tick <= max(losses)]
    assert len(inside) > 1, (losses, ticks)
