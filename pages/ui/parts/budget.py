"""Limits as sliders: the memory budget, the same on the Candidates and the Choose page, and the size of the
file, each with what it admits.
"""

from __future__ import annotations

import math

import streamlit as st

from engine.family.cost import admissible
from engine.types import Floats
from engine.words import out_of
from pages.ui.parts.stored_size import memory_of, whole_of
from pages.ui.session.state import Session
from pages.ui.show.words import size


def budget_slider(session: Session, costs: Floats) -> None:
    """Let the person set the budget; nothing that was made under another one is forgotten."""
    lowest, highest = math.ceil(100 * float(costs.min())), math.ceil(100 * float(costs.max()))
    current = (
        highest
        if session.record.budget is None
        else min(max(round(100 * session.record.budget), lowest), highest)
    )
    if lowest >= highest:
        return
    whole = whole_of(session)
    percent = st.slider(
        "Memory budget, % of the float teacher's weights" if whole == "float" else f"Budget, % of {whole}",
        lowest,
        highest,
        current,
        format="%d %%",
        key=f"budget-{lowest}-{highest}",
        help=f"Only candidates that need at most this share of {whole} are considered.",
    )
    budget = None if percent == highest else percent / 100
    if budget != session.record.budget:
        session.limit(budget=budget)
    n_fit = int(admissible(costs, budget).sum())
    fitting = out_of(n_fit, len(costs), "candidate", ("fits", "fit"))
    st.markdown(f"Within {memory_of(session, percent / 100)}, **{fitting}**.")


def file_slider(session: Session) -> None:
    """Let the person limit the size of the file, which holds whole integers, scales and the graph as well;
    nothing where sizes are not known.
    """
    sizes = session.file_sizes
    if sizes is None or len(steps := sorted({float(n) for n in sizes})) < 2:
        return
    current = session.record.max_bytes
    fitting = [step for step in steps if current is None or step <= current]
    limit = st.select_slider(
        "Limit on the file's size",
        steps,
        value=fitting[-1] if fitting else steps[0],
        format_func=size,
        key=f"file-{steps[0]}-{steps[-1]}",
        help=(
            "Only candidates whose ONNX file takes at most this. A file is larger than its weights: it has"
            " integers of 2, 4 and 8 bits only, and holds the graph."
        ),
    )
    wanted = None if limit == steps[-1] else limit
    if wanted != current:
        session.limit(max_bytes=wanted)
    n_fit = int(admissible(sizes, wanted).sum())
    st.caption(f"{out_of(n_fit, len(sizes), 'candidate', ('fits', 'fit'))} a file of {size(limit)}.")
