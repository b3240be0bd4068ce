"""Drive the app in a test: open it, walk to a page with a session in a given state, and read what it
shows.
"""

from __future__ import annotations

from pathlib import Path

from streamlit.testing.v1 import AppTest

from engine.teacher.facts import facts_of
from engine.types import Teacher
from pages.ui.session.state import Session
from pages.ui.workspace.folder import write_json

APP = Path(__file__).resolve().parents[2] / "app.py"


def open_app(session_id: str = "") -> AppTest:
    """Open the app cold, or at a session's address."""
    app = AppTest.from_file(str(APP), default_timeout=30)
    if session_id:
        app.query_params["session"] = session_id
    return app.run()


def session_of(app: AppTest) -> Session:
    session: Session = app.session_state["anchorpoint"]
    return session


def with_sample(app: AppTest, name: str = "digits-resnet") -> AppTest:
    """One click on a sample."""
    return app.button(key=f"sample-{name}").click().run()


def give_teacher(app: AppTest, teacher: Teacher) -> None:
    """Leave a teacher's outline as the reading job would."""
    write_json(session_of(app).folder / "outline.json", facts_of(teacher))


def go(app: AppTest, page: str) -> AppTest:
    """Open a page; nothing may surface as an exception."""
    app.switch_page(f"pages/{page}.py").run()
    assert not app.exception, [error.message for error in app.exception]
    return app


def text_of(app: AppTest) -> str:
    """Everything the page says, in one string."""
    parts = [
        *app.title,
        *app.subheader,
        *app.markdown,
        *app.caption,
        *app.error,
        *app.info,
        *app.success,
        *app.warning,
        *app.text,
    ]
    return "\n".join(str(part.value) for part in parts).replace("\\", "")


def labels_of(app: AppTest, kind: str) -> list[str]:
    """The labels of all elements of a kind that the test driver has no class for, such as download_button."""
    return [element.proto.label for element in app.get(kind)]


def links(app: AppTest) -> dict[str, tuple[str, str]]:
    """The links of a page: label -> the page it opens, and what it asks for there."""
    found = [element.proto for element in app.get("page_link")]
    return {link.label: (link.page, link.query_string) for link in found}
