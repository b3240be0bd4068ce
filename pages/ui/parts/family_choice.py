"""Which family of candidates is run, with about how long that takes, or a grid of one's own: choices on the
Candidates page.
"""

from __future__ import annotations

import streamlit as st

from engine.family.families import FAMILIES, FAMILY_WORDS, make_family, relative_time
from engine.family.recipes import BITS, PERCENTILES, custom_family
from engine.family.weights import ends_note
from engine.types import GRANULARITIES, TeacherFacts
from pages.ui.parts.page import plain
from pages.ui.session.record import Step
from pages.ui.session.state import Session
from pages.ui.show.words import counted

_TITLES = {"paper": "The paper's 72", "deploy": "Candidates people deploy", "all": "All of them"}
_ASSUMED = 300  # images, before there are any


def family_choice(session: Session, teacher: TeacherFacts) -> None:
    """Let the person choose a family; predictions of another one are forgotten, images and labels stay."""
    checks = session.checks
    n_images = len(checks["order"]) if checks and checks.get("order") else _ASSUMED
    chosen = st.radio(
        "Which candidates?",
        FAMILIES,
        index=FAMILIES.index(session.record.family) if session.record.family in FAMILIES else 0,
        format_func=_TITLES.__getitem__,
        captions=[_caption(name, teacher, n_images) for name in FAMILIES],
        key="family",
    )
    if chosen != session.record.family:
        session.change(keep=Step.LABELS, family=chosen)
        st.rerun()
    if note := ends_note(teacher):
        st.caption(plain(note))


def _caption(name: str, teacher: TeacherFacts, n_images: int) -> str:
    family = next(known for known in FAMILIES if known == name)
    recipes = make_family(family, teacher)
    times = relative_time(family, teacher, n_images, recipes)
    longer = (
        ""
        if family == "paper"
        else f" A run on {n_images} images takes about {times:.1f} × as long as that of the paper's 72."
    )
    return f"{len(recipes)} candidates: {FAMILY_WORDS[family]}.{longer}"


def custom_axes(session: Session) -> None:
    """Choose another grid; predictions of the old one are forgotten, images and labels stay."""
    record = session.record
    with st.form("axes", border=False):
        bits = st.multiselect("Bits", [2, 3, 4, 5, 6, 7, 8], list(record.bits))
        percentiles = st.multiselect(
            "Clip percentiles",
            sorted({*PERCENTILES, *record.percentiles, 98.0, 99.9}),
            list(record.percentiles),
        )
        granularities = st.multiselect(
            "Scales per",
            list(GRANULARITIES),
            [name for name in GRANULARITIES if name in record.granularities],
            help="lastaxis reproduces the paper on Keras layouts: one scale per index of the last axis.",
        )
        ends = st.multiselect(
            "Float ends",
            [False, True],
            list(record.ends),
            format_func=lambda kept: "kept float" if kept else "quantized",
        )
        if st.form_submit_button("Use this grid"):
            family = custom_family(sorted(bits), sorted(percentiles), granularities, sorted(ends))
            session.change(
                keep=Step.LABELS,
                bits=tuple(sorted(bits)),
                percentiles=tuple(sorted(percentiles)),
                granularities=tuple(granularities),
                ends=tuple(sorted(ends)),
            )
            st.toast(f"The family now has {counted(len(family), 'candidate')}.")
            st.rerun()
    if not record.has_standard_grid and st.button("Back to the standard 72"):
        session.change(
            keep=Step.LABELS,
            bits=BITS,
            percentiles=PERCENTILES,
            granularities=("tensor", "channel"),
            ends=(False, True),
        )
        st.rerun()
