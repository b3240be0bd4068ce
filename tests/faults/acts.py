"""What a fault may interrupt: each act does its work in a folder, and each check says whether what is there
may be believed.

`do` can be done again after any fault. `check` raises AssertionError if something that was acknowledged is
lost, or something wrong would be accepted. `trace` is what must be the same in the end as without any fault.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.exports.bundle import write_bundle
from engine.exports.verification import verify
from engine.exports.writing import write
from engine.family.recipes import custom_family, parse_slug
from engine.predictions import store
from engine.predictions.file import load_predictions, save_predictions
from engine.predictions.gather import predict
from engine.study.protocol.config import StudyConfig
from engine.study.protocol.run import run_study
from engine.target import open_images
from engine.target.label_book import Change, Entry
from engine.target.label_log import append, read, replay
from engine.teacher.cache import read_entry, write_entry
from engine.types import Recipe, UserError
from tests.study.families import make_family
from tests.tiny_teacher import tiny_teacher

RECIPES = custom_family((2, 8), (100.0,), ("tensor", "channel"), (False,))
OTHERS = custom_family((4, 8), (100.0,), ("tensor", "channel"), (False,))
N_LABELS = 8
IMAGES, FAMILY = "images.npy", "family.npz"
STUDY = StudyConfig(budgets=(5,), rates=(0.0,), rules=("val-ce",), repetitions=1)
Acknowledge = Callable[[int], None]


@dataclass(frozen=True)
class Act:
    """One kind of work, what may be believed of it, and what it leaves."""

    do: Callable[[Path, Acknowledge], None]
    check: Callable[[Path, int], None]
    trace: Callable[[Path], object]


def _digests(folder: Path, *patterns: str) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for pattern in patterns
        for path in folder.glob(pattern)
        if not path.name.startswith(".")
    }


def give_inputs(root: Path) -> None:
    """Write what the user brings: it lies beside the folders in which the acts are done."""
    np.save(root / IMAGES, np.random.default_rng(0).integers(0, 256, (40, 16, 16, 3), dtype=np.uint8))
    save_predictions(make_family(0, n_pool=20, n_test=20, n_candidates=4), root / FAMILY)


# --- import: a teacher is kept in the store ---------------------------------------------------------


def do_import(folder: Path, acknowledge: Acknowledge) -> None:
    write_entry(folder / "teachers" / "entry.onnx", tiny_teacher(), "model.keras")
    acknowledge(1)


def check_import(folder: Path, acknowledged: int) -> None:
    """A teacher in the store is the teacher, or counts as not there. Keeping it is a courtesy: a full disk
    costs time, nothing else.
    """
    found = read_entry(folder / "teachers" / "entry.onnx", 1 << 30)
    assert found is None or found.fingerprint == tiny_teacher().fingerprint


# --- run: a family over a pool ----------------------------------------------------------------------


def do_run(folder: Path, acknowledge: Acknowledge) -> None:
    _run(folder, RECIPES, "p.npz")
    acknowledge(1)


def run_another(folder: Path, acknowledge: Acknowledge) -> None:
    """A family that shares two of its recipes, in the same store."""
    _run(folder, OTHERS, "other.npz")


def _run(folder: Path, recipes: Sequence[Recipe], name: str) -> None:
    images = open_images(folder.parent / IMAGES)
    found = predict(tiny_teacher(), recipes, images, store=folder / "store", workers=1)
    save_predictions(found, folder / name)


def check_run(folder: Path, acknowledged: int) -> None:
    if acknowledged:
        load_predictions(folder / "p.npz")
    for path in (folder / "store").glob("predictions/*/*.npy"):
        if store.is_intact(path):
            rows = np.load(path)
            assert rows.shape == (40, 4)
            assert np.allclose(rows.sum(axis=1), 1, atol=1e-5)


# --- label: one line a label ------------------------------------------------------------------------


def do_label(folder: Path, acknowledge: Acknowledge) -> None:
    path = folder / "labels.jsonl"
    for row in range(len(replay(read(path)).rows), N_LABELS):
        append(path, Change(words="label", entries={row: Entry(label=row % 4)}))
        acknowledge(row + 1)


def check_label(folder: Path, acknowledged: int) -> None:
    book = replay(read(folder / "labels.jsonl"))
    assert len(book.rows) >= acknowledged
    assert book.labels == tuple(row % 4 for row in book.rows)


# --- export: a bundle with its certificate ----------------------------------------------------------


def do_export(folder: Path, acknowledge: Acknowledge) -> None:
    write(tiny_teacher(), parse_slug("b4-channel-q99"), folder / "deploy", profiles=False)
    write_bundle(folder / "deploy", folder / "bundle.zip")
    acknowledge(1)


def check_export(folder: Path, acknowledged: int) -> None:
    for name in ("deploy", "bundle.zip"):
        try:
            is_good = verify(folder / name).passed
        except UserError:
            is_good = False  # no bundle, and said so
        assert is_good or not acknowledged
        assert is_good or not (folder / name).is_file()  # a zip is there as a whole or not at all


# --- study: families one by one ---------------------------------------------------------------------


def do_study(folder: Path, acknowledge: Acknowledge) -> None:
    run_study([folder.parent / FAMILY], folder / "study", STUDY, workers=1)
    acknowledge(1)


def check_study(folder: Path, acknowledged: int) -> None:
    table = folder / "study" / "results.csv"
    if acknowledged or table.exists():
        assert table.read_text().count("\n") > 1
        assert table.read_text().endswith("\n")


ACTS = {
    "import": Act(do_import, check_import, lambda f: _digests(f, "teachers/*")),
    "run": Act(do_run, check_run, lambda f: _digests(f, "store/predictions/*/*.npy", "p.npz")),
    "label": Act(do_label, check_label, lambda f: replay(read(f / "labels.jsonl")).labels),
    "export": Act(do_export, check_export, lambda f: _digests(f, "deploy/model.onnx")),
    "study": Act(do_study, check_study, lambda f: _digests(f, "study/*.csv")),
}
