"""A walk through the installed app, run by the fresh environment's own Python: `python walk.py`.

Imports nothing from the checkout. The ONNX sample must work on every page; the Keras one must say which pip
line helps.
"""

from __future__ import annotations

import time

from streamlit.testing.v1 import AppTest

from engine.commands.app import APP

PAGES = ("candidates", "target", "choose", "collapse", "export", "study")
LINE = 'pip install "anchorpoint[keras]"'
_SECONDS = 240


def opened(sample: str) -> AppTest:
    """The app after one click on a sample."""
    app = AppTest.from_file(str(APP), default_timeout=240).run()
    return app.button(key=f"sample-{sample}").click().run()


def go(app: AppTest, page: str) -> AppTest:
    app.switch_page(f"pages/{page}.py").run()
    assert not app.exception, [error.message for error in app.exception]
    return app


def errors(app: AppTest) -> str:
    return "\n".join(str(error.value) for error in app.error).replace("\\", "")


def wait_for(app: AppTest, page: str, words: str) -> None:
    """Open a page until it says these words: a teacher is read in a process of its own."""
    deadline = time.monotonic() + _SECONDS
    shown = ""
    while words not in shown:
        assert time.monotonic() < deadline, f"{page} never said {words!r} but: {shown}"
        time.sleep(0.5)
        go(app, page)
        shown = "\n".join([errors(app), *(str(text.value) for text in app.markdown)])


def main() -> None:
    app = opened("digits-vit")
    wait_for(app, "teacher", "18 layers")
    for page in PAGES:
        assert not errors(go(app, page)), errors(app)
    wait_for(opened("digits-mobilenet"), "export", LINE)


if __name__ == "__main__":
    main()
