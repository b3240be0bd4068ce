"""The app on a free port and a Chromium to look at it, one of each for a file of tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import FLAGS, downloaded_browser, installed_browser
from tests.load.server import serving


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace of the app: one folder a session."""
    return tmp_path_factory.mktemp("browser") / "sessions"


@pytest.fixture(scope="module")
def address(sessions: Path) -> Iterator[str]:
    """The app as `make run` starts it, on a free port, with a workspace of its own."""
    with serving(sessions.parent) as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    path = installed_browser() or downloaded_browser()
    assert path, "no browser: run tests/browser/install.py"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()
