"""What the teacher sees and answers on twelve images: a wrong normalisation shows here before the long
run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from engine.diagnose.health import COLLAPSE_FACTOR
from engine.types import TeacherFacts
from engine.words import percent
from pages.ui.parts.page import link, plain
from pages.ui.parts.progress import watch_job
from pages.ui.parts.teacher import preset_field
from pages.ui.session.actions import start_preview
from pages.ui.session.state import Session
from pages.ui.show.words import counted, number

_SIDE = 96


def preview_box(session: Session, teacher: TeacherFacts) -> None:
    """The button, the running job, and what it found for the preprocessing as it is now."""
    job = watch_job(session, "preview", "Trying the teacher")
    if job is not None and job.is_alive:
        return
    found = stored_preview(session, teacher)
    if found is None:
        st.caption(
            "The preprocessing was changed since the teacher was tried: try it again."
            if (session.folder / "preview.json").exists()
            else "See in a few seconds what the teacher answers, before the whole family is run."
        )
        if st.button("Try the teacher on twelve images", icon=":material/visibility:"):
            start_preview(session)
            st.rerun()
        return
    st.markdown(f"**{preview_words(found, teacher)}**")
    with st.container(horizontal=True, gap="small"):
        for picture, classes, probs in zip(found["seen"], found["classes"], found["probs"], strict=True):
            with st.container(width=_SIDE + 24, gap="xsmall"):
                first = teacher.class_names[classes[0]]
                st.image(picture, width=_SIDE, alt=f"as the teacher sees it; it answers {first}")
                said = zip(classes, probs, strict=True)
                st.caption(
                    "  \n".join(f"{plain(teacher.class_names[k][:24])}: {percent(p)}" for k, p in said)
                )
    low, high = found["range"]
    st.caption(
        f"The pictures are cropped and resized as the teacher gets them; its numbers run from {number(low)}"
        f" to {number(high)}. If its answers make no sense, correct the preprocessing."
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        with st.container(width=320):
            preset_field(session, teacher)
        link("teacher", "Preprocessing and class names")


def stored_preview(session: Session, teacher: TeacherFacts) -> dict[str, Any] | None:
    """The preview, if it was made with the preprocessing as it is now."""
    path = session.folder / "preview.json"
    if not path.exists():
        return None
    found = session.keep("preview", path.stat().st_mtime_ns, lambda: _read(session))
    return found if found["preprocessing"] == teacher.preprocessing.to_json() else None


def _read(session: Session) -> dict[str, Any]:
    from pages.ui.workspace.folder import read_json

    seen = np.load(session.folder / "preview.npy", allow_pickle=False)
    return {**(read_json(session.folder / "preview.json") or {}), "seen": seen}


def preview_words(found: dict[str, Any], teacher: TeacherFacts) -> str:
    """What stands out: one answer for all, hardly any confidence, or nothing."""
    firsts = [classes[0] for classes in found["classes"]]
    sure = float(np.mean([probs[0] for probs in found["probs"]]))
    n = len(firsts)
    if n > 1 and len(set(firsts)) == 1:
        name = plain(teacher.class_names[firsts[0]])
        return f"The teacher answers “{name}” for all {counted(n, 'image')}: check the preprocessing"
    if sure <= COLLAPSE_FACTOR / teacher.n_classes:
        return (
            f"The teacher is hardly surer than guessing (on average {percent(sure)}): check the preprocessing"
        )
    return (
        f"The teacher gives {len(set(firsts))} different answers on {counted(n, 'image')},"
        f" {percent(sure)} sure on average"
    )
