"""Choose: which candidate, and how sure are we?"""

from __future__ import annotations

import streamlit as st

from pages.ui.parts.budget import budget_slider, file_slider
from pages.ui.parts.choose import doubts, picture_and_dial, rule_reasons, suspicion
from pages.ui.parts.deployed import allocation_picture, latency_picture, latency_slider
from pages.ui.parts.label_advice import halving
from pages.ui.parts.page import (
    evidence_fitness,
    gate,
    link,
    next_button,
    page_head,
    plain,
    stand_in_note,
    table,
    teacher_warning,
    user_errors,
)
from pages.ui.parts.recommendation import recommendation
from pages.ui.parts.share import hand_on
from pages.ui.parts.stored_size import float_bytes
from pages.ui.parts.weighing import ask_for_transport, wait_for_statistics
from pages.ui.session.state import current_session
from pages.ui.show.tables import shown_candidates, shown_rules

session = current_session()
page_head(session, "choose", "Which one, and how sure are we?")
predictions = session.predictions
gate(
    predictions is not None,
    "This page needs predictions: open a sample or a predictions file, or run the family on your images.",
    "teacher",
)
assert predictions is not None
wait_for_statistics(session)
with user_errors():
    answer = st.container()  # the answer stands first, though the budget below it is read before
    memory, file = st.columns(2, gap="medium")
    with memory:
        if predictions.cost is not None:
            budget_slider(session, predictions.cost)
    with file:
        file_slider(session)
    latency_slider(session, predictions)
    with st.spinner("Weighing the candidates …"):
        decision = session.decision
    n_bytes = float_bytes(session)
    with answer:
        stand_in_note(session)
        teacher_warning(session)
        recommendation(session, decision)
        hand_on(session)
        evidence_fitness(session)

    st.subheader("What each rule says", anchor=False)
    table(shown_rules(decision, n_bytes), "rules", height="content")
    with st.expander("How each rule decides"):
        rule_reasons(decision)
    ask_for_transport(session)

    st.subheader("The evidence", anchor=False)
    picture_and_dial(session, decision)
    shown_name = session.record.chosen or decision.recommended.name
    latency_picture(predictions, decision, shown_name)
    sizes = {} if session.teacher is None else {k.name: k.size for k in session.teacher.kernels}
    allocation_picture(predictions, shown_name, sizes)

    left, right = st.columns(2, gap="medium")
    with left.container(border=True):
        st.markdown("**What could be wrong**")
        for sentence in doubts(decision):
            st.markdown(f"- {plain(sentence)}")
        if not session.rows:
            link("target", "Give a few labels")
        halving(session)
        link("compare", "Compare two candidates image by image")
        link("collapse", "Check whether confidence can be trusted here")
    with right.container(border=True):
        if session.rows:
            suspicion(session, decision, predictions)
        else:
            st.markdown("**I suspect wrong labels**")
            st.caption("There are no labels yet.")

    st.subheader(f"All {predictions.n_candidates} candidates", anchor=False)
    shown = shown_candidates(decision.candidates, n_bytes)
    words = st.text_input(
        "Show only candidates whose name contains", placeholder="b4, channel, ends …", key="filter"
    )
    table(shown[shown["Candidate"].str.contains(words, regex=False)], "candidates", height=420)
    next_button("export", "Next: write the file")
