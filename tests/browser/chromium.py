"""Find a Chromium to drive: one that is installed, or the one playwright downloaded. Knows no test."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "microsoft-edge")
PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/snap/bin/chromium",
)
# Quiet and alone: no sandbox (containers run as root), no graphics card, and no calls home.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def installed_browser() -> str | None:
    """Return the path of an installed Chrome or Chromium: CHROME_PATH first, then the usual names and
    places.
    """
    asked = os.environ.get("CHROME_PATH")
    found = [asked, *(shutil.which(name) for name in NAMES), *PLACES]
    return next((path for path in found if path and Path(path).exists()), None)


def downloaded_browser() -> str | None:
    """Return the path of playwright's own Chromium if it was downloaded."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None
