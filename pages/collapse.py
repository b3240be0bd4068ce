"""Collapse: can I trust confidence here?"""

from __future__ import annotations

import streamlit as st

from engine.diagnose.collapse import collapse_report
from engine.diagnose.collapse_words import single_class_words, widths_title
from pages.ui.parts.collapse import answer, assumption_list, confidence_picture, reliability_part, tie_box
from pages.ui.parts.page import back_button, gate, page_head, picture, table
from pages.ui.parts.weighing import wait_for_statistics
from pages.ui.session.state import current_session
from pages.ui.show.collapse_charts import collapse_heat_map
from pages.ui.show.tables import shown_health

session = current_session()
page_head(session, "collapse", "Can I trust confidence here?")
gate(
    session.predictions is not None,
    "This page needs predictions: open a sample or a predictions file, or run the family on your images.",
    "teacher",
)
wait_for_statistics(session)
with st.spinner("Looking at every candidate …"):
    decision = session.decision
    report = session.keep(
        "collapse",
        session.decision_key,
        lambda: collapse_report(
            session.require_predictions(), session.pool, session.sample, decision.candidates
        ),
    )
answer(report)
confidence_picture(report, decision.choices["avg-confidence"].index)

left, right = st.columns(2, gap="medium")
with left:
    if len(report.rates):
        picture(
            widths_title(report.rates),
            collapse_heat_map(report.rates),
            "Share of collapsed candidates, by bits and scales.",
        )
    st.markdown(single_class_words(report.n_single_class, report.regime.collapsed_distinct))
    tie_box(report)
with right:
    reliability_part(session, report)

st.subheader("Does each label-free rule's assumption hold here?", anchor=False)
assumption_list(report)
st.subheader("Every candidate's health", anchor=False)
table(shown_health(report.health, is_proxy=report.is_proxy), "health", height=380)
back_button("choose", "Back to the choice")
