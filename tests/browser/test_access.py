"""Can everybody use it? axe-core over every page, light and dark, and fingers on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from pages.ui.parts.page import PAGES
from tests.browser.test_walk import Visitor

pytestmark = pytest.mark.browser
# Streamlit's own navigation nests lists as axe does not like; nothing of ours can change that.
_THEIRS = {"exclude": [["[data-testid=stSidebarNav]"]]}


@pytest.fixture(params=["light", "dark"])
def page(request: pytest.FixtureRequest, browser: Browser, address: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=request.param)
    page = context.new_page()
    page.goto(address)
    page.get_by_role("button", name="Start with this").first.click()
    page.get_by_text("are ready").wait_for()
    yield page
    context.close()


def serious(page: Page) -> list[dict[str, Any]]:
    found = Axe().run(page, context=_THEIRS).response["violations"]
    return [
        {"rule": f["id"], "where": [node["html"][:160] for node in f["nodes"][:3]]}
        for f in found
        if f["impact"] in ("serious", "critical")
    ]


def test_no_page_has_a_serious_fault(page: Page) -> None:
    faults = {}
    for title, _ in PAGES.values():
        page.get_by_test_id("stSidebarNavLink").filter(has_text=title).first.click()
        page.get_by_role("heading", name=title, exact=True).wait_for()
        Visitor(page, "axe").settle()
        if found := serious(page):
            faults[title] = found
    assert not faults


def test_class_buttons_fit_a_finger(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(address)
    page.get_by_role("button", name="Start with this").first.click()
    page.get_by_text("are ready").wait_for()
    page.goto(page.url.replace("/?", "/target?"))
    page.get_by_text("What is this?").wait_for()
    heights = page.evaluate(
        "[...document.querySelectorAll('[class*=st-key-label-] button')]"
        ".map(b => b.getBoundingClientRect().height).filter(h => h > 0)"
    )
    assert heights
    assert min(heights) >= 44
    context.close()
