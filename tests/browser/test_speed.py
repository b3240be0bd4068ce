"""How long a page takes to answer, measured in a real browser and reported, not asserted: a busy machine is
no fault of the app. The report goes to .screenshots/speed.md and to the end of the test run.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import pytest

from pages.ui.parts.page import PAGES
from tests.browser.test_walk import SHOTS, Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
_ROUNDS = 4  # the first is left out: it computes what later ones find
_STILL = "document.querySelector('[data-test-script-state=running]') === null"
_STEPS = 7  # of the budget's slider


def switch(page: Page, title: str) -> float:
    """Click a page in the navigation; seconds until all of it is there."""
    start = time.perf_counter()
    page.get_by_test_id("stSidebarNavLink").filter(has_text=title).first.click()
    page.get_by_role("heading", name=title, exact=True).wait_for()
    page.wait_for_function(_STILL)
    return time.perf_counter() - start


def drag(page: Page) -> float:
    """Move the memory budget a step; seconds until the recommendation speaks of the new budget."""
    badge = page.get_by_text("best within").first
    before = badge.inner_text() if badge.count() else ""
    slider = page.get_by_role("slider", name="Memory budget").first
    slider.focus()
    start = time.perf_counter()
    slider.press("ArrowLeft")
    page.wait_for_function(
        "before => [...document.querySelectorAll('.stMarkdownBadge')].some("
        "b => b.innerText.includes('best within') && b.innerText !== before)",
        arg=before,
    )
    return time.perf_counter() - start


def test_speed_is_measured_and_reported(
    browser: Browser, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    visitor = Visitor(page, "speed")
    page.goto(address)
    visitor.click("Start with this")
    visitor.see("can be quantized")
    taken: dict[str, list[float]] = {title: [] for title, _ in PAGES.values()}
    for _ in range(_ROUNDS):
        for title, seconds in taken.items():
            seconds.append(switch(page, title))
            page.wait_for_timeout(200)
    switch(page, "Choose")
    visitor.settle()
    drags = []
    for _ in range(_STEPS):
        drags.append(drag(page))
        page.wait_for_timeout(400)
    page.close()
    lines = [f"| {title} | {statistics.median(seconds[1:]):.2f} |" for title, seconds in taken.items()]
    lines.append(f"| budget moved, recommendation answers | {statistics.median(drags[1:]):.2f} |")
    report = "\n".join(["| page switch, median seconds | |", "|---|---|", *lines])
    SHOTS.mkdir(exist_ok=True)
    (SHOTS / "speed.md").write_text(report + "\n")
    with capsys.disabled():
        print(f"\n{report}")
    assert len(drags) == _STEPS
    assert all(len(seconds) == _ROUNDS for seconds in taken.values())
