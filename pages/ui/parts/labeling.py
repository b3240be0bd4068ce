"""Label here: one image at a time, a button and a key for every class, undo, redo, skip and "not sure". Works
for 3 to 1,000 classes.
"""

from __future__ import annotations

import string

import streamlit as st

from engine.recommend.advice import FEW_LABELS
from pages.ui.parts.label_advice import suggested_rows
from pages.ui.parts.page import OWN_KEYS, plain, user_errors
from pages.ui.session.labels import mark, redo, set_aside, undo
from pages.ui.session.state import Session
from pages.ui.show.words import counted
from pages.ui.workspace.images import thumbnail

# Streamlit keeps C and R for itself.
_KEYS = [*"1234567890", *(letter for letter in string.ascii_uppercase if letter not in "CR")]
_MANY = len(_KEYS)
_BUTTONS = 100  # with more classes than this, a wall of buttons helps nobody: type the name
_SIDE = 260


def keys_for(class_names: tuple[str, ...]) -> list[str | None]:
    """A key for each class: the class name itself where all names are single characters, else 1, 2, … 0, A,
    B, …; None past the last key.
    """
    own = [name.upper() for name in class_names]
    if all(name in _KEYS for name in own) and len(set(own)) == len(own):
        return list(own)
    return [*_KEYS[: len(class_names)], *[None] * (len(class_names) - _MANY)]


def next_row(session: Session) -> int | None:
    """The pool row to label now: those that would decide most first, then pool order, and at the end those
    that were skipped; None when nothing is left.
    """
    seen = session.book.entries
    waiting = [*suggested_rows(session), *range(len(session.order))]
    fresh = next((row for row in waiting if row not in seen), None)
    return fresh if fresh is not None else next(iter(session.book.aside("skipped")), None)


def labeling_desk(session: Session) -> None:
    """The image to label now, with its buttons."""
    with user_errors():
        row, n = next_row(session), len(session.rows)
        more = (
            f"; {FEW_LABELS - n} more make a fair start"
            if n < FEW_LABELS
            else "; more make the choice firmer"
        )
        st.progress(min(n / FEW_LABELS, 1.0), text=counted(n, "label") + more)
        if row is None:
            st.success("Every image was seen.", icon=":material/done_all:")
            history_buttons(session)
            return
        left, right = st.columns([1, 2], gap="medium")
        with left:
            name = plain(session.pool_files[row])
            shown = thumbnail(session.images, session.order[row], _SIDE)
            st.image(shown, caption=name, width=_SIDE, alt="the image to label")
        with right:
            st.markdown("**What is this?**")
            if row in session.book.aside("skipped"):
                st.caption("You skipped this one before.")
            class_buttons(session, row)
            with st.container(horizontal=True, gap="small"):
                aside_buttons(session, row)
                history_buttons(session)
            advice(session)


def class_buttons(session: Session, row: int) -> None:
    """A button and a key for every class, and a field to type into where there are many."""
    names = session.class_names
    keys = keys_for(names)
    is_own = _are_own(session)
    if len(names) <= _BUTTONS:
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


def aside_buttons(session: Session, row: int) -> None:
    """Not now, and not at all."""
    st.button(
        "Skip",
        key="label-skip",
        icon=":material/skip_next:",
        shortcut="Right",
        on_click=set_aside,
        args=(session, row, "skipped"),
        help="Not now: it comes again at the end.",
    )
    st.button(
        "Not sure",
        key="label-unsure",
        icon=":material/help:",
        shortcut="Down",
        on_click=set_aside,
        args=(session, row, "unsure"),
        help="Nobody can tell: it stays without a label. The label browser lists it.",
    )


def history_buttons(session: Session) -> None:
    """Undo and redo of every kind of change, named after what they take back."""
    changes, undone = session.book.changes, session.book.undone
    st.button(
        "Undo",
        key="label-undo",
        icon=":material/undo:",
        shortcut="Backspace",
        on_click=undo,
        args=(session,),
        disabled=not changes,
        help=f"Takes back: {changes[-1].words}" if changes else None,
    )
    st.button(
        "Redo",
        key="label-redo",
        icon=":material/redo:",
        on_click=redo,
        args=(session,),
        disabled=not undone,
        help=f"Does again: {undone[-1].words}" if undone else None,
    )


def advice(session: Session) -> None:
    """How to label, and why the images come in this order."""
    if session.predictions is not None:
        st.caption("Images come in the order of how much their label would decide between the contenders.")
    if len(session.class_names) > _BUTTONS:
        press = "Type a part of the class's name and press Enter."
    elif _are_own(session):
        press = "Click a class, or press its key on the keyboard."
    else:
        press = "Press the key shown on a button."
    st.caption(f"{press} Skipped images come again at the end.")


def _are_own(session: Session) -> bool:
    names = session.class_names
    return keys_for(names) == [name.upper() for name in names]


def by_name(session: Session, row: int, names: tuple[str, ...]) -> None:
    """With many classes, typing a part of the name is quicker than looking for the button."""
    label = st.selectbox(
        "Type the class",
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
    labels = session.book.labeled
    groups = (session.checks or {}).get("duplicate_rows", [])
    bad = [group for group in groups if len({labels[row] for row in group if row in labels}) > 1]
    return [", ".join(session.pool_files[row] for row in group if row in labels) for group in bad]
