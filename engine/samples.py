"""The samples that ship with the project: teachers, a real target, and the predictions of their families.

Knows where they are and how they were split. How they were made is in `sample_models`; loading is left to the
public path.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.types import Ints, Preprocessing, UserError

FOLDER = Path(__file__).resolve().parent.parent / "sample_models"
SAMPLE_IMAGES = "sample:digits"  # how a command names the target images of the digit samples
# of the 1,797 handwritten digits; 300 as in the paper, more would make the shipped predictions larger
POOL_SIZE, TEST_SIZE = 300, 600
SPLIT_SEED = 20
SIDE = 32
DIGIT_CLASSES = tuple("0123456789")
# Mean and deviation are round numbers near those of the printed digits; the teachers were trained with them.
DIGIT_PREPROCESSING = Preprocessing(SIDE, SIDE, channels=1, mean=(0.2,), std=(0.3,))
DIGIT_PREPROCESSING_KERAS = Preprocessing(SIDE, SIDE, channels=1, layout="NHWC", mean=(0.2,), std=(0.3,))


@dataclass(frozen=True)
class Sample:
    """One sample family. `teacher` is None where only predictions ship; `files` is the folder of the
    candidates that are files, where they are no recipes. `family` says which family of recipes its candidates
    are.
    """

    name: str
    title: str
    description: str
    target: Literal["digits", "photo"]
    teacher: str | None
    files: str | None = None
    family: str = "paper"

    @property
    def predictions(self) -> str:
        """File name of the family's predictions."""
        return f"{self.name}.npz"


@dataclass(frozen=True, eq=False)
class SampleTarget:
    """Handwritten digits: images uint8 (n, 32, 32), bright on dark, labels int64 (n,); pool and test do not
    overlap.
    """

    pool_images: NDArray[np.uint8]
    pool_labels: Ints
    test_images: NDArray[np.uint8]
    test_labels: Ints
    class_names: tuple[str, ...] = DIGIT_CLASSES


SAMPLES: dict[str, Sample] = {
    sample.name: sample
    for sample in (
        Sample(
            name="digits-resnet",
            title="Digits: ResNet (PyTorch)",
            description=(
                "A BatchNorm ResNet that learned printed digits and now meets handwritten ones. Its low-bit"
                " candidates are sure and wrong."
            ),
            target="digits",
            teacher="digits-resnet.pt2",
        ),
        Sample(
            name="digits-mobilenet",
            title="Digits: MobileNet (Keras)",
            description=(
                "A depthwise network of the MobileNet kind on the same shift, printed to handwritten."
            ),
            target="digits",
            teacher="digits-mobilenet.keras",
        ),
        Sample(
            name="digits-vit",
            title="Digits: Vision Transformer (ONNX)",
            description=(
                "A small transformer distilled from the ResNet with softened targets, on the same shift."
            ),
            target="digits",
            teacher="digits-vit.onnx",
        ),
        Sample(
            name="digits-files",
            title="Digits: ten files from other tools",
            description=(
                "The MobileNet as onnxruntime and TensorFlow ship it: float, float16, dynamic and static"
                " integers, in ONNX and TFLite. Which of the files to deploy?"
            ),
            target="digits",
            teacher=None,
            files="digits-files",
        ),
        Sample(
            name="pacs-sketch",
            title="Photographs to sketches: EfficientNet-Lite0",
            description=(
                "ImageNet weights fine-tuned on photographs of seven kinds of object, met by sketches of"
                " them. Predictions only."
            ),
            target="photo",
            teacher=None,
        ),
        Sample(
            name="pacs-cartoon",
            title="Photographs to cartoons: EfficientNet-Lite0",
            description="The same teacher, met by cartoons. Predictions only.",
            target="photo",
            teacher=None,
        ),
        Sample(
            name="digits-deploy",
            title="Digits: candidates people deploy",
            description=(
                "The ResNet's deploy family: weights only, weights and activations in 8 bits, mixed"
                " precision, corrected rounding, each with its time. Predictions only."
            ),
            target="digits",
            teacher=None,
            family="deploy",
        ),
    )
}


def sample_names(*, with_teacher: bool = False, of_recipes: bool = False) -> tuple[str, ...]:
    """Return the names of all samples, or of those whose teacher ships too, or whose candidates are
    recipes.
    """
    return tuple(
        name
        for name, sample in SAMPLES.items()
        if (sample.teacher or not with_teacher)
        and not (of_recipes and (sample.files or sample.family != "paper"))
    )


def sample_teacher(name: str) -> tuple[Path, Preprocessing]:
    """Return the file of a sample's teacher and the preprocessing it was trained with.

    Raises UserError for an unknown name, or for a sample that ships predictions only.
    """
    sample = _sample(name)
    if sample.teacher is None:
        teachers = ", ".join(sample_names(with_teacher=True))
        raise UserError(
            f"sample {name!r} ships predictions only, no teacher. Open its predictions, or use one of:"
            f" {teachers}."
        )
    is_keras = sample.teacher.endswith(".keras")
    return _existing(sample.teacher), DIGIT_PREPROCESSING_KERAS if is_keras else DIGIT_PREPROCESSING


def sample_predictions(name: str) -> Path:
    """Return the file with the predictions of a sample's candidates; raise UserError for an unknown name."""
    return _existing(_sample(name).predictions)


def handwritten_digits() -> tuple[NDArray[np.uint8], Ints]:
    """Return scikit-learn's 1,797 handwritten digits: images uint8 (n, 32, 32), enlarged from 8x8, bright on
    dark, and labels (n,).
    """
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    grey = np.round(digits.images * (255 / 16)).astype(np.uint8)  # scikit-learn counts ink from 0 to 16
    images = np.stack(
        [np.asarray(Image.fromarray(image).resize((SIDE, SIDE), Image.Resampling.BICUBIC)) for image in grey]
    )
    return images, digits.target.astype(np.int64)


def sample_target() -> SampleTarget:
    """Return the target of the digit samples: handwritten digits, shuffled once with a fixed seed, 300 for
    the pool and 600 to test.
    """
    images, labels = handwritten_digits()
    order = np.random.Generator(np.random.PCG64(SPLIT_SEED)).permutation(len(labels))
    pool, test, _ = np.split(order, [POOL_SIZE, POOL_SIZE + TEST_SIZE])
    return SampleTarget(
        pool_images=images[pool], pool_labels=labels[pool], test_images=images[test], test_labels=labels[test]
    )


def _sample(name: str) -> Sample:
    if name not in SAMPLES:
        raise UserError(f"there is no sample {name!r}. Use one of: {', '.join(SAMPLES)}.")
    return SAMPLES[name]


def _existing(file: str) -> Path:
    path = FOLDER / file
    if not path.is_file():
        raise UserError(
            f"the sample file {file} is missing from sample_models. Restore it, or run: python -m"
            " sample_models.train"
        )
    return path
