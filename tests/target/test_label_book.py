"""The history of labels: undo is exact, merging loses nothing, and files give back what was put in."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.target import label_log
from engine.target.label_book import (
    Change,
    Entry,
    LabelBook,
    Naming,
    compare_labels,
    difference,
    merge,
    reveal,
    to_csv,
)
from engine.target.labels import LabelSpace, parse_labels
from engine.types import LabeledSample, UserError


def entry(label=None, aside=None, by="", source="typed"):
    return Entry(label=label, aside=aside, source=source, time="2026-01-01T00:00:00+00:00", by=by)


def book_of(*changes):
    book = LabelBook()
    for number, entries in enumerate(changes):
        book = book.record(Change(words=f"change {number}", entries=entries))
    return book


def sample(**rows):
    pairs = {int(row[1:]): label for row, label in rows.items()}
    return LabeledSample(np.array(list(pairs)), np.array(list(pairs.values())))


def test_a_correction_keeps_its_place_and_undo_gives_back_the_order():
    book = book_of({5: entry(1)}, {9: entry(2)}, {5: entry(0)})
    book = book.record(Change("took one away", {}, drops=(5,)))
    assert book.rows == (9,)
    assert book.undo().rows == (5, 9)
    assert book.undo().labels == (0, 2)
    assert book.undo().undo().labels == (1, 2)
    assert book.undo().undo().redo().redo() == book


def test_undo_after_skip_takes_back_the_skip_and_not_a_label():
    book = book_of({5: entry(1)}, {6: entry(aside="skipped")})
    assert book.aside("skipped") == (6,)
    assert book.undo().rows == (5,)
    assert book.undo().aside("skipped") == ()


def test_a_new_change_forgets_what_was_undone():
    book = book_of({5: entry(1)}, {6: entry(1)}).undo().record(Change("other", {7: entry(2)}))
    assert book.redo() is book
    assert book.rows == (5, 7)


def test_the_first_undo_and_a_redo_of_nothing_change_nothing():
    empty = LabelBook()
    assert empty.undo() is empty
    assert empty.redo() is empty


def test_incoming_labels_are_sorted_into_new_same_and_conflicting():
    book = book_of({1: entry(0), 2: entry(1), 3: entry(2)})
    found = compare_labels(book, sample(r2=1, r3=0, r4=1))
    assert found.new == {4: 1}
    assert found.same == {2: 1}
    assert found.conflicts == {3: (2, 0)}
    assert found.only_mine == (1,)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("keep", {1: 0, 2: 1, 3: 2, 4: 1}),
        ("take", {1: 0, 2: 1, 3: 0, 4: 1}),
        ("replace", {4: 1, 3: 0, 2: 1}),
    ],
)
def test_merging_never_loses_a_label_unless_everything_is_replaced(how, expected):
    book = book_of({1: entry(0), 2: entry(1), 3: entry(2)})
    change = merge(book, sample(r4=1, r3=0, r2=1), how, entry(0, source="csv"), "took a file")
    merged = book.record(change)
    assert merged.labeled == expected
    assert merged.undo() == LabelBook(changes=book.changes, undone=(change,))
    assert merged.undo().labeled == book.labeled
    assert merged.entries[4].source == "csv"
    if how != "replace":
        assert merged.entries[2].source == "typed"  # a label that was the same stays whose it was


def test_labels_from_a_file_come_and_go_and_typed_ones_stay():
    book = book_of({1: entry(0)}, {2: entry(aside="unsure")})
    book = book.record(reveal(book, sample(r1=2, r5=1, r6=1), entry(0, source="file"), "3 labels"))
    assert book.labeled == {1: 0, 5: 1, 6: 1}
    book = book.record(reveal(book, sample(r6=1, r5=1, r7=0), entry(0, source="file"), "3 labels"))
    assert list(book.labeled.items()) == [(1, 0), (6, 1), (5, 1), (7, 0)]  # the draw's own order
    assert book.aside("unsure") == (2,)


def test_differences_are_counted_in_words():
    before = book_of({1: entry(0), 2: entry(1), 3: entry(2)})
    after = before.record(Change("x", {1: entry(1), 7: entry(0), 8: entry(0)}, drops=(2,)))
    found = difference(before, after)
    assert (found.added, found.changed, found.removed) == ((7, 8), (1,), (2,))
    assert found.words == "2 new labels, 1 changed label and 1 removed label"
    assert not difference(before, before)
    assert difference(before, before.record(Change("x", {7: entry(0)}))).words == "1 new label"


def test_people_who_label_the_same_image_agree_or_not():
    book = book_of(
        {1: entry(0, by="ann")}, {1: entry(0, by="bo")}, {2: entry(0, by="ann")}, {2: entry(1, by="bo")}
    )
    assert book.agreement.people == ("ann", "bo")
    assert book.agreement.shared == 2
    assert book.agreement.split == (2,)
    assert book.labeled == {1: 0, 2: 1}  # the last word counts


def test_labels_as_csv_are_a_labels_file():
    book = book_of({4: entry(1, by="ann")}, {2: entry(0)}, {3: entry(aside="unsure")})
    files = tuple(f"a/{row}.png" for row in range(6))
    text = to_csv(book, Naming(class_name=lambda label: ("cat", "dog, wet")[label], files=files))
    assert text.splitlines()[1] == '4,1,"dog, wet",a/4.png,typed,2026-01-01T00:00:00+00:00,ann'
    again = parse_labels(text.encode(), name="labels.csv", space=LabelSpace(6, 2, ("cat", "dog, wet"), files))
    assert dict(zip(again.rows.tolist(), again.labels.tolist(), strict=True)) == book.labeled


EVENTS = st.lists(
    st.one_of(
        st.sampled_from(["undo", "redo"]),
        st.builds(
            Change,
            words=st.text(max_size=20),
            drops=st.lists(st.integers(0, 30), max_size=3).map(tuple),
            entries=st.dictionaries(
                st.integers(0, 30),
                st.one_of(
                    st.builds(Entry, label=st.integers(0, 9), by=st.text(max_size=5)),
                    st.builds(Entry, label=st.none(), aside=st.sampled_from(["skipped", "unsure"])),
                ),
                max_size=4,
            ),
        ),
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=40)  # every event is synced to the disk
@given(events=EVENTS, cut=st.integers(0, 60))
def test_the_file_gives_back_every_event_and_a_torn_line_costs_only_itself(tmp_path_factory, events, cut):
    path = tmp_path_factory.mktemp("log") / "labels.jsonl"
    for event in events:
        label_log.append(path, event)
    assert label_log.read(path) == tuple(events)
    book = label_log.replay(label_log.read(path))
    if events:
        data = path.read_bytes()
        path.write_bytes(data[: len(data) - min(cut, len(data.splitlines()[-1]))])
        label_log.append(path, "undo")
        kept = label_log.read(path)
        assert kept[-1] == "undo"
        assert kept[:-1] in (tuple(events), tuple(events[:-1]))
    assert label_log.replay(()).labeled == {}
    assert book.redo().undo().labeled is not None


def test_lines_that_are_not_ours_are_passed_over(tmp_path):
    path = tmp_path / "labels.jsonl"
    label_log.append(path, Change("mine", {3: entry(1)}))
    hostile = [b"[" * 100_000, b"null", b"{}", b'{"event":"change"}', b"\xff\xfe"]
    bad = {"event": "change", "words": "x", "drops": [], "entries": [[1, {"label": "two"}]]}
    path.write_bytes(path.read_bytes() + b"\n".join([*hostile, json.dumps(bad).encode()]) + b"\n")
    assert label_log.replay(label_log.read(path)).labeled == {3: 1}


def test_a_full_disk_is_said_and_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "labels.jsonl"
    label_log.append(path, Change("mine", {3: entry(1)}))
    before = path.read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("engine.target.label_log.os.fsync", full)
    with pytest.raises(UserError, match="could not be saved"):
        label_log.append(path, "undo")
    assert path.read_bytes() == before
