"""The memory budget as a slider, the same on the Candidates and the Choose page: in percent of float, with
what it admits.
"""

from __future__ import annotations

import math

import streamlit as st

from engine.family.cost import admissible
from engine.types import Floats
from pages.ui.parts.stored_size import float_bytes
from pages.ui.session.state import Session
from pages.ui.show.words import memory_words


def budget_slider(session: Session, costs: Floats) -> None:
    """Let the person set the budget; a new one forgets the choice, but no label, prediction or
    file."""
    lowest, highest = math.ceil(100 * float(costs.min())), math.ceil(100 * float(costs.max()))
    current = (
        highest
        if session.record.budget is None
        else min(max(round(100 * session.record.budget), lowest), highest)
    )
    if lowest >= highest:
        return
    percent = st.slider(
        "Memory budget, % of the float teacher's weights",
        lowest,
        highest,
        current,
        format="%d %%",
        key=f"budget-{lowest}-{highest}",
        help="Only candidates that need at most this share of the float weights are considered.",
    )
    budget = None if percent == highest else percent / 100
    if budget != session.record.budget:
        session.limit(budget=budget)
    n_fit = int(admissible(costs, budget).sum())
    st.markdown(
        f"Within {memory_words(percent / 100, float_bytes(session))}, **{n_fit} of {len(costs)} candidates**"
        " fit."
    )
