"""The parts of the Compare page: teacher and two candidates side by side, who loses what, and where they
differ.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal

import streamlit as st

from engine.diagnose.comparison import (
    Quality,
    class_effects,
    confusion_changes,
    disagreements,
    labeled_rows,
)
from pages.ui.parts.page import link, plain, table
from pages.ui.parts.pictures import picture_of
from pages.ui.session.labels import mark
from pages.ui.session.state import Session
from pages.ui.show.comparison import TEACHER, class_table, confusion_table, side_by_side
from pages.ui.show.words import counted, number, share

_GALLERY = 48  # images with most at stake; nobody looks at more
_A_PAGE = 12
_SIDE = 140
_ROWS = 6  # of a table; more of them scroll
_CARD = 262  # three in a row at a desk, one on a phone


def pick_two(session: Session) -> tuple[str, str]:
    """Which two candidates to compare: at first the chosen or recommended one, and the closest to the
    teacher.
    """
    names = list(session.require_predictions().names)
    decision = session.decision
    first = session.record.chosen if session.record.chosen in names else decision.recommended.name
    others = [decision.choices["distortion"].name, *names]
    second = next((name for name in others if name != first), first)
    left, right = st.columns(2)
    a = left.selectbox("Candidate A", names, index=names.index(first), key=f"compare-a-{first}")
    b = right.selectbox("Candidate B", names, index=names.index(second), key=f"compare-b-{first}")
    return a, b


def overview(session: Session, a: str, b: str) -> None:
    """Accuracy and loss with intervals, calibration, agreement, memory: one column a model."""
    qualities = {
        TEACHER: session.quality(None),
        **{name: session.quality(_index(session, name)) for name in (a, b)},
    }
    st.markdown(f"**{headline_of(qualities, a, b)}**")
    candidates = session.decision.candidates.set_index("name").loc[list(dict.fromkeys((a, b)))]
    confidence = float(session.pool.teacher_tops[1].mean())
    numbers = side_by_side(
        qualities, candidates, session.require_predictions(), confidence, session.file_sizes
    )
    table(numbers, "comparison", height="content")
    if session.sample is None:
        st.info("Accuracy, loss and calibration need labels.", icon=":material/lock:")
        link("target", "Give a few labels")


def headline_of(qualities: dict[str, Quality | None], a: str, b: str) -> str:
    """Which of the two is better on the labels, or that they cannot tell."""
    first, second = qualities[a], qualities[b]
    if a == b:
        return "These are the same candidate."
    if first is None or second is None:
        return "Without labels only their answers can be compared."
    if first.accuracy.low > second.accuracy.high or second.accuracy.low > first.accuracy.high:
        better, worse = (a, b) if first.accuracy.value > second.accuracy.value else (b, a)
        return f"{plain(better)} is right more often than {plain(worse)}: their 95 % intervals do not meet."
    if first.accuracy.value == second.accuracy.value:
        return "Both are right equally often on your labels."
    ahead = a if first.accuracy.value > second.accuracy.value else b
    return f"{plain(ahead)} is ahead on your labels; the 95 % intervals overlap."


def by_class(session: Session, a: str, b: str) -> None:
    """Who loses what: accuracy by class against the teacher, and which mistakes are new."""
    sample, predictions = session.sample, session.require_predictions()
    if sample is None:
        return
    st.subheader("Who pays for it", anchor=False)
    teacher = labeled_rows(predictions.teacher, sample)
    for column, name in zip(st.columns(2, gap="medium"), (a, b), strict=True):
        after = labeled_rows(predictions.candidates[_index(session, name)], sample)
        with column:
            st.markdown(f"**{plain(name)}** against the teacher, by class")
            effects = class_effects(teacher, after, sample.labels, predictions.n_classes)
            table(
                class_table(effects, session.class_names), f"by-class-{name}", height=_fitting(len(effects))
            )
            changes = confusion_changes(teacher, after, sample.labels)
            if len(changes):
                st.markdown("Mistakes it makes more often (+) or less often (−) than the teacher")
                table(
                    confusion_table(changes, session.class_names),
                    f"confusions-{name}",
                    height=_fitting(len(changes)),
                )
    st.caption(
        "With few labels of a class the intervals are wide; only those that exclude zero show a change."
    )


def _fitting(n_rows: int) -> int | Literal["content"]:
    """A table as high as its rows, and no higher than a few of them."""
    return "content" if n_rows <= _ROWS else 260


def gallery(session: Session, a: str, b: str) -> None:
    """The images on which the three differ, those with most at stake first, each with all three answers."""
    predictions = session.require_predictions()
    models = {TEACHER: predictions.teacher, **{n: predictions.candidates[_index(session, n)] for n in (a, b)}}
    found = session.keep(
        "disagreements", (session.evidence_key, a, b), lambda: disagreements(models, limit=_GALLERY)
    )
    st.subheader("Where they differ", anchor=False)
    if found.empty:
        st.success("All three give the same answer on every image.", icon=":material/done_all:")
        return
    n = counted(len(found), "image")
    shown = f"The {n} with the most at stake" if len(found) == _GALLERY else f"{n}, the most at stake first"
    st.caption(
        f"{shown}: how far the losses are expected to lie apart, in nats. Label from here to decide between"
        " them."
    )
    pages = -(-len(found) // _A_PAGE)
    at = st.number_input("Page", 1, pages, 1, key=f"gallery-{a}-{b}") if pages > 1 else 1
    with st.container(horizontal=True, gap="small"):
        for answer in found.iloc[(at - 1) * _A_PAGE : at * _A_PAGE].to_dict("records"):
            disagreement_card(session, answer, list(models))


def disagreement_card(session: Session, answer: dict[Hashable, Any], models: list[str]) -> None:
    """One contested image: all answers, its label, and a way to give one."""
    row, names = int(answer["row"]), session.class_names
    with st.container(border=True, width=_CARD, gap="xsmall"):
        if session.has_images:
            where = session.pool_files[row]
            st.image(picture_of(session, row, _SIDE), width=_SIDE, alt=f"image {where}")
        which = "" if session.has_images else f"row {row}, "
        st.caption(f"{which}at stake: {number(answer['stake'])} nats")
        for model in models:
            said = plain(names[int(answer[model])])
            sure = share(answer[f"{model} probability"]).replace(" ", "\u00a0")  # no line ends before a %
            st.markdown(f"{plain(model)}: **{said}** ({sure})")
        label = session.book.labeled.get(row)
        wanted = st.selectbox(
            "Label",
            range(len(names)),
            index=label,
            format_func=names.__getitem__,
            placeholder="not labeled",
            key=f"gallery-label-{row}-{label}",
        )
        if wanted is not None and wanted != label:
            mark(session, row, wanted)
            st.rerun()


def _index(session: Session, name: str) -> int:
    return session.require_predictions().names.index(name)


def settle(session: Session, a: str, b: str) -> None:
    """Take one of the two."""
    with st.container(horizontal=True):
        for key, name in {"a": a, "b": b}.items():
            if st.button(
                f"Use {plain(name)}", key=f"compare-use-{key}", disabled=session.record.chosen == name
            ):
                session.choose(name, "own")
                st.rerun()
    if session.record.chosen:
        st.caption(f"Chosen: {plain(session.record.chosen)}")
