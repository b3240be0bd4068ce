"""Advice about labels on the pages: images whose labels would decide most, labels to check, and how many more
would help.
"""

from __future__ import annotations

from typing import TypedDict

import streamlit as st

from engine.recommend.label_advice import labels_to_check, more_labels, rows_to_label
from engine.recommend.suspects import Suspect
from engine.types import Bools, LabelTrust
from pages.ui.parts.page import link, plain
from pages.ui.parts.pictures import picture_of
from pages.ui.session.state import Session
from pages.ui.show.words import counted

_REFRESH = 5  # suggestions are renewed after this many labels, so that typing is never held up


class _Grounds(TypedDict):
    admissible: Bools | None
    trust: LabelTrust


def _grounds(session: Session) -> _Grounds:
    """What advice about labels rests on beside the labels themselves."""
    return {"admissible": session.admissible, "trust": session.trust}


def suggested_rows(session: Session) -> tuple[int, ...]:
    """Pool rows whose labels would decide most; none before the family was run."""
    predictions = session.predictions
    if predictions is None:
        return ()
    key = (
        session.evidence_key,
        session.limits,
        len(session.rows) // _REFRESH,
    )
    return session.keep(
        "suggested",
        key,
        lambda: rows_to_label(
            predictions, session.pool, session.sample, admissible=session.admissible, trust=session.trust
        ),
    )


def suspected(session: Session) -> tuple[Suspect, ...]:
    """Labels that are almost certainly wrong; computed once per change."""
    sample, predictions = session.sample, session.require_predictions()
    if sample is None:
        return ()
    return session.keep(
        "suspects",
        session.decision_key,
        lambda: labels_to_check(
            predictions, session.pool, sample, admissible=session.admissible, trust=session.trust
        ),
    )


def check_these(session: Session) -> None:
    """Labels that are almost certainly wrong, with their pictures."""
    predictions, names = session.require_predictions(), session.class_names
    found = suspected(session)
    if not found:
        st.caption("No label is almost certainly wrong.")
        return
    st.markdown("**Please check these labels**")
    for suspect in found[:5]:
        where = session.pool_files[suspect.row] if session.has_images else f"row {suspect.row}"
        words = f"{plain(where)} is labeled **{plain(names[suspect.label])}**"
        if suspect.likely != suspect.label:
            words += f"; the evidence says {plain(names[suspect.likely])}"
        if suspect.pick_without is not None:
            words += f"; without this label the pick is {plain(predictions.names[suspect.pick_without])}"
        with st.container(horizontal=True, vertical_alignment="center"):
            if session.has_images:
                small = picture_of(session, suspect.row, 48)
                st.image(small, width=48, alt=f"image {where}")
            st.markdown(words + ".")
    link("labels", "Look at them and correct them", show="suspected")


def halving(session: Session) -> None:
    """How many more labels would halve the doubt, on request: it imagines many continuations."""
    key = f"halving-{hash(session.decision_key)}"
    if st.button("How many more labels would help?", key=key, type="tertiary", icon=":material/quiz:"):
        predictions = session.require_predictions()
        with st.spinner("Imagining further labels and choosing again …"):  # minutes with 1,000 classes
            more = session.keep(
                "halving",
                session.decision_key,
                lambda: more_labels(
                    predictions,
                    session.pool,
                    session.sample,
                    admissible=session.admissible,
                    trust=session.trust,
                ),
            )
        st.caption(
            "Not even 160 more random labels are expected to halve the doubt: the contenders are too close."
            if more is None
            else f"About {counted(more, 'more label')} would halve the expected regret."
        )
