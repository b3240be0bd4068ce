"""Look through the labels: pictures with what people and models say of them, filters, and a way to correct
each.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pandas as pd
import streamlit as st

from engine.decide.answers import Which, answer_table, browse
from engine.decide.brief import SOURCES
from engine.types import UNLABELED
from pages.ui.parts.label_advice import suspected
from pages.ui.parts.page import plain
from pages.ui.parts.pictures import picture_of
from pages.ui.session.labels import mark, set_aside, unlabel
from pages.ui.session.state import Session
from pages.ui.show.words import counted, share

_A_PAGE = 24
_SIDE = 128
_CARD = 168  # two in a row on a phone
FILTERS: dict[Which, str] = {
    "labeled": "All labels",
    "suspected": "Please check",
    "differs": "Not the teacher's answer",
    "disagreed": "Teacher and pick differ",
    "unsure": "Not sure",
    "disputed": "People differ",
    "unlabeled": "No label yet",
}


def label_browser(session: Session) -> None:
    """The filters, and a page of pictures."""
    several = len(session.book.agreement.people) > 1 or session.book.agreement.split
    offered = [which for which in FILTERS if which != "disputed" or several]
    which = st.segmented_control(
        "Show", offered, default=_asked(), format_func=FILTERS.__getitem__, key="browse-which"
    )
    left, right = st.columns([3, 1])
    of_class = left.selectbox(
        "Class",
        range(len(session.class_names)),
        index=None,
        format_func=session.class_names.__getitem__,
        placeholder="every class",
        key="browse-class",
    )
    shown = rows_of(session, which or "labeled", of_class)
    if shown.empty:
        st.info("Nothing to show with this filter.", icon=":material/filter_alt:")
        return
    pages = -(-len(shown) // _A_PAGE)
    at = right.number_input("Page", 1, pages, 1, key=f"browse-page-{which}-{of_class}") if pages > 1 else 1
    st.caption(f"{counted(len(shown), 'image')}. Click a label to correct or remove it.")
    part = shown.iloc[(at - 1) * _A_PAGE : at * _A_PAGE]
    with st.container(horizontal=True, gap="small"):
        for answer in part.to_dict("records"):
            card(session, answer)


def _asked() -> Which:
    """The filter that a link asked for."""
    asked = st.query_params.get("show", "labeled")
    return next((which for which in FILTERS if which == asked), "labeled")


def rows_of(session: Session, which: Which, of_class: int | None) -> pd.DataFrame:
    """What a filter shows, computed once per change of labels, choice and predictions."""
    predictions = session.require_predictions()
    names = list(predictions.names)
    pick = session.record.chosen if session.record.chosen in names else session.decision.recommended.name
    answers = session.keep(
        "answers",
        (session.evidence_key, pick),
        lambda: answer_table(predictions, session.pool, names.index(pick)),
    )
    marked = {
        "suspected": tuple(suspect.row for suspect in suspected(session)) if which == "suspected" else (),
        "unsure": session.book.aside("unsure"),
        "disputed": session.book.agreement.split,
    }.get(which, ())
    return browse(answers, session.book.labeled, which, marked=marked, of_class=of_class)


def card(session: Session, answer: dict[Hashable, Any]) -> None:
    """One image with its label, the models' answers, and the way to correct it."""
    names, row = session.class_names, int(answer["row"])
    with st.container(border=True, width=_CARD, gap="xsmall"):
        if session.has_images:
            where = session.pool_files[row]
            picture = picture_of(session, row, _SIDE)
            st.image(picture, width=_SIDE, alt=f"image {where}")
            st.caption(plain(where[-28:]))
        else:
            st.caption(f"row {row}")
        label = int(answer["label"])
        unsure = row in session.book.aside("unsure")
        said = f"label: {names[label]}" if label != UNLABELED else "not sure" if unsure else "no label"
        with st.popover(plain(said), key=f"browse-{row}"):
            correction(session, row, label)
        st.caption(
            f"teacher: {plain(names[int(answer['teacher'])])} ({share(answer['teacher_probability'])})  \n"
            f"pick: {plain(names[int(answer['pick'])])} ({share(answer['pick_probability'])})  \n"
            f"{share(1 - answer['split'])} of the candidates agree with the teacher"
        )


def correction(session: Session, row: int, label: int) -> None:
    """Another class, or none; who gave this one and when."""
    entry = session.book.entries.get(row)
    if entry is not None:
        by = f" by {plain(entry.by)}" if entry.by else ""
        when = f", {entry.time[:16].replace('T', ' ')} UTC" if entry.time else ""
        st.caption(f"{SOURCES.get(entry.source, entry.source)}{by}{when}")
    wanted = st.selectbox(
        "Right class",
        range(len(session.class_names)),
        index=None if label == UNLABELED else label,
        format_func=session.class_names.__getitem__,
        key=f"correct-{row}-{label}",
    )
    if wanted is not None and wanted != label:
        mark(session, row, wanted)
        st.rerun()
    with st.container(horizontal=True):
        if st.button("Not sure", key=f"unsure-{row}", type="tertiary", icon=":material/help:"):
            set_aside(session, row, "unsure")
            st.rerun()
        if label != UNLABELED and st.button("Remove this label", key=f"unlabel-{row}", type="tertiary"):
            unlabel(session, row)
            st.rerun()
