"""What a person would hate to lose, by real clicks: labels in a merge, evidence in a certificate, the choice
after a new label, a project. Screenshots go to .screenshots/.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.test_walk import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def visitor(browser: Browser, address: str) -> Iterator[Visitor]:
    """Somebody with the first sample open; each test goes on where the one before it stopped."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    visitor = Visitor(context.new_page(), "kept")
    visitor.page.goto(address)
    visitor.click("Start with this")
    visitor.see("can be quantized")
    yield visitor
    context.close()


def go(visitor: Visitor, page: str) -> None:
    visitor.page.get_by_test_id("stSidebarNavLink").filter(has_text=page).first.click()
    visitor.page.get_by_role("heading", name=page, exact=True).wait_for(timeout=120_000)
    visitor.settle()


def saved(visitor: Visitor, button: str) -> bytes:
    """What a download button gives."""
    with visitor.page.expect_download() as waiting:
        visitor.click(button)
    return waiting.value.path().read_bytes()


def key(visitor: Visitor, name: str) -> Locator:
    """The visible button of a key; one with a help text is drawn twice."""
    return visitor.page.locator(f"[class*=st-key-{name}] button:visible").first


def test_a_labels_file_is_merged_and_taken_back(visitor: Visitor) -> None:
    go(visitor, "Target data")
    mine = list(csv.DictReader(io.StringIO(saved(visitor, "Download labels").decode())))
    assert len(mine) == 25
    same, other = mine[0], mine[1]
    free = next(row for row in range(300) if str(row) not in {line["row"] for line in mine})
    lines = (
        f"{same['row']};{same['label']}",
        f"{other['row']};{(int(other['label']) + 1) % 10}",
        *(f"{free};1", "9999;1"),
    )
    visitor.click("Labels from a CSV")
    visitor.page.locator("[data-testid=stPopoverBody] input[type=file]").set_input_files(
        {"name": "theirs.csv", "mimeType": "text/csv", "buffer": "\n".join(("row;label", *lines)).encode()}
    )
    visitor.see("1 label is new, 1 is the same as yours, 1 differs from yours; 1 line cannot be read")
    visitor.page.get_by_text("where they differ, take the file").click()
    visitor.settle()
    visitor.click("Take these labels")
    visitor.see("3 labels are the same as yours")
    visitor.page.keyboard.press("Escape")
    visitor.see("^26 labels;")
    key(visitor, "label-undo").click()
    visitor.see("^25 labels;")
    key(visitor, "label-redo").click()
    visitor.see("^26 labels;")
    visitor.look("k1-merged")


def test_a_new_label_leaves_the_choice_and_says_so(visitor: Visitor) -> None:
    go(visitor, "Choose")
    visitor.click("Use this$")
    visitor.see("Chosen: ")
    report = saved(visitor, "Download the report").decode()
    assert "<h2>The decision</h2>" in report
    go(visitor, "Compare")
    box = visitor.page.locator("[class*=st-key-gallery-label-]").filter(
        has=visitor.page.locator("input[value=''], [placeholder='not labeled']")
    )
    box.locator("input").first.click()
    visitor.page.keyboard.type("4")
    visitor.page.keyboard.press("Enter")
    visitor.settle()
    visitor.look("k2-compare")
    go(visitor, "Choose")
    visitor.see("Chosen before 1 new label")


def test_a_certificate_is_about_the_candidate_in_the_file(visitor: Visitor) -> None:
    go(visitor, "Export")
    visitor.page.get_by_label("Candidate").first.click()
    visitor.page.keyboard.type("b2-tensor-q99-ends")
    visitor.page.keyboard.press("Enter")
    visitor.see("The certificate will say that it overrides the recommendation")
    visitor.click("Write and check the file")
    visitor.see("This file is not your choice")
    visitor.see("b2-tensor-q99-ends overrides the recommendation")
    visitor.look("k3-overriding")
    assert "b2-tensor-q99-ends overrides the recommendation" in saved(visitor, "certificate.html").decode()


def test_projects_are_renamed_copied_deleted_after_a_question_and_opened(visitor: Visitor) -> None:
    page = visitor.page
    go(visitor, "Projects")
    page.get_by_label("Name of this work").fill("cellar")
    page.keyboard.press("Enter")
    visitor.see("Open now: cellar")
    visitor.settle()
    visitor.click("Start over")
    visitor.see("27 labels, predictions of 72 candidates, the choice .*, an exported bundle")
    visitor.see("It is kept under Projects")
    page.keyboard.press("Escape")
    visitor.settle()
    visitor.click("Put it away")
    visitor.see("Nothing is open now")
    key(visitor, "copy-").click()
    visitor.see("cellar \\(copy\\)")
    visitor.look("k4-projects")
    key(visitor, "delete-").click()
    visitor.see("with its labels and results")
    assert page.get_by_text("cellar", exact=False).count() >= 2  # it is only asked
    key(visitor, "delete-sure").click()
    page.wait_for_function("document.querySelectorAll('[class*=st-key-copy-]').length === 1")
    key(visitor, "open-").click()
    visitor.see("Open now: cellar")
    visitor.see("27 labels, predictions of 72 candidates, the choice .*, an exported bundle")
    assert visitor.errors == []
