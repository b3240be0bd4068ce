"""Makes further families to judge rules on, never to tune them: other seeds, letters, few training images,
corruptions, imbalance.

`python -m sample_models.more_families --out FOLDER [NAME ...]`; `python -m tests.benchmarks.bench_rules
FOLDER` then measures every rule on them. Nothing is shipped. One teacher takes one to three minutes on two
cores.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from engine.predictions.file import save_predictions
from engine.predictions.store import default_store
from engine.samples import DIGIT_PREPROCESSING, SampleTarget, handwritten_digits
from engine.target import normalise
from engine.teacher.importers.timm import build
from engine.teacher.importers.torch import import_module
from engine.types import Ints, Teacher
from sample_models.digits import SIDE, Digits, render_glyphs
from sample_models.families import predict_digits
from sample_models.torch_nets import DigitResNet
from sample_models.torch_training import Schedule, fit, hard_targets

DIGITS, LETTERS = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
N_POOL, N_TEST = 350, 700
IMBALANCE = 10.0  # most frequent class over rarest

Images = NDArray[np.uint8]


@dataclass(frozen=True)
class Setting:
    """A teacher's source and the targets it meets. `corrupted` names corruptions of unseen source images."""

    net: str
    characters: str | None  # None: trained on a few handwritten digits
    seed: int
    corrupted: tuple[str, ...]


SETTINGS = {
    "digits": Setting(
        net="resnet", characters=DIGITS, seed=101, corrupted=("noise", "blur", "contrast", "occlusion")
    ),
    "digits-efficientnet": Setting(
        net="test_efficientnet", characters=DIGITS, seed=102, corrupted=("noise", "blur", "rotation")
    ),
    "letters": Setting(
        net="resnet",
        characters=LETTERS,
        seed=103,
        corrupted=("noise", "blur", "contrast", "rotation", "occlusion"),
    ),
    "handwritten": Setting(
        net="resnet",
        characters=None,
        seed=104,
        corrupted=("noise", "blur", "contrast", "rotation", "occlusion"),
    ),
}


def _rotated(images: Images, rng: np.random.Generator) -> Images:
    from PIL import Image

    angles = rng.uniform(-45, 45, len(images))
    turned = [
        Image.fromarray(image).rotate(angle, Image.Resampling.BILINEAR)
        for image, angle in zip(images, angles, strict=True)
    ]
    return np.stack([np.asarray(image) for image in turned])


def _occluded(images: Images, rng: np.random.Generator) -> Images:
    hidden, side = images.copy(), round(0.38 * SIDE)
    for image, (top, left) in zip(hidden, rng.integers(0, SIDE - side + 1, (len(images), 2)), strict=True):
        image[top : top + side, left : left + side] = 128
    return hidden


def _blurred(images: Images, _: np.random.Generator) -> Images:
    from PIL import Image, ImageFilter

    return np.stack(
        [np.asarray(Image.fromarray(image).filter(ImageFilter.GaussianBlur(2.2))) for image in images]
    )


def _faded(images: Images, _: np.random.Generator) -> Images:
    means = images.mean(axis=(1, 2), keepdims=True)
    faded: Images = np.round(means + 0.35 * (images - means)).astype(np.uint8)
    return faded


def _noisy(images: Images, rng: np.random.Generator) -> Images:
    return np.clip(np.round(images + rng.normal(0, 64, images.shape)), 0, 255).astype(np.uint8)


CORRUPTIONS: dict[str, Callable[[Images, np.random.Generator], Images]] = {
    "noise": _noisy,
    "blur": _blurred,
    "contrast": _faded,
    "rotation": _rotated,
    "occlusion": _occluded,
}


def imbalanced(labels: Ints, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return rows (n,) in random order whose class frequencies fall geometrically from IMBALANCE to 1."""
    counts = np.bincount(labels)
    shares = IMBALANCE ** -(rng.permutation(len(counts)) / (len(counts) - 1))
    scale = np.min(counts / shares)
    kept = [
        rng.permutation(np.flatnonzero(labels == c))[: max(1, round(scale * share))]
        for c, share in enumerate(shares)
    ]
    return rng.permutation(np.concatenate(kept))


def train_teacher(name: str, setting: Setting) -> tuple[Teacher, Digits]:
    """Train the setting's network; return it with images of the source that it has not seen."""
    characters = setting.characters or DIGITS
    if setting.characters is None:
        images, labels = handwritten_digits()
        order = np.random.default_rng(setting.seed).permutation(len(labels))
        seen, unseen = (Digits(images[rows], labels[rows]) for rows in (order[:500], order[500:]))
    else:
        seen, unseen = (
            render_glyphs(characters, 8000, setting.seed),
            render_glyphs(characters, 2400, setting.seed + 1000),
        )
    torch.manual_seed(setting.seed)
    model: nn.Module = (
        DigitResNet(len(characters))
        if setting.net == "resnet"
        else build(setting.net, len(characters), channels=1)
    )
    schedule = (
        Schedule(epochs=8, peak_rate=3e-3, seed=setting.seed)
        if setting.characters
        else Schedule(40, 3e-3, 64, seed=setting.seed)
    )
    inputs = torch.from_numpy(normalise(seen.images[:, None], DIGIT_PREPROCESSING))
    fit(model, inputs, hard_targets(seen.labels, len(characters)), schedule)
    teacher = import_module(
        model,
        name=name,
        input_shape=(1, SIDE, SIDE),
        preprocessing=DIGIT_PREPROCESSING,
        class_names=tuple(characters),
    )
    return teacher, unseen


def targets_of(setting: Setting, unseen: Digits) -> dict[str, Digits]:
    """Return every target by name: corruptions, one of them also imbalanced, and handwritten digits for
    printed ones, whole and imbalanced.
    """
    rng = np.random.default_rng(setting.seed)
    targets = {
        kind: Digits(CORRUPTIONS[kind](unseen.images, rng), unseen.labels) for kind in setting.corrupted
    }
    first = targets[setting.corrupted[0]]
    rows = imbalanced(first.labels, rng)
    targets[f"imbalanced-{setting.corrupted[0]}"] = Digits(first.images[rows], first.labels[rows])
    if setting.characters == DIGITS:
        images, labels = handwritten_digits()
        rows = imbalanced(labels, rng)
        targets["handwritten"] = Digits(images, labels)
        targets["imbalanced-handwritten"] = Digits(images[rows], labels[rows])
    return targets


def main() -> None:
    """Train the named teachers, or all, and write one predictions file per target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"any of: {', '.join(SETTINGS)}; all by default"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--seed", type=int, default=0, help="added to every setting's seed: other teachers, other draws"
    )
    parser.add_argument("--store", type=Path, default=default_store(), help="folder for resumable work")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names or SETTINGS:
        setting = replace(SETTINGS[name], seed=SETTINGS[name].seed + options.seed)
        teacher, unseen = train_teacher(name, setting)
        for kind, target in targets_of(setting, unseen).items():
            order = np.random.default_rng(setting.seed).permutation(len(target.labels))
            pool, test = np.split(order[: N_POOL + N_TEST], [min(N_POOL, len(order) // 2)])
            parts = SampleTarget(
                pool_images=target.images[pool],
                pool_labels=target.labels[pool],
                test_images=target.images[test],
                test_labels=target.labels[test],
            )
            save_predictions(
                predict_digits(teacher, parts, options.store), options.out / f"{name}-{kind}.npz"
            )
            print(f"{name}-{kind}: {len(pool)} pool and {len(test)} test images", flush=True)


if __name__ == "__main__":
    main()
