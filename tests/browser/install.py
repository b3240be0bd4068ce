"""Make sure there is a browser to test with: an installed Chrome or Chromium, else playwright's download,
else the system's package.

Run as a script. Prints what it did; fails only if nothing worked.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.browser.chromium import downloaded_browser, installed_browser

_DOWNLOAD_SECONDS = 600


def run(*command: str) -> bool:
    """Run a command that may fail; its output is shown."""
    print("$", " ".join(command), flush=True)
    try:
        return subprocess.run(command, check=False, timeout=_DOWNLOAD_SECONDS).returncode == 0
    except (OSError, subprocess.TimeoutExpired) as error:
        print(error)
        return False


def from_packages() -> bool:
    """Install Debian's or Ubuntu's Chromium, if we may."""
    if shutil.which("apt-get") is None:
        return False
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    environment = ["env", "DEBIAN_FRONTEND=noninteractive"]
    run(*prefix, *environment, "apt-get", "update", "-qq")
    return run(
        *prefix, *environment, "apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"
    )


def main() -> int:
    if path := installed_browser() or downloaded_browser():
        print(f"browser tests use {path}")
        return 0
    # Playwright's own download first needs a network that reaches it; where it does not, the system's package
    # is next.
    if run(sys.executable, "-m", "playwright", "install", "chromium") and downloaded_browser():
        print(f"browser tests use playwright's download, {downloaded_browser()}")
        return 0
    if from_packages() and (path := installed_browser()):
        print(f"browser tests use the system's package, {path}")
        return 0
    print("no browser: install Chrome or Chromium, or set CHROME_PATH, and run this again")
    return 1


if __name__ == "__main__":
    sys.exit(main())
