"""Trains the digit teachers from scratch and writes them with their measured accuracies: `python -m
sample_models.train`.

Knows every training setting. Architectures and loops are in the modules beside it.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from engine.samples import DIGIT_CLASSES, DIGIT_PREPROCESSING, FOLDER, SAMPLES, sample_target
from engine.teacher.importers.timm import build
from engine.types import Ints
from sample_models.digits import Digits, Jitter, render_digits
from sample_models.torch_nets import DigitResNet, build_vit
from sample_models.torch_training import Schedule, fit, hard_targets, logits_of

METRICS = "metrics.json"
N_TRAIN, TRAIN_SEED = 6000, 1000
# a transformer needs more images than a CNN, and the ResNet labels any number
N_DISTIL, DISTIL_SEED = (
    12_000,
    2000,
)
N_SOURCE_TEST, SOURCE_TEST_SEED = 2000, 77
JITTER = Jitter()
RESNET = Schedule(epochs=8, peak_rate=1e-3, weight_decay=0.0)
VIT = Schedule(epochs=8, peak_rate=2e-3, weight_decay=0.05)
TEMPERATURE = 10.0  # of the distillation; the paper uses 2 and 10
MOBILENET_EPOCHS, MOBILENET_RATE = 10, 2e-3
EFFICIENTNET_ARCH = "test_efficientnet"  # timm's name for a network of 101 thousand parameters
THREADS = 1

Scores = Callable[[NDArray[np.float32]], NDArray[np.floating]]  # inputs (n, 32, 32) -> class scores (n, 10)


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network as a function, its size, and how to write it to a path."""

    scores: Scores
    n_parameters: int
    write: Callable[[Path], None]


def normalised(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Turn images (n, 32, 32) of 0..255 into the teachers' inputs, channel left out."""
    p = DIGIT_PREPROCESSING
    return ((images.astype(np.float32) * np.float32(p.scale)) - np.float32(p.mean[0])) / np.float32(p.std[0])


@functools.cache
def train_resnet(source: Digits, seed: int = 0) -> Trained:
    """Train the BatchNorm ResNet; it is written as an exported program (.pt2) with a free batch size."""
    torch.manual_seed(seed)
    model = DigitResNet()
    fit(model, _tensor(normalised(source.images)), hard_targets(source.labels, len(DIGIT_CLASSES)), RESNET)

    def write(path: Path) -> None:
        batch = torch.export.Dim("batch", min=1, max=4096)
        example = torch.zeros(2, 1, DIGIT_PREPROCESSING.height, DIGIT_PREPROCESSING.width)
        program = torch.export.export(model, (example,), dynamic_shapes=({0: batch},))
        for node in program.graph.nodes:
            node.meta.pop("stack_trace", None)  # paths of this machine
        torch.export.save(program, path)

    return _trained(model, write)


def train_vit(source: Digits, seed: int = 0) -> Trained:
    """Distil the ResNet into a Vision Transformer with softened targets; it is written as .onnx by the
    project's own importer.
    """
    inputs = normalised(render_digits(N_DISTIL, DISTIL_SEED, JITTER).images)
    soft = torch.softmax(torch.from_numpy(train_resnet(source, seed).scores(inputs)) / TEMPERATURE, dim=1)
    torch.manual_seed(seed)
    model = build_vit()
    fit(model, _tensor(inputs), soft, VIT, temperature=TEMPERATURE)

    def write(path: Path) -> None:
        from engine.teacher.graph import save
        from engine.teacher.importers.torch import import_module

        shape = (1, DIGIT_PREPROCESSING.height, DIGIT_PREPROCESSING.width)
        save(
            import_module(
                model,
                name=path.stem,
                input_shape=shape,
                preprocessing=DIGIT_PREPROCESSING,
                class_names=DIGIT_CLASSES,
            ),
            path,
        )

    return _trained(model, write)


def train_efficientnet(source: Digits, seed: int = 0) -> Trained:
    """Train timm's smallest EfficientNet; it is written as bare weights (.safetensors) in half precision, as
    checkpoints often are.
    """
    from safetensors.torch import save_file

    torch.manual_seed(seed)
    model = build(EFFICIENTNET_ARCH, len(DIGIT_CLASSES), channels=1)
    fit(model, _tensor(normalised(source.images)), hard_targets(source.labels, len(DIGIT_CLASSES)), RESNET)
    half = {
        name: value.half() if value.is_floating_point() else value
        for name, value in model.state_dict().items()
    }
    return _trained(model, lambda path: save_file(half, path))


def train_mobilenet(source: Digits, seed: int = 0) -> Trained:
    """Train the depthwise Keras network; it is written as .keras."""
    from sample_models import keras_net

    inputs = normalised(source.images)[..., None]
    model = keras_net.train_mobilenet(
        inputs, source.labels, epochs=MOBILENET_EPOCHS, peak_rate=MOBILENET_RATE, seed=seed
    )
    return Trained(
        lambda x: model.predict(x[..., None], batch_size=512, verbose=0), model.count_params(), model.save
    )


TRAINERS: dict[str, Callable[[Digits], Trained]] = {
    "digits-resnet": train_resnet,
    "digits-mobilenet": train_mobilenet,
    "digits-vit": train_vit,
    "digits-efficientnet": train_efficientnet,
}
# The last one has no family: it is there to try the import of bare weights with --arch and --classes.
FILES = {
    **{name: str(sample.teacher) for name, sample in SAMPLES.items()},
    "digits-efficientnet": "digits-efficientnet.safetensors",
}


def measure(trained: Trained) -> dict[str, float]:
    """Return accuracy on fresh printed digits and on the handwritten target, and the number of parameters."""
    fresh, target = render_digits(N_SOURCE_TEST, SOURCE_TEST_SEED, JITTER), sample_target()
    handwritten = np.concatenate([target.pool_images, target.test_images])
    labels = np.concatenate([target.pool_labels, target.test_labels])
    return {
        "source_accuracy": _accuracy(trained, fresh.images, fresh.labels),
        "target_accuracy": _accuracy(trained, handwritten, labels),
        "parameters": trained.n_parameters,
    }


def _accuracy(trained: Trained, images: NDArray[np.uint8], labels: Ints) -> float:
    return round(float(np.mean(trained.scores(normalised(images)).argmax(axis=1) == labels)), 4)


def _trained(model: torch.nn.Module, write: Callable[[Path], None]) -> Trained:
    return Trained(
        lambda x: logits_of(model, _tensor(x)).numpy(), sum(p.numel() for p in model.parameters()), write
    )


def _tensor(inputs: NDArray[np.float32]) -> torch.Tensor:
    return torch.from_numpy(inputs).unsqueeze(1)


def main() -> None:
    """Train the chosen teachers, write them and their metrics, and print both beside the committed ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"teachers to train, all by default: {', '.join(TRAINERS)}"
    )
    parser.add_argument(
        "--out", type=Path, default=FOLDER, help="folder to write to; the shipped samples by default"
    )
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    options.out.mkdir(parents=True, exist_ok=True)
    metrics_file = options.out / METRICS
    metrics = json.loads(metrics_file.read_text()) if metrics_file.exists() else {}
    committed = json.loads((FOLDER / METRICS).read_text()) if (FOLDER / METRICS).exists() else {}
    source = render_digits(N_TRAIN, TRAIN_SEED, JITTER)
    for name in options.names or TRAINERS:
        start = time.process_time()
        trained = TRAINERS[name](source)
        metrics[name] = {**measure(trained), "cpu_seconds": round(time.process_time() - start)}
        trained.write(options.out / FILES[name])
        metrics_file.write_text(json.dumps(metrics, indent=1) + "\n")
        print(f"{name}: {metrics[name]}, committed {committed.get(name)}", flush=True)


if __name__ == "__main__":
    main()
