"""Text in pictures can be read: every chart of every page asks for ink on its page, light and dark."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from pages.ui.parts import page
from tests.pages.driving import go, open_app, with_sample

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.usefixtures("workspace", "sample_folder", "started")


def luminance(color: str) -> float:
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", ["choose", "collapse"])
def test_chart_text_reads_at_four_and_a_half_to_one(name: str) -> None:
    app = go(with_sample(open_app()), name)
    charts = [json.loads(chart.proto.spec) for chart in app.get("vega_lite_chart")]
    assert charts
    for spec in charts:
        for part in ("axis", "legend"):
            text = spec["config"][part]
            assert contrast(text["labelColor"], "#ffffff") >= 4.5
            assert contrast(text["titleColor"], "#ffffff") >= 4.5


def test_ink_is_ink_on_both_pages() -> None:
    assert contrast("#111418", "#ffffff") > 7
    themes = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())["theme"]
    assert contrast("#e6eaf0", themes["dark"]["backgroundColor"]) > 7
    # letters on primary buttons: white on the light theme, dark on the dark one, as the page's style asks
    assert contrast("#ffffff", themes["light"]["primaryColor"]) >= 4.5
    assert contrast("#0c1016", themes["dark"]["primaryColor"]) >= 4.5
    assert "button[kind^=primary]" in page._DARK
    assert "#0c1016" in page._DARK
