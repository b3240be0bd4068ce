"""Makes a photographic family: fine-tune EfficientNet-Lite0 on one image dataset, run its 72 candidates on
others.

Works on any datasets with one folder per class (a folder or a zip); writes predictions, and the teacher only
where asked: `python -m sample_models.photo_family --source photo.zip --target pacs-sketch=sketch.zip --out
DIR [--teacher FILE.onnx]`. Needs the two packages with the ImageNet weights that tests/requirements.txt
lists.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from engine.family.recipes import standard_family
from engine.predictions.gather import predict
from engine.predictions.pixels import PoolOptions
from engine.predictions.runner import ProgressReport
from engine.predictions.store import default_store
from engine.samples import FOLDER
from engine.target import ImageSet, labels_from_folders, open_images, prepare
from engine.teacher.graph import save
from engine.teacher.importers.onnx import import_graph
from engine.teacher.importers.torch import import_module
from engine.types import Ints, Preprocessing, Teacher, UserError
from sample_models.families import ship
from sample_models.photo_training import accuracy, build_lite0, fine_tune, lite0_preprocessing

SOURCE_TEST_SHARE = 0.1  # of the source, held out to measure the teacher at home


@dataclass(frozen=True, eq=False)
class Rows:
    """Some images of a set, in a given order, as a source of images of its own."""

    images: ImageSet
    rows: NDArray[np.int64]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.images.names[row] for row in self.rows)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.images.dtype

    def read(self, index: int) -> NDArray[Any]:
        return self.images.read(int(self.rows[index]))

    def raw(self, index: int) -> bytes:
        return self.images.source.raw(int(self.rows[index]))


def subset(images: ImageSet, rows: NDArray[np.int64]) -> ImageSet:
    """Return only these rows of an image set, in their order."""
    return ImageSet(Rows(images, rows), images.kind)


def train_teacher(source: Path, side: int, seed: int) -> Teacher:
    """Fine-tune on a dataset with class folders and bring the result into the project's one form; prints what
    it measures.
    """
    images, preprocessing = open_images(source), lite0_preprocessing(side)
    if images.class_folders is None or images.folder_labels is None:
        raise UserError(
            f"{source.name} is not sorted into one folder per class, so there is nothing to learn from."
            " Arrange it as CLASS/IMAGE."
        )
    order = np.random.default_rng(seed).permutation(len(images))
    n_held_out = round(SOURCE_TEST_SHARE * len(images))
    held_out, kept = order[:n_held_out], order[n_held_out:]
    torch.manual_seed(seed)
    model = build_lite0(len(images.class_folders), side)
    fine_tune(
        model,
        _pixels(images, kept, preprocessing),
        images.folder_labels[kept],
        seed,
        log=lambda line: print(line, flush=True),
    )
    score = accuracy(model, _pixels(images, held_out, preprocessing), images.folder_labels[held_out])
    note = (
        f"Fine-tuned on {len(kept)} images of {source.stem}; accuracy on {n_held_out} held-out ones"
        f" {score:.3f}."
    )
    print(note)
    return import_module(
        model,
        name=f"efficientnet-lite0-{source.stem}",
        input_shape=(3, side, side),
        preprocessing=preprocessing,
        class_names=images.class_folders,
        notes=(note,),
    )


def write_family(teacher: Teacher, name: str, target: Path, options: argparse.Namespace) -> Path:
    """Run the family on a random pool and a disjoint random test part of the target, and write its
    predictions.
    """
    images = open_images(target)
    labels = labels_from_folders(images, teacher.class_names)
    rows = np.random.Generator(np.random.PCG64(options.seed)).permutation(len(images))[
        : options.pool + options.test
    ]
    if len(rows) < options.pool + options.test:
        raise UserError(
            f"{target.name} has {len(images)} images; {options.pool} + {options.test} are needed. Lower"
            " --pool or --test."
        )
    pool, test = np.split(rows, [options.pool])
    predictions = predict(
        teacher,
        standard_family(),
        subset(images, pool),
        labels=labels[pool],
        test=(subset(images, test), labels[test]),
        store=options.store,
        on_progress=_Printer(name),
        options=PoolOptions(shuffle=False),  # the rows are in random order already
    )
    path: Path = options.out / f"{name}.npz"
    ship(predictions, path, files=True)
    return path


class _Printer:
    """Prints progress every tenth part of the way."""

    def __init__(self, name: str) -> None:
        self.name, self.shown = name, -1

    def __call__(self, report: ProgressReport) -> None:
        tenth = 10 * report.done // report.total
        if tenth != self.shown:
            self.shown = tenth
            left = "" if report.seconds_left is None else f", {report.seconds_left:.0f} s left"
            print(
                f"{self.name}: {report.stage}, {10 * tenth} %, {report.images_per_second:.0f} images/s{left}",
                flush=True,
            )


def _pixels(images: ImageSet, rows: Ints, preprocessing: Preprocessing) -> NDArray[np.uint8]:
    return np.stack([prepare(images.read(int(row)), preprocessing) for row in rows])


def _named_path(text: str) -> tuple[str, Path]:
    name, separator, path = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=PATH, e.g. my-sketches=sketch.zip")
    return name, Path(path)


def main() -> None:
    """Train (or take up) the teacher and write one predictions file per target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", type=Path, required=True, help="dataset to fine-tune on")
    parser.add_argument(
        "--target",
        type=_named_path,
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="a shifted dataset; repeatable",
    )
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument(
        "--teacher", type=Path, help="where the fine-tuned teacher is kept; taken up if it is there already"
    )
    parser.add_argument("--store", type=Path, default=default_store(), help="folder for resumable work")
    parser.add_argument("--side", type=int, default=160)
    parser.add_argument("--pool", type=int, default=300)
    parser.add_argument("--test", type=int, default=900)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(2)
    # late in fine-tuning, gradients this small slow a processor down several times
    torch.set_flush_denormal(True)
    if options.teacher is not None and options.teacher.exists():
        teacher = import_graph(options.teacher, name=options.teacher.stem)
    else:
        teacher = train_teacher(options.source, options.side, options.seed)
        if options.teacher is not None:
            save(teacher, options.teacher)
    for name, path in options.target:
        written = write_family(teacher, name, path, options)
        print(
            f"{written.name}: {written.stat().st_size / 1e6:.2f} MB, sha256"
            f" {hashlib.sha256(written.read_bytes()).hexdigest()[:12]}"
        )
    print(json.dumps({"notes": teacher.notes}))


if __name__ == "__main__":
    main()
