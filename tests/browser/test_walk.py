"""A person's walk in a real browser: sample, candidates, labels typed by key, choice, collapse, export; at
desk and on a phone.

Nothing may be clipped and the console must stay free of errors. Screenshots go to .screenshots/.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / ".screenshots"
_WAIT = 180_000  # milliseconds: reading a model and writing an export share the machine with other tests
# Text and buttons whose right edge lies beyond the screen and that no scrolling container holds.
_CLIPPED = """() => [
  ...document.querySelectorAll('h1,h2,h3,p,button,label,img,canvas,[role=alert]')
].filter(node => {
  const box = node.getBoundingClientRect();
  if (box.width === 0 || box.right <= window.innerWidth + 1) return false;
  for (let parent = node; parent; parent = parent.parentElement) {
    if (parent.getAttribute('data-testid') === 'stSidebar') return false;
    if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(parent).overflowX)
        && parent.getAttribute('data-testid') !== 'stMain'
        && parent.getBoundingClientRect().right <= window.innerWidth + 1) return false;
  }
  return true;
}).map(node => node.tagName + ': ' + (node.innerText || '').slice(0, 60))"""


class Visitor:
    """One person at one screen: clicks, waits until the page is still, and looks whether anything is cut
    off.
    """

    def __init__(self, page: Page, name: str) -> None:
        self.page, self.name = page, name
        self.errors: list[str] = []
        page.on(
            "console", lambda message: self.errors.append(message.text) if message.type == "error" else None
        )
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def see(self, text: str) -> None:
        """Wait for a text to appear."""
        self.page.get_by_text(re.compile(text)).first.wait_for(timeout=_WAIT)

    def click(self, text: str) -> None:
        """Click the button or link of this name."""
        self.page.locator("button:visible, a:visible").filter(has_text=re.compile(text)).first.click(
            timeout=_WAIT
        )

    def settle(self) -> None:
        """Wait until the script has stopped and the pictures are drawn."""
        self.page.wait_for_timeout(500)
        self.page.wait_for_function(
            "document.querySelector('[data-test-script-state=running]') === null", timeout=_WAIT
        )
        self.page.wait_for_timeout(1200)

    def look(self, name: str) -> None:
        """Check that nothing is clipped and keep a screenshot of the whole page."""
        self.settle()
        width = self.page.viewport_size["width"]  # type: ignore[index]
        assert self.page.evaluate("document.documentElement.scrollWidth") <= width
        assert (
            self.page.evaluate(
                "(() => { const m = document.querySelector('[data-testid=stMain]'); return m.scrollWidth -"
                " m.clientWidth; })()"
            )
            <= 1
        )
        assert self.page.evaluate(_CLIPPED) == []
        assert self.page.locator("[data-testid=stException]").count() == 0
        self._photograph(name)

    def _photograph(self, name: str) -> None:
        """The page scrolls inside itself, so the window is made as tall as the page for a moment."""
        before = self.page.viewport_size
        assert before is not None
        tall = self.page.evaluate("document.querySelector('[data-testid=stMainBlockContainer]').scrollHeight")
        self.page.set_viewport_size(
            {"width": before["width"], "height": min(max(tall + 60, before["height"]), 5000)}
        )
        self.page.wait_for_timeout(1500)
        SHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}-{self.name}.png")
        self.page.set_viewport_size(before)
        self.page.wait_for_timeout(300)


def walk(visitor: Visitor, address: str) -> None:
    """From the first page to a certified file."""
    page = visitor.page
    page.goto(address)
    visitor.see("Start with a sample")
    visitor.look("1-start")
    visitor.click("Start with this")
    visitor.see("See the recommendation")
    visitor.see("can be quantized")
    visitor.look("1-teacher")

    visitor.click("Next: what can I afford")
    visitor.see("72 of 72 candidates")
    visitor.look("2-candidates")

    visitor.click("Next: the target images")
    visitor.see("What is this\\?")
    visitor.settle()
    for key, expected in (("3", "26 labels"), ("7", "27 labels"), ("Backspace", "26 labels")):
        page.keyboard.press(key)
        visitor.see(f"^{expected}")
        visitor.settle()
    visitor.look("3-target")

    visitor.click("Next: choose")
    visitor.see("^Deploy b")
    visitor.look("4-choose")
    visitor.click("Use this$")
    visitor.see("Chosen: ")
    visitor.click("Check whether confidence")
    visitor.see("Does each label-free rule")
    visitor.look("5-collapse")

    visitor.click("Back to the choice")
    visitor.click("Export it")
    visitor.click("Write and check the file")
    # a sample ships rounded predictions: the file is compared with them as far as they were rounded
    visitor.see("the file is the model that was judged")
    visitor.look("6-export")


def test_a_page_opens_at_its_own_address_on_a_fresh_server(browser: Browser, address: str) -> None:
    """The first test of this module, so that the server has not seen app.py yet."""
    page = browser.new_context().new_page()
    visitor = Visitor(page, "deep")
    page.goto(f"{address}/study")
    visitor.see("Does this hold on my models")
    visitor.see("From teacher to file")  # the navigation of app.py, not a bare list of files
    assert "/study" in page.url
    page.context.close()


@pytest.mark.parametrize(
    ("name", "width", "height", "scheme"),
    [("desk", 1280, 900, "light"), ("phone", 390, 844, "light"), ("dark", 1280, 900, "dark")],
)
def test_walk(browser: Browser, address: str, name: str, width: int, height: int, scheme: str) -> None:
    # type: ignore[arg-type]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    visitor = Visitor(context.new_page(), name)
    walk(visitor, address)
    assert visitor.errors == []
    here = visitor.page.url
    assert "session=" in here
    visitor.page.goto(f"{address}/study?{here.split('?')[1]}")
    visitor.see("Does this hold on my models")
    visitor.look("7-study")
    context.close()


def test_a_refresh_keeps_the_session(browser: Browser, address: str) -> None:
    page = browser.new_context().new_page()
    visitor = Visitor(page, "refresh")
    page.goto(address)
    visitor.click("Start with this")
    visitor.click("See the recommendation")
    visitor.see("^Deploy b")
    page.reload()
    visitor.see("^Deploy b")
    page.context.close()


def test_a_study_runs_from_its_page(browser: Browser, address: str) -> None:
    """Started with the form's own defaults; the findings, tables and the report to download appear without a
    reload.
    """
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    visitor = Visitor(page, "desk")
    page.goto(address)
    visitor.see("Start with a sample")
    visitor.click("Study")
    visitor.see("Does this hold on my models")
    visitor.settle()
    visitor.click("Run the study")
    visitor.see("Running the study|families studied")
    visitor.see("Download the report")
    visitor.see("What does each rule cost with the fewest labels")
    visitor.look("7-study-result")
    assert visitor.errors == []
    page.context.close()


def test_a_model_is_uploaded_through_the_browser(browser: Browser, address: str) -> None:
    """A file chosen in the dialog becomes the teacher; a text file is refused in a sentence."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    visitor = Visitor(page, "upload")
    page.goto(address)
    visitor.see("Start with a sample")
    visitor.settle()
    chooser = page.locator("input[type=file]").first
    chooser.set_input_files(
        {"name": "model.onnx", "mimeType": "application/octet-stream", "buffer": b"this is no model"}
    )
    visitor.settle()
    visitor.click("Read this model")
    visitor.see("model.onnx")
    visitor.see("not an ONNX|cannot be read|no ONNX")
    chooser.set_input_files(ROOT / "sample_models" / "digits-vit.onnx")
    visitor.settle()
    visitor.click("Read this model")
    visitor.see("can be quantized")
    visitor.look("1-uploaded")
    page.context.close()
