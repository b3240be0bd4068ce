"""The walk with what strangers bring: an ONNX file from elsewhere at a desk, an old Keras file on a phone, a
predictions file in the dark. Screenshots go to .screenshots/.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.foreign_models import (
    HEIGHT,
    WIDTH,
    coloured_images,
    keras_h5,
    onnx_file,
    predictions_file,
)
from tests.browser.test_walk import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FilePayload

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
SCREENS = {
    "desk": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
}


def payload(name: str, content: bytes) -> FilePayload:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


@pytest.fixture
def visitor(request: pytest.FixtureRequest, browser: Browser, address: str) -> Iterator[Visitor]:
    context = browser.new_context(**SCREENS[request.param])
    visitor = Visitor(context.new_page(), request.param)
    visitor.page.goto(address)
    visitor.see("Start with a sample")
    visitor.settle()
    yield visitor
    assert visitor.errors == []
    context.close()


def read_model(visitor: Visitor, file: FilePayload | Path) -> None:
    visitor.page.locator("input[type=file]").first.set_input_files(file)
    visitor.settle()
    visitor.click("Read this model")
    visitor.see("can be quantized")
    visitor.see(f"{HEIGHT} × {WIDTH}")


def give_images(visitor: Visitor, *files: FilePayload) -> None:
    visitor.page.locator("input[type=file]").first.set_input_files(list(files))
    visitor.settle()
    visitor.click("Use these images")
    visitor.see("24 images looked at")


@pytest.mark.parametrize("visitor", ["desk"], indirect=True)
def test_an_onnx_file_from_elsewhere(visitor: Visitor) -> None:
    """To the certified file, and after a zip that holds no image."""
    read_model(visitor, payload("colours.onnx", onnx_file()))
    visitor.see("class names are those of the file's metadata")
    visitor.look("f1-onnx-teacher")
    visitor.click("Next: what can I afford")
    visitor.see("72 of 72 candidates")
    visitor.click("Next: the target images")
    visitor.see("No target images yet")
    visitor.settle()
    visitor.page.locator("input[type=file]").first.set_input_files(payload("wrong.zip", b"no zip at all"))
    visitor.settle()
    visitor.click("Use these images")
    visitor.see("Give a zip of images|not a readable zip")
    visitor.page.get_by_role("button", name="Remove wrong.zip").click()
    give_images(visitor, payload("photos.zip", coloured_images()))
    visitor.click("^Run the family$|Run the family")
    visitor.see("Done: 72 candidates on 24 images")
    visitor.settle()
    for key in "1231":
        visitor.page.keyboard.press(key)
        visitor.settle()
    visitor.see("^4 labels")
    visitor.look("f2-onnx-target")
    visitor.click("Next: choose")
    visitor.see("^(Deploy|Best so far:) b")
    visitor.look("f3-onnx-choose")
    visitor.click("Use this$")
    visitor.see("Chosen: ")
    visitor.click("Export it")
    visitor.click("Write and check the file")
    visitor.see("the file is the model that was judged")
    visitor.look("f4-onnx-export")


@pytest.mark.parametrize("visitor", ["phone"], indirect=True)
def test_an_old_keras_file_on_a_phone(visitor: Visitor, tmp_path: Path) -> None:
    """With its preprocessing stated: what was not known is then no longer said."""
    read_model(visitor, keras_h5(tmp_path / "emotions.h5"))
    visitor.see("No preprocessing was stated")
    visitor.page.locator("summary").filter(has_text="Preprocessing and class names").click()
    visitor.settle()
    visitor.page.get_by_label("Scale", exact=True).fill("0.0078")
    visitor.click("^Apply$")
    visitor.see("The preprocessing was set by hand")
    assert visitor.page.get_by_text("No preprocessing was stated").count() == 0
    visitor.look("f1-keras-teacher")
    visitor.click("Next: what can I afford")
    visitor.see("72 of 72 candidates")
    visitor.click("Next: the target images")
    visitor.see("No target images yet")
    visitor.settle()
    give_images(visitor, payload("photos.zip", coloured_images()))
    visitor.click("Run the family")
    visitor.see("Done: 72 candidates on 24 images")
    visitor.look("f2-keras-target")
    visitor.click("Next: choose")
    visitor.see("^(Deploy|Best so far:) b")
    visitor.look("f3-keras-choose")


@pytest.mark.parametrize("visitor", ["dark"], indirect=True)
def test_a_predictions_file_in_the_dark(visitor: Visitor, tmp_path: Path) -> None:
    visitor.page.get_by_role("tab", name="Predictions file").click()
    visitor.page.locator("input[type=file]").nth(1).set_input_files(predictions_file(tmp_path / "made.npz"))
    visitor.settle()
    visitor.click("Open these predictions")
    visitor.see("predictions of 8 candidates on 80 target images are ready")
    visitor.look("f1-predictions-teacher")
    visitor.click("See the recommendation")
    visitor.see("^(Deploy|Best so far:) export")
    visitor.look("f3-predictions-choose")
    visitor.click("Check whether confidence")
    visitor.see("Does each label-free rule")
    visitor.look("f5-predictions-collapse")
