"""The decision in brief, drawn: on the Export page for the candidate that was written, and on the shared
page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from engine.decide.brief import NO_CONCERN, Brief, compared_words, label_words, table_of
from engine.exports.evidence import brief_in
from pages.ui.parts.page import ink, picture, plain
from pages.ui.parts.stale import since_words
from pages.ui.session.state import Session
from pages.ui.show.decision_chart import decision_dots


def brief_view(brief: Brief) -> None:
    """The verdict, the numbers of teacher and pick with intervals, the picture, and what could be wrong."""
    show = st.success if brief.is_firm else st.warning
    show(plain(brief.verdict), icon=":material/verified:" if brief.is_firm else ":material/warning:")
    numbers = table_of(brief)
    heads = ["measure", *map(plain, numbers.heads[1:])]
    shown = pd.DataFrame([list(row) for row in numbers.rows], columns=heads).map(plain)
    st.table(shown.set_index("measure"))
    st.caption("In brackets: 95 % intervals. ↓ lower is better.")
    if brief.sign_off:
        st.markdown(plain(brief.sign_off))
    if len(brief.dots) > 1:
        what = "right on the labels" if brief.n_labels else "that agrees with the teacher"
        teacher = brief.teacher.accuracy.value if brief.teacher.accuracy and brief.n_labels else None
        dots = pd.DataFrame([vars(dot) for dot in brief.dots])
        chart = decision_dots(
            dots.assign(taken=dots["name"] == brief.pick.name), what, teacher, ink(), whole=brief.whole
        )
        picture(f"All {len(brief.dots)} candidates: share {what} against weight memory", chart)
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown(f"**What was compared**  \n{plain(compared_words(brief))}")
        st.markdown(f"**Labels**  \n{plain(label_words(brief))}")
        if brief.preprocessing:
            st.markdown(f"**Preprocessing**  \n{plain(brief.preprocessing)}")
    with right:
        st.markdown("**What could be wrong**")
        for sentence in brief.concerns or (NO_CONCERN,):
            st.markdown(f"- {plain(sentence)}")


def why(evidence: Mapping[str, Any], name: str) -> None:
    """The decision that a certificate keeps: always that of the candidate in the file, or none."""
    st.markdown("**Why this candidate**")
    brief = brief_in(evidence)
    if brief is None or brief.pick.name != name:
        st.caption("No evidence was recorded for this candidate: it was written without predictions of it.")
        return
    brief_view(brief)


def made_before(session: Session, name: str) -> str:
    """What changed since the file of a candidate was written: labels, or the choice; "" if nothing did."""
    if session.predictions is None or not session.has_statistics:
        return ""
    words = since_words(session, "Made", session.record.exported_at, name)
    if session.record.chosen and session.record.chosen != name:
        words += f" This file is not your choice, which is {plain(session.record.chosen)}."
    return words.strip()
