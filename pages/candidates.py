"""Candidates: what can I afford?"""

from __future__ import annotations

import pandas as pd
import streamlit as st

from engine.decide.tables import family_table, scale_premium
from engine.family.cost import admissible, stored_costs
from engine.family.families import expected_costs
from pages.ui.parts.budget import budget_slider
from pages.ui.parts.family_choice import custom_axes, family_choice
from pages.ui.parts.foreign import files_section
from pages.ui.parts.page import gate, ink, next_button, page_head, picture, table, user_errors
from pages.ui.parts.stored_size import float_bytes, stored_caption
from pages.ui.session.state import current_session
from pages.ui.show.charts import cost_chart
from pages.ui.show.tables import shown_family
from pages.ui.show.words import share

_AXES = {
    "Bits": "how many bits each weight keeps: fewer is smaller and coarser.",
    "Clip percentile": (
        "weights larger than this percentile are cut down to it, so that the rest get finer steps; 100 cuts"
        " nothing."
    ),
    "Scales per": (
        "one step size for a whole tensor, or one for every output channel: finer, for a few more bytes."
    ),
    "Float ends": "the first and the last layer stay float, where errors hurt most.",
}


def memory_words_of(family: pd.DataFrame) -> str:
    """The picture's title, from its numbers."""
    words = f"From {share(family['cost'].min())} to {share(family['cost'].max())} of float memory"
    premium = scale_premium(family)
    return words if premium != premium else f"{words}; a scale per channel adds {share(premium)} at most"


session = current_session()
page_head(session, "candidates", "What can I afford?")
teacher, predictions = session.teacher, session.predictions
known = predictions is not None and predictions.cost is not None
gate(
    teacher is not None or known,
    "This page needs a teacher, or predictions that say what each candidate costs.",
    "teacher",
)
with user_errors():
    if teacher is None:
        assert predictions is not None, "the gate above lets nobody through without one of the two"
        assert predictions.cost is not None
        names, cost = predictions.names, predictions.cost
    else:
        family_choice(session, teacher)
        names, facts = tuple(recipe.slug for recipe in session.recipes), teacher
        cost = session.keep("costs", (names, teacher.name), lambda: expected_costs(facts, session.recipes))
    budget_slider(session, cost)
    stored_caption(names, cost, session.record.budget)
    family = family_table(names, cost, admissible(cost, session.record.budget))
    shown = shown_family(family.assign(stored=stored_costs(names, cost)), float_bytes(session))
    counted_bits = family["bits"].notna()  # mixed candidates have no single number of bits
    if counted_bits.any():
        picture(
            memory_words_of(family[counted_bits]),
            cost_chart(
                family.assign(size=shown.get("Size ↓", "–"))[counted_bits], session.record.budget, ink()
            ),
            "Solid: within the budget. The upper group of each column keeps its first and last layer float.",
        )
        st.markdown("\n".join(f"- **{name}**: {meaning}" for name, meaning in _AXES.items()))
    table(shown, "family", height=320)
    if teacher is not None and session.record.family == "paper":
        with st.expander("More: another grid"):
            custom_axes(session)
    if teacher is not None:
        files_section(session)
next_button("target", "Next: the target images and a few labels")
