"""The furniture every page shares: its head with the glossary, gates, pictures, tables to download, the way
to the next step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pandas as pd
import streamlit as st

from engine.decide.headline import teacher_doubt
from engine.family.model_file import stand_in_words, whole_words
from engine.types import UserError
from pages.ui.session.state import Session
from pages.ui.show.charts import Drawing
from pages.ui.show.glossary import GLOSSARY
from pages.ui.show.tables import column_formats
from pages.ui.show.words import in_fields, sentence

PAGES = {
    "teacher": ("Teacher", ":material/school:"),
    "candidates": ("Candidates", ":material/apps:"),
    "target": ("Target data", ":material/photo_library:"),
    "choose": ("Choose", ":material/target:"),
    "export": ("Export", ":material/inventory_2:"),
    "labels": ("Labels", ":material/sell:"),
    "compare": ("Compare", ":material/compare:"),
    "collapse": ("Confidence collapse", ":material/monitor_heart:"),
    "study": ("Study", ":material/science:"),
    "projects": ("Projects", ":material/folder_copy:"),
}


WIDE = "wide"  # containers whose content may be wider than the screen
OWN_KEYS = "own-keys"  # a container of buttons whose key is their name: showing both would read "3 3"
# Our own constant words: less empty space above the title, as much as the toolbar leaves; lines that are not
# too long to read; captions and buttons that people with weak eyes or large fingers can use.
_STYLE = (
    ".stMainBlockContainer{padding-top:3.2rem;max-width:76rem}"
    "@media(max-width:640px){.stMainBlockContainer{padding-top:4.4rem}}"
    f".st-key-{OWN_KEYS} kbd{{display:none}}"
    f"[class*=st-key-{WIDE}-]{{overflow-x:auto}}"
    "[class*=st-key-label-] button{min-height:44px;min-width:44px}"
    # Without a mouse these never go away, and cover the title above; each table has its own download below.
    "@media(hover:none){[data-testid=stElementToolbar]{display:none}}"
)
# White letters on the dark theme's light accent would read at 2.5:1; dark ones read at more than 7:1.
_DARK = (
    "button[kind^=primary],button[kind^=primary] p,[data-baseweb=tag],[data-baseweb=tag] span,"
    ".stMultiSelect span[title]{color:#0c1016!important}"
    ".stMarkdownBadge{color:#d6e7fa!important}"
)


def style() -> str:
    """The page's own style, as HTML. Captions and keys get the colour of text: Streamlit has it too pale."""
    pale = "[data-testid=stCaptionContainer],[data-testid=stCaptionContainer] p,.stImage p,kbd"
    readable = f"{pale}{{color:{ink()}!important;opacity:.85}}"
    return f"<style>{_STYLE}{readable}{_DARK if st.context.theme.type == 'dark' else ''}</style>"


def page_head(session: Session, page: str, question: str) -> None:
    """Write the page's title, its question and the glossary. Every page begins with it."""
    if not session.has_entered:
        # A freshly started server opens a page's own file until app.py has run once: go through it, and come
        # back.
        session.wanted = f"pages/{page}.py"
        st.switch_page("app.py")
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.title(PAGES[page][0], anchor=False, width="content")
        with st.popover("Glossary", icon=":material/menu_book:"):
            for word, meaning in GLOSSARY.items():
                st.markdown(f"**{word}.** {meaning}")
    st.caption(question)
    if session.is_lost:
        st.warning(
            "The session this address names is not here: it expired, was deleted, or the address is"
            " incomplete. You are in a new one.",
            icon=":material/link_off:",
        )
    if session.complaint:
        st.error(plain(sentence(session.complaint)), icon=":material/error:")
        session.complaint = ""
    if session.mismatch:
        st.error(plain(sentence(session.mismatch)), icon=":material/error:")
    if session.host.is_demo:
        st.caption(
            ":material/info: Public demo: no paths on the server, no downloads, small uploads, and what you"
            " upload is deleted after a day. Install Anchorpoint to work without these limits."
        )


def teacher_warning(session: Session) -> None:
    """Say loudly that the teacher is no better than guessing on the labels; nothing where it is."""
    if session.predictions is None:
        return
    doubt = teacher_doubt(session.quality(None), len(session.rows), session.predictions.n_classes)
    if doubt:
        st.error(plain(doubt), icon=":material/error:")


def stand_in_note(session: Session) -> None:
    """Say what is called the teacher where there is none; nothing where there is one."""
    reference = None if session.predictions is None else session.predictions.reference
    if reference is not None:
        st.caption(
            ":material/info: There is no float teacher behind these predictions:"
            f" {plain(stand_in_words(reference))} stands in for it, and is what “the teacher” means here."
            f" Sizes are shares of {plain(whole_words(reference))}."
        )


def evidence_fitness(session: Session) -> None:
    """Say what speaks against deciding on the predictions at hand; nothing is shown where nothing does."""
    if session.predictions is None or not session.problems:
        return
    with st.container(border=True):
        st.markdown(":orange[:material/warning:] **Is this evidence fit to decide?**")
        for problem in session.problems:
            st.markdown(f"- {plain(problem)}")


def ink() -> str:
    """The colour of text and of the teacher: black on a light page, near white on a dark one."""
    return "#e6eaf0" if st.context.theme.type == "dark" else "#111418"


def chart_text() -> dict[str, Any]:
    """A chart's configuration that lets its text be read: Streamlit's own is paler than 4.5:1."""
    colors = {"labelColor": ink(), "titleColor": ink()}
    return {"axis": colors, "legend": colors, "header": colors, "text": {"color": ink()}}


def gate(is_open: bool, message: str, page: str) -> None:
    """Stop the page here unless it has what it needs; say what is missing and where to get it."""
    if is_open:
        return
    with st.container(border=True):
        st.markdown(f":material/lock: {message}")
        link(page, f"Go to {PAGES[page][0]}")
    st.stop()


def link(page: str, label: str, **query: str) -> None:
    """A link to another page, with what it should show there."""
    st.page_link(f"pages/{page}.py", label=label, icon=PAGES[page][1], query_params=query or None)


def next_button(page: str, label: str, *, primary: bool = True) -> None:
    """The way on: a button that opens another page."""
    if st.button(
        label,
        key=f"next-{page}",
        type="primary" if primary else "secondary",
        icon=":material/arrow_forward:",
        icon_position="right",
    ):
        st.switch_page(f"pages/{page}.py")


def back_button(page: str, label: str) -> None:
    """The way back: a button that opens an earlier page."""
    if st.button(label, key=f"back-{page}", icon=":material/arrow_back:"):
        st.switch_page(f"pages/{page}.py")


@contextmanager
def user_errors() -> Iterator[None]:
    """Show a user's mistake as one line in the page; anything else must surface."""
    try:
        yield
    except UserError as error:
        st.error(plain(sentence(in_fields(error))), icon=":material/error:")


def plain(text: str) -> str:
    """Show text that may come from a user's file as it stands: no Markdown, no links, no icons."""
    for mark in "\\`*_{}[]<>#$~|:":
        text = text.replace(mark, "\\" + mark)
    return text


def picture(title: str, chart: Drawing, caption: str = "") -> None:
    """Show a chart under a title that states the finding. The title is page text, so that it wraps on a
    phone.
    """
    st.markdown(f"**{title}**")
    st.altair_chart(chart.configure(**chart_text()), width="stretch", alt=title)
    if caption:
        st.caption(caption)


def table(data: pd.DataFrame, name: str, *, height: int | Literal["auto", "content"] = "auto") -> None:
    """Show a table, sortable by its heads, with a button to download it as CSV."""
    st.dataframe(data, hide_index=True, column_config=column_formats(data), height=height)
    csv = data.to_csv(index=False).encode()
    st.download_button(
        "Download CSV",
        csv,
        f"{name}.csv",
        "text/csv",
        key=f"csv-{name}",
        icon=":material/download:",
        on_click="ignore",
        type="tertiary",
    )
