"""The labels a person gave, as a history: every change can be undone and redone, and none is lost.

Knows rows, classes, who said what and when. Knows nothing of files, pages or predictions.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from engine.types import LabeledSample

Source = Literal["typed", "corrected", "csv", "folder", "file"]
Aside = Literal["skipped", "unsure"]
How = Literal["keep", "take", "replace"]
COLUMNS = ("row", "label", "class", "file", "source", "time", "by")


@dataclass(frozen=True)
class Entry:
    """What was said of one image: a class, or that it was put aside; by whom, when, and how it got here."""

    label: int | None
    aside: Aside | None = None
    source: Source = "typed"
    time: str = ""  # UTC, ISO 8601
    by: str = ""

    def __post_init__(self) -> None:
        if (self.label is None) == (self.aside is None):
            raise ValueError("an entry is a label or put aside, never both or neither")
        if not isinstance(self.label, int | None) or not all(
            isinstance(text, str) for text in (self.source, self.time, self.by)
        ):
            raise ValueError("an entry's label is a class number; its source, time and name are text")


@dataclass(frozen=True)
class Change:
    """One step of the history: first `drops` takes rows' entries away, then `entries` sets rows."""

    words: str  # what was done, for the button that undoes it
    entries: Mapping[int, Entry]
    drops: tuple[int, ...] = ()


@dataclass(frozen=True)
class LabelBook:
    """All changes in order, and those that were undone and can be done again (the next one last)."""

    changes: tuple[Change, ...] = ()
    undone: tuple[Change, ...] = ()

    def record(self, change: Change) -> LabelBook:
        """Return the book with one more change; what was undone before can no longer be redone.

        >>> book = LabelBook().record(Change("first", {7: Entry(label=2)}))
        >>> book.record(Change("second", {7: Entry(label=3)})).undo().labels
        (2,)
        """
        return LabelBook(changes=(*self.changes, change))

    def undo(self) -> LabelBook:
        """Return the book before its last change, exactly as it was; the same book if there is none."""
        if not self.changes:
            return self
        return LabelBook(changes=self.changes[:-1], undone=(*self.undone, self.changes[-1]))

    def redo(self) -> LabelBook:
        """Return the book with the last undone change done again; the same book if there is none."""
        if not self.undone:
            return self
        return LabelBook(changes=(*self.changes, self.undone[-1]), undone=self.undone[:-1])

    @cached_property
    def entries(self) -> dict[int, Entry]:
        """Row -> what is said of it now. A corrected row keeps its place, so that folds do not move."""
        now: dict[int, Entry] = {}
        for change in self.changes:
            for row in change.drops:
                now.pop(row, None)
            now.update(change.entries)
        return now

    @cached_property
    def labeled(self) -> dict[int, int]:
        """Row -> class, in the order the rows were first labeled."""
        return {row: entry.label for row, entry in self.entries.items() if entry.label is not None}

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(self.labeled)

    @property
    def labels(self) -> tuple[int, ...]:
        return tuple(self.labeled.values())

    def aside(self, kind: Aside) -> tuple[int, ...]:
        """Rows that were skipped for now, or that nobody could tell, in that order."""
        return tuple(row for row, entry in self.entries.items() if entry.aside == kind)

    @property
    def sample(self) -> LabeledSample | None:
        """S, in the order the labels were given; None without labels."""
        if not self.labeled:
            return None
        return LabeledSample(np.array(self.rows, np.int64), np.array(self.labels, np.int64))

    @cached_property
    def agreement(self) -> Agreement:
        """How far people agree where two or more of them labeled the same image."""
        votes: dict[int, dict[str, int]] = {}
        for change in self.changes:
            for row in change.drops:
                votes.pop(row, None)
            for row, entry in change.entries.items():
                if entry.label is not None:
                    votes.setdefault(row, {})[entry.by] = entry.label
        shared = {row: given for row, given in votes.items() if len(given) > 1}
        split = tuple(row for row, given in shared.items() if len(set(given.values())) > 1)
        people = sorted({by for given in votes.values() for by in given if by})
        return Agreement(people=tuple(people), shared=len(shared), split=split)


@dataclass(frozen=True)
class Agreement:
    """Who labeled, how many images were labeled by two or more, and the rows on which they differ."""

    people: tuple[str, ...]
    shared: int
    split: tuple[int, ...]


@dataclass(frozen=True)
class Comparison:
    """Labels from elsewhere beside those at hand: rows that are new, the same, or contradict."""

    new: dict[int, int]
    same: dict[int, int]
    conflicts: dict[int, tuple[int, int]]  # row -> (mine, theirs)
    only_mine: tuple[int, ...]


def compare_labels(book: LabelBook, given: LabeledSample) -> Comparison:
    """Sort incoming labels into new, same and conflicting ones."""
    theirs = dict(zip(given.rows.tolist(), given.labels.tolist(), strict=True))
    mine = book.labeled
    return Comparison(
        new={row: label for row, label in theirs.items() if row not in mine},
        same={row: label for row, label in theirs.items() if mine.get(row) == label},
        conflicts={row: (mine[row], label) for row, label in theirs.items() if mine.get(row, label) != label},
        only_mine=tuple(row for row in mine if row not in theirs),
    )


def merge(book: LabelBook, given: LabeledSample, how: How, like: Entry, words: str) -> Change:
    """Return the change that takes incoming labels in: new ones only (`keep`), also where they contradict
    (`take`), or in place of everything (`replace`). `like` gives source, time and name of the new entries.
    """
    theirs = dict(zip(given.rows.tolist(), given.labels.tolist(), strict=True))
    found = compare_labels(book, given)
    wanted = {
        "keep": found.new,
        "take": {row: theirs[row] for row in theirs if row not in found.same},
        "replace": theirs,
    }[how]
    entries = {row: replace(like, label=label, aside=None) for row, label in wanted.items()}
    return Change(words=words, entries=entries, drops=book.rows if how == "replace" else ())


def reveal(book: LabelBook, given: LabeledSample, like: Entry, words: str) -> Change:
    """Return the change after which the labels of this source are the given ones, in their order; rows that
    a person labeled stay as they are.
    """
    own = {row for row, entry in book.entries.items() if entry.source != like.source}
    entries = {
        row: replace(like, label=label, aside=None)
        for row, label in zip(given.rows.tolist(), given.labels.tolist(), strict=True)
        if row not in own
    }
    return Change(words=words, entries=entries, drops=tuple(row for row in book.entries if row not in own))


@dataclass(frozen=True)
class Difference:
    """What happened to the labels between two moments."""

    added: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    @property
    def words(self) -> str:
        """'3 new labels and 1 changed label', for a sentence that begins with 'Made before'."""
        parts = (("new", self.added), ("changed", self.changed), ("removed", self.removed))
        said = [f"{len(rows)} {word} label{'' if len(rows) == 1 else 's'}" for word, rows in parts if rows]
        return " and ".join([", ".join(said[:-1]), said[-1]] if len(said) > 1 else said)


def difference(before: LabelBook, after: LabelBook) -> Difference:
    """Return which rows were labeled, relabeled or lost their label between two states of a book."""
    old, new = before.labeled, after.labeled
    return Difference(
        added=tuple(row for row in new if row not in old),
        changed=tuple(row for row in new if row in old and old[row] != new[row]),
        removed=tuple(row for row in old if row not in new),
    )


@dataclass(frozen=True)
class Naming:
    """How a labels file calls classes and images."""

    class_name: Callable[[int], str]
    files: Sequence[str] | None = field(default=None)


def to_csv(book: LabelBook, naming: Naming) -> str:
    """Return the labels as CSV with the columns of COLUMNS; `row,label` make it a labels file of its own."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row, label in book.labeled.items():
        entry = book.entries[row]
        file = naming.files[row] if naming.files is not None else ""
        writer.writerow([row, label, naming.class_name(label), file, entry.source, entry.time, entry.by])
    return out.getvalue()
