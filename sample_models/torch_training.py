"""Training of a PyTorch classifier on images held in memory, with hard or soft targets. Knows nothing of
files.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from engine.types import Ints


@dataclass(frozen=True)
class Schedule:
    """One run of AdamW with a one-cycle learning rate."""

    epochs: int
    peak_rate: float
    batch: int = 128
    weight_decay: float = 0.01
    seed: int = 0


def hard_targets(labels: Ints, n_classes: int) -> Tensor:
    """Turn labels (n,) into target probabilities (n, n_classes)."""
    return one_hot(torch.from_numpy(labels), n_classes).float()


def fit(
    model: nn.Module, inputs: Tensor, targets: Tensor, schedule: Schedule, *, temperature: float = 1.0
) -> None:
    """Train in place on target probabilities (n, K); logits are divided by the temperature before the
    loss.
    """
    generator = torch.Generator().manual_seed(schedule.seed)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=schedule.peak_rate, weight_decay=schedule.weight_decay
    )
    steps = schedule.epochs * (len(inputs) // schedule.batch)
    rate = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, schedule.peak_rate, total_steps=steps, pct_start=0.2
    )
    model.train()
    for _ in range(schedule.epochs):
        order = torch.randperm(len(inputs), generator=generator)
        whole = order[: len(order) // schedule.batch * schedule.batch]
        for rows in whole.split(schedule.batch):  # type: ignore[no-untyped-call]
            # temperature^2 keeps the size of the gradient independent of the temperature (Hinton et al.,
            # 2015)
            loss = temperature**2 * cross_entropy(model(inputs[rows]) / temperature, targets[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            rate.step()
    model.eval()


@torch.no_grad()
def logits_of(model: nn.Module, inputs: Tensor) -> Tensor:
    """Return logits (n, K) of a model in evaluation mode."""
    batches = inputs.split(512)  # type: ignore[no-untyped-call]
    return torch.cat([model(batch) for batch in batches])
