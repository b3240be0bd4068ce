"""Can everybody use it? axe-core over every page with real work in it, light and dark, at a desk and on a
phone; fingers on a phone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page

from engine.samples import sample_predictions
from engine.study.protocol.config import StudyConfig
from engine.study.protocol.run import run_study
from pages.ui.jobs.control import Job, job_file, lock_file, save_job
from pages.ui.parts.page import PAGES
from pages.ui.workspace.folder import locked
from tests.browser.test_walk import Visitor

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
# Streamlit's own navigation nests lists as axe does not like; nothing of ours can change that.
_THEIRS = {"exclude": [["[data-testid=stSidebarNav]"]]}
DESK: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}
# A phone also says that it is one: Streamlit closes its drawer by that.
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "has_touch": True,
    "is_mobile": True,
    "user_agent": (
        "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0"
        " Mobile Safari/537.36"
    ),
}
_DRAWER = "document.querySelector('[data-testid=stSidebar]').getBoundingClientRect().right"
_SHARED = "shared"


@pytest.fixture(scope="module")
def work(browser: Browser, address: str, sessions: Path) -> dict[str, str]:
    """Addresses of a session that has something on every page: a project put away, labels, a choice, a
    written file, a study, and a shared decision. By page.
    """
    page = browser.new_page(**DESK)
    visitor = Visitor(page, "axe")
    page.goto(address)
    visitor.click("Start with this")
    visitor.see("can be quantized")
    visitor.click("See the recommendation")
    visitor.click("Use this$")
    visitor.see("Chosen: ")
    visitor.click("^\\W*Projects$|Projects")
    visitor.click("Put it away")
    visitor.see("Nothing is open now")
    page.get_by_test_id("stSidebarNavLink").filter(has_text="Teacher").first.click()
    visitor.click("Start with this")
    visitor.see("can be quantized")
    visitor.click("See the recommendation")
    visitor.click("Use this$")
    visitor.see("Chosen: ")
    visitor.click("^\\W*\\w*Share$|Share")
    visitor.click("Make the link")
    page.get_by_text("share=").first.wait_for()
    link = page.get_by_text("share=").first.inner_text()
    visitor.click("Export it")
    visitor.click("Write and check the file")
    visitor.see("the file is the model that was judged")
    query = page.url.split("?")[1]
    run_study(
        [sample_predictions("digits-vit")],
        sessions / query.split("=")[1].split("&")[0] / "study",
        StudyConfig(budgets=(10,), rules=("ce-combo", "val-ce", "distortion"), repetitions=2),
        workers=1,
    )
    page.close()
    places = {name: f"{address}/{name if name != 'teacher' else ''}?{query}" for name in PAGES}
    return {**places, _SHARED: f"{address}/?share={link.split('share=')[1]}"}


# Each screen and each scheme once: colours do not depend on the width, nor widths on the colours.
@pytest.fixture(params=[(DESK, "light"), (PHONE, "dark")], ids=["desk-light", "phone-dark"])
def context(request: pytest.FixtureRequest, browser: Browser) -> Iterator[BrowserContext]:
    screen, scheme = request.param
    context = browser.new_context(**screen, color_scheme=scheme)
    yield context
    context.close()


def serious(page: Page) -> list[dict[str, Any]]:
    found = Axe().run(page, context=_THEIRS).response["violations"]
    return [
        {"rule": f["id"], "where": [node["html"][:160] for node in f["nodes"][:3]]}
        for f in found
        if f["impact"] in ("serious", "critical")
    ]


def test_no_page_has_a_serious_fault(context: BrowserContext, work: dict[str, str]) -> None:
    page, faults = context.new_page(), {}
    for name, place in work.items():
        page.goto(place)
        title = "Which model to deploy" if name == _SHARED else PAGES[name][0]
        page.get_by_role("heading", name=title, exact=True).wait_for(timeout=120_000)
        Visitor(page, "axe").settle()
        assert page.get_by_text("This page needs").count() == 0, f"{name} has nothing to show"
        if found := serious(page):
            faults[name] = found
    assert not faults


def test_a_phone_is_for_fingers(browser: Browser, work: dict[str, str]) -> None:
    """No tool lies on a title, the drawer closes after a page is picked, and class buttons are at least 44 px
    high.
    """
    page = browser.new_context(**PHONE).new_page()
    page.goto(work["choose"])
    page.get_by_role("heading", name="Choose", exact=True).wait_for(timeout=120_000)
    page.get_by_test_id("stDataFrame").first.wait_for(timeout=120_000)
    toolbars = page.locator("[data-testid=stElementToolbar]")
    assert not any(
        toolbars.nth(place).is_visible() for place in range(toolbars.count())
    )  # no title is covered
    page.get_by_test_id("stExpandSidebarButton").click()
    drawer = page.get_by_test_id("stSidebar")
    page.wait_for_function(f"{_DRAWER} > 200")
    drawer.get_by_test_id("stSidebarNavLink").filter(has_text="Target data").first.click()
    page.get_by_role("heading", name="Target data", exact=True).wait_for(timeout=120_000)
    page.wait_for_function(f"{_DRAWER} <= 1")
    page.get_by_text("What is this?").wait_for()
    heights = page.evaluate(
        "[...document.querySelectorAll('[class*=st-key-label-] button')]"
        ".map(b => b.getBoundingClientRect().height).filter(h => h > 0)"
    )
    assert heights
    assert min(heights) >= 44
    page.context.close()


def test_every_picture_says_what_it_shows(browser: Browser, work: dict[str, str]) -> None:
    page = browser.new_page(**DESK)
    for name in ("target", "labels", "compare"):
        page.goto(work[name])
        page.get_by_role("heading", name=PAGES[name][0], exact=True).wait_for(timeout=120_000)
        page.locator("[data-testid=stImage] img").first.wait_for(timeout=120_000)
        alts = page.eval_on_selector_all("[data-testid=stImage] img", "all => all.map(i => i.alt)")
        assert alts
        assert all(alt.strip() and alt != "0" for alt in alts), name
    page.close()


def test_the_shared_report_is_one_file_that_prints(
    browser: Browser, work: dict[str, str], tmp_path: Path
) -> None:
    page = browser.new_page(**DESK)
    page.goto(work[_SHARED])
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download the report").click(timeout=120_000)
    report = tmp_path / "decision.html"
    waiting.value.save_as(report)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    assert asked == [report.as_uri()]
    sheets = page.pdf(format="A4")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", sheets)) <= 3
    page.close()


def test_a_running_job_is_seen_from_every_page(
    browser: Browser, work: dict[str, str], sessions: Path
) -> None:
    """With its time left, in the sidebar. This test holds the job's lock, as its process would."""
    folder = sessions / work["teacher"].split("session=")[1].split("&")[0]
    run = Job("predict", "x", state="running", done=3, total=10, seconds_left=130, created=time.time())
    save_job(folder, run)
    page = browser.new_page(**DESK)
    with locked(lock_file(folder, "predict")):
        for name in PAGES:
            page.goto(work[name])
            sidebar = page.get_by_test_id("stSidebar")
            sidebar.get_by_text("30 % · about 2 min left").first.wait_for(timeout=120_000)
            assert sidebar.get_by_text("Running the family").count() == 1
    job_file(folder, "predict").unlink()
    page.close()
