"""What clicks do to the labels of a session: label, correct, put aside, take files in, undo, redo. Draws
nothing.

Every change is on the disk, synced, before the page is drawn again.
"""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from engine.rules.sampling import draw_subset
from engine.target import labels_from_folders
from engine.target.label_book import (
    Aside,
    Change,
    Entry,
    How,
    Naming,
    Source,
    merge,
    reveal,
    to_csv,
)
from engine.target.label_log import Event, append
from engine.types import Ints, LabeledSample, UserError
from pages.ui.session.state import Session
from pages.ui.session.work import LABELS
from pages.ui.show.words import counted, in_fields


def mark(session: Session, row: int, label: int) -> None:
    """Give a row its label, or another one than it had."""
    is_new = row not in session.book.labeled
    name = session.class_names[label]
    words = f"{'label' if is_new else 'correction'} “{name}”"
    entry = _entry(session, "typed" if is_new else "corrected", label=label)
    _click(session, Change(words=words, entries={row: entry}))


def set_aside(session: Session, row: int, kind: Aside) -> None:
    """Leave a row for later (it comes again at the end), or note that nobody can tell."""
    words = "skip" if kind == "skipped" else "“not sure”"
    _click(session, Change(words=words, entries={row: _entry(session, "typed", aside=kind)}))


def unlabel(session: Session, row: int) -> None:
    """Take a row's label away; undo brings it back."""
    _click(session, Change(words="removal of a label", entries={}, drops=(row,)))


def undo(session: Session) -> None:
    """Take back the last change of any kind."""
    if session.book.changes:
        _click(session, "undo")


def redo(session: Session) -> None:
    """Do again what was taken back last."""
    if session.book.undone:
        _click(session, "redo")


def take(session: Session, given: LabeledSample, how: How, *, source: Source, words: str) -> None:
    """Take labels from elsewhere in: only the new ones, also those that contradict, or in place of all."""
    _do(session, merge(session.book, given, how, _entry(session, source, label=0), words))


def reveal_labels(session: Session, n: int, known: Ints | None = None) -> None:
    """Take n labels of a fully labeled pool, drawn as the protocol draws them; labels you gave stay."""
    labels = session.require_predictions().labels if known is None else known
    rows = draw_subset(len(labels), n) if n else np.array([], np.int64)
    like, words = _entry(session, "file", label=0), f"{counted(n, 'label')} from the file"
    _do(session, reveal(session.book, LabeledSample(rows, labels[rows]), like, words))


def labels_of_folders(session: Session, n: int) -> None:
    """Take the labels that class folders claim, for the first n images of the pool; labels you gave stay."""
    labels = labels_from_folders(session.images, session.class_names)
    taken = range(min(n, len(session.order)))
    rows, claimed = np.array(taken), np.array([labels[session.order[row]] for row in taken], np.int64)
    like, words = _entry(session, "folder", label=0), f"{counted(len(rows), 'label')} from the class folders"
    _do(session, reveal(session.book, LabeledSample(rows, claimed), like, words))


def labels_csv(session: Session) -> str:
    """Every label with its source, time and name, as a CSV that can be read again."""
    names = session.class_names
    files = session.pool_files if session.has_images else None
    return to_csv(session.book, Naming(class_name=names.__getitem__, files=files))


def _entry(
    session: Session, source: Source, *, label: int | None = None, aside: Aside | None = None
) -> Entry:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Entry(label=label, aside=aside, source=source, time=now, by=session.record.annotator)


def _do(session: Session, event: Event) -> None:
    append(session.folder / LABELS, event)


def _click(session: Session, event: Event) -> None:
    """As `_do`, for buttons: they work before the page is drawn, so a failure is said by its head."""
    try:
        _do(session, event)
    except UserError as error:
        session.complaint = in_fields(error)
