"""Label here: one image at a time, a button and a key for every class, undo, skip and "not sure". Works for 3
to 100 classes.
"""

from __future__ import annotations

import string

import streamlit as st

from pages.ui.parts.label_advice import suggested_rows
from pages.ui.parts.page import OWN_KEYS, plain, user_errors
from pages.ui.session.state import Session
from pages.ui.show.words import counted
from pages.ui.workspace.images import thumbnail

# Streamlit keeps C and R for itself.
_KEYS = [*"1234567890", *(letter for letter in string.ascii_uppercase if letter not in "CR")]
_MANY = len(_KEYS)
_SIDE = 260
GOAL = 25  # from about this many labels on, the paper's supervised rules are no longer dominated by chance


def keys_for(class_names: tuple[str, ...]) -> list[str | None]:
    """A key for each class: the class name itself where all names are single characters, else 1, 2, … 0, A,
    B, …; None past the last key.
    """
    own = [name.upper() for name in class_names]
    if all(name in _KEYS for name in own) and len(set(own)) == len(own):
        return list(own)
    return [*_KEYS[: len(class_names)], *[None] * (len(class_names) - _MANY)]


def next_row(session: Session) -> int | None:
    """The pool row to label now: those that would decide most first, then pool order; None when every row was
    seen.
    """
    seen = {*session.record.rows, *session.record.unsure}
    return next(
        (row for row in [*suggested_rows(session), *range(len(session.order))] if row not in seen), None
    )


def mark(session: Session, row: int, label: int) -> None:
    """Give a row its label."""
    record = session.record
    session.set_labels((*record.rows, row), (*record.labels, label), record.unsure)


def set_aside(session: Session, row: int) -> None:
    """Leave a row out: skipped, or nobody can tell."""
    record = session.record
    session.set_labels(record.rows, record.labels, (*record.unsure, row))


def undo(session: Session) -> None:
    """Take back the last label, so that its image comes again."""
    record = session.record
    session.set_labels(record.rows[:-1], record.labels[:-1], record.unsure)


def labeling_desk(session: Session) -> None:
    """The image to label now, with its buttons."""
    with user_errors():
        row, names = next_row(session), session.class_names
        n = len(session.record.rows)
        st.progress(
            min(n / GOAL, 1.0),
            text=f"{counted(n, 'label')}"
            + (f"; {GOAL - n} more make a fair start" if n < GOAL else "; more make the choice firmer"),
        )
        if row is None:
            st.success("Every image was seen.", icon=":material/done_all:")
            st.button("Undo", key="label-undo", on_click=undo, args=(session,), disabled=not n)
            return
        left, right = st.columns([1, 2], gap="medium")
        with left:
            st.image(
                thumbnail(session.images, session.order[row], _SIDE),
                caption=plain(session.pool_files[row]),
                width=_SIDE,
            )
        with right:
            st.markdown("**What is this?**")
            keys = keys_for(names)
            is_own = keys == [name.upper() for name in names]
            with st.container(horizontal=True, gap="small", key=OWN_KEYS if is_own else None):
                for label, (name, key) in enumerate(zip(names, keys, strict=True)):
                    st.button(
                        plain(name),
                        key=f"label-{label}",
                        shortcut=key,
                        on_click=mark,
                        args=(session, row, label),
                    )
            if len(names) > _MANY:
                by_name(session, row, names)
            with st.container(horizontal=True, gap="small"):
                st.button(
                    "Undo",
                    key="label-undo",
                    icon=":material/undo:",
                    shortcut="Backspace",
                    on_click=undo,
                    args=(session,),
                    disabled=not n,
                )
                st.button(
                    "Skip",
                    key="label-skip",
                    icon=":material/skip_next:",
                    shortcut="Right",
                    on_click=set_aside,
                    args=(session, row),
                )
                st.button(
                    "Not sure",
                    key="label-unsure",
                    icon=":material/help:",
                    shortcut="Down",
                    on_click=set_aside,
                    args=(session, row),
                )
            if session.predictions is not None:
                st.caption(
                    "Images come in the order of how much their label would decide between the contenders."
                )
            press = (
                "Click a class, or press its key on the keyboard."
                if is_own
                else "Press the key shown on a button."
            )
            st.caption(f"{press} Images you skip or are not sure of stay in the pool without a label.")


def by_name(session: Session, row: int, names: tuple[str, ...]) -> None:
    """With many classes, typing a part of the name is quicker than looking for the button."""
    label = st.selectbox(
        "Or type the class",
        range(len(names)),
        index=None,
        format_func=names.__getitem__,
        key=f"label-name-{row}",
    )
    if label is not None:
        mark(session, row, label)
        st.rerun()


def conflicts(session: Session) -> list[str]:
    """Identical images that were given different labels: one of the two must be wrong."""
    labels = dict(zip(session.record.rows, session.record.labels, strict=True))
    groups = (session.checks or {}).get("duplicate_rows", [])
    bad = [group for group in groups if len({labels[row] for row in group if row in labels}) > 1]
    return [", ".join(session.pool_files[row] for row in group if row in labels) for group in bad]
