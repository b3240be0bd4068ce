"""Labels in: a small CSV of `row,label` or `file,label` becomes the labeled sample S, in the order it was
written.

Knows the CSV contract. Knows nothing of predictions beyond how many rows and classes there are.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from engine.types import UNLABELED, Ints, LabeledSample, UserError

_MAX_BYTES = 16 << 20
_SEPARATORS = (",", ";", "\t")  # spreadsheets in many countries write semicolons
_COLUMNS = ({"row", "label"}, {"file", "label"})


@dataclass(frozen=True)
class LabelSpace:
    """What a label may refer to: N pool rows (optionally by image name) and K classes (optionally by class
    name).
    """

    n_rows: int
    n_classes: int
    class_names: Sequence[str] | None = None
    files: Sequence[str] | None = None

    def rows_of(self, file: str) -> list[int]:
        """The rows an image name stands for; a bare name is enough where it is unique: people label
        cat/17.png as 17.png.
        """
        return self._by_path.get(file) or self._by_name.get(file, [])

    @cached_property
    def _by_path(self) -> dict[str, list[int]]:
        return _index(self.files or ())

    @cached_property
    def _by_name(self) -> dict[str, list[int]]:
        return _index([file.rsplit("/", 1)[-1] for file in self.files or ()])

    @cached_property
    def _by_class(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.class_names or ())}


def _index(names: Sequence[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        found.setdefault(name, []).append(row)
    return found


def read_labels(
    path: str | Path,
    *,
    n_rows: int,
    n_classes: int,
    class_names: Sequence[str] | None = None,
    files: Sequence[str] | None = None,
) -> LabeledSample:
    """Read a labels CSV. Raises UserError naming the file and line for anything that cannot be a label."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path} is not a file. Give a CSV with the columns row,label or file,label.")
    if path.stat().st_size > _MAX_BYTES:
        raise UserError(
            f"{path.name} is {path.stat().st_size / 2**20:.0f} MB; a labels CSV has at most"
            f" {_MAX_BYTES >> 20} MB. Keep row and label only."
        )
    return parse_labels(
        path.read_bytes(),
        name=path.name,
        space=LabelSpace(n_rows=n_rows, n_classes=n_classes, class_names=class_names, files=files),
    )


def parse_labels(data: bytes, *, name: str, space: LabelSpace) -> LabeledSample:
    """Parse the bytes of a labels CSV called `name` (see `read_labels`)."""
    parsed = parse_label_lines(data, name=name, space=space)
    if parsed.problems:
        raise UserError(parsed.problems[0])
    if not parsed.sample.n:
        raise UserError(f"{name} has no labels. Add lines such as 17,3 (pool row 17 is class 3).")
    return parsed.sample


@dataclass(frozen=True, eq=False)
class LabelLines:
    """The labels of the lines that could be read, and one sentence for each line that could not."""

    sample: LabeledSample
    problems: tuple[str, ...]


def parse_label_lines(data: bytes, *, name: str, space: LabelSpace) -> LabelLines:
    """Parse a labels CSV line by line: the good lines count, the others are listed with their reason.

    Commas, semicolons and tabs all separate. Raises UserError if the file as a whole cannot be a labels file.
    """
    reader = csv_rows(data, name)
    columns = {(field or "").strip().lower(): field for field in reader.fieldnames or ()}
    wanted = next((pair for pair in _COLUMNS if pair <= set(columns)), None)
    if wanted is None:
        found = f"starts with the line {', '.join(columns)[:80]!r}" if columns else "is empty"
        raise UserError(
            f"{name} {found}; the first line must be row,label or file,label. Correct the first line."
        )
    key_column = "file" if "file" in wanted else "row"
    find = _file_row if key_column == "file" else _row
    rows: dict[int, int] = {}
    problems: list[str] = []
    for record in csv_records(reader, name):
        where = f"{name}, line {reader.line_num}"
        key = (record[columns[key_column]] or "").strip()
        try:
            row = find(key, where, space)
            label = label_of((record[columns["label"]] or "").strip(), where, space)
            if row in rows:
                raise UserError(f"{where}: {key} is labeled twice. Keep one line for each image.")
        except UserError as error:
            problems.append(str(error))
        else:
            rows[row] = label
    sample = LabeledSample(
        np.array(list(rows), dtype=np.int64), np.array(list(rows.values()), dtype=np.int64)
    )
    return LabelLines(sample=sample, problems=tuple(problems))


def csv_records(reader: csv.DictReader[str], name: str) -> Iterator[dict[str, str]]:
    """Yield the lines of the file; raise UserError where the csv module gives up on one."""
    try:
        yield from reader
    except csv.Error as error:
        raise UserError(
            f"{name}, line {reader.line_num + 1}: this is no line of a CSV ({error}).",
            "Keep row and label only, and save it as CSV (UTF-8).",
        ) from None


def csv_rows(data: bytes, name: str) -> csv.DictReader[str]:
    """Return a reader of a CSV by its columns, whatever separates them; raise UserError if it is no text."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{name} is not UTF-8 text. Save it as CSV (UTF-8).") from None
    if "\0" in text:
        raise UserError(f"{name} is not UTF-8 text.", "Save it as CSV (UTF-8).")
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # old spreadsheets end lines with a bare return
    head = text.split("\n", 1)[0]
    separator = max(_SEPARATORS, key=head.count)  # the first one wins a tie, so a comma where there is none
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True, delimiter=separator)
    try:
        _ = reader.fieldnames  # reads the first line
    except csv.Error as error:
        raise UserError(
            f"{name}, line 1: this is no line of a CSV ({error}).", "Save it as CSV (UTF-8)."
        ) from None
    return reader


def _row(text: str, where: str, space: LabelSpace) -> int:
    number = _whole(text)
    if number is None or number >= space.n_rows:
        raise UserError(
            f"{where}: row {text[:40]!r} is not in the pool; rows are 0..{space.n_rows - 1}. Correct the row."
        )
    return number


def _whole(text: str) -> int | None:
    """A number from 0, or None: what is no number, and what is longer than any row or class."""
    return int(text) if text.isdecimal() and len(text) < 20 else None


def _file_row(text: str, where: str, space: LabelSpace) -> int:
    if space.files is None:
        raise UserError(
            f"{where}: labels are given by file, but these predictions do not name their images. Use"
            " row,label instead."
        )
    matches = space.rows_of(text)
    if len(matches) != 1:
        found = "is not in the pool" if not matches else f"matches {len(matches)} images"
        raise UserError(
            f"{where}: file {text[:80]!r} {found}. Write the image's path as it stands in the pool, e.g."
            f" {space.files[0]!r}."
        )
    return matches[0]


def label_of(text: str, where: str, space: LabelSpace) -> int:
    """Return the class that a name or number stands for; `where` opens the sentence if there is none."""
    names: Mapping[str, int] = space._by_class
    if text in names:
        return names[text]
    number = _whole(text)
    if number is not None and number < space.n_classes:
        return number
    known = f"0…{space.n_classes - 1}" + (f", named {', '.join(list(names)[:5])}…" if names else "")
    hint = "Fix the line" if names else "Fix the line, or give class names"
    raise UserError(
        f"{where}: label {text[:40]!r} is unknown; there are {space.n_classes} classes ({known}). {hint}."
    )


def sample_from_array(labels: Ints) -> LabeledSample:
    """Return the labeled rows of a (N,) label array with -1 = unlabeled, in pool order."""
    rows = np.flatnonzero(labels != UNLABELED)
    return LabeledSample(rows, labels[rows])
