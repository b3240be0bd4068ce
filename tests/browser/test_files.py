"""Files a visitor already has, in a real browser: a folder is looked into and every file gets its card."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.samples import FOLDER
from tests.browser.test_walk import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]


def test_a_folder_of_files_becomes_cards(browser: Browser, address: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    visitor = Visitor(page, "desk")
    page.goto(address)
    visitor.see("Start with a sample")
    visitor.settle()
    page.locator(".st-key-sample-digits-mobilenet button").click(timeout=180_000)
    visitor.see("can be quantized")
    visitor.click("Next: what can I afford")
    visitor.see("Judge files you already have")
    page.get_by_role("tab", name="Folder or zip on the server").click()
    field = page.get_by_label("Path of a folder or .zip with model files")
    field.fill(str(FOLDER / "digits-files"))
    field.press("Enter")
    visitor.settle()
    visitor.click("Look into this folder")
    visitor.see("TFLite, full integer")
    visitor.see("integer operators")
    visitor.look("files-candidates")
    assert visitor.errors == []
    page.close()
