"""How frequent are the classes in the target? Asked once; who does not know says nothing."""

from __future__ import annotations

import hashlib

import streamlit as st

from engine.target.class_shares import EQUAL, parse_class_shares, shares_in_words, shares_words
from pages.ui.parts.page import plain, user_errors
from pages.ui.session.actions import safe_name
from pages.ui.session.state import Session

UNKNOWN, STATED = "", "stated"
_WORDS = {UNKNOWN: "I do not know", EQUAL: "about equally frequent", STATED: "as a CSV says"}


def shares_field(session: Session) -> None:
    """The question, a place for a CSV, and what was understood; nothing before the classes are known."""
    if session.predictions is None:
        return
    now = _kind(session.stated_shares)
    wanted = st.segmented_control(
        "How frequent are the classes in your target?",
        list(_WORDS),
        default=now,
        format_func=_WORDS.__getitem__,
        key=f"shares-{now}",
        help=(
            "Ten labels cannot tell a long tail from a teacher that favours some classes. If you know the"
            " class frequencies, the recommendation uses them. Say nothing if you are not sure: a wrong"
            " statement misleads more than none."
        ),
    )
    if wanted == STATED:
        with user_errors():
            _from_a_csv(session)
    elif wanted is not None and wanted != now:
        session.note(class_shares=wanted)
        st.rerun()
    shares = session.require_predictions().class_shares
    if shares is not None:
        st.caption(plain(shares_words(shares, session.class_names)))


def _kind(words: str) -> str:
    return words if words in (UNKNOWN, EQUAL) else STATED


def _from_a_csv(session: Session) -> None:
    file = st.file_uploader(
        "Class frequencies: a CSV with the columns class,share and a line for each class",
        type="csv",
        key="shares-csv",
        max_upload_size=1,
    )
    if file is None:
        return
    data, name = file.getvalue(), safe_name(file.name)
    shares = session.keep(
        "incoming-shares",
        (hashlib.sha256(data).hexdigest(), name, session.class_names),
        lambda: parse_class_shares(
            data, name=name, n_classes=len(session.class_names), class_names=session.class_names
        ),
    )
    words = shares_in_words(shares)
    if words != session.stated_shares:
        session.note(class_shares=words)
        st.rerun()
