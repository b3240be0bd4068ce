"""Which layer gets how many bits: the exact solution for a memory limit, from what each layer's bits cost and
spoil.

Knows numbers only. Where they are measured is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.family.quantize import n_output_channels
from engine.types import Floats, Kernel, UserError

CHOICES: tuple[int, ...] = (2, 3, 4, 5, 6, 8)
FLOAT = 32  # bits of a layer that is left alone
_CLOSE = 1e-6  # of the harm: nearer is as good
_WIDEST = 4000  # divisions kept side by side; a few hundred is usual


@dataclass(frozen=True, eq=False)
class LayerTable:
    """What every layer costs and spoils at every choice of bits: both (n_layers, n_choices)."""

    names: tuple[str, ...]
    bits: tuple[int, ...]
    n_bytes: Floats
    harm: Floats


def kernel_bytes(kernel: Kernel, bits: int) -> float:
    """Return what a kernel takes: codes at their true width with one scale a channel, or its floats."""
    if bits == FLOAT:
        return 4.0 * kernel.size
    return kernel.size * bits / 8 + 4 * n_output_channels(kernel)


def allocate(table: LayerTable, limit: float) -> dict[str, int]:
    """Return the bits of each layer that do the least harm in sum while all bytes stay within `limit`.

    Raises UserError if even the fewest bits need more.
    """
    smallest = float(table.n_bytes.min(axis=1).sum())
    if smallest > limit:
        raise UserError(
            f"the layers need at least {smallest:,.0f} bytes even at {min(table.bits)} bits each, more than"
            f" the {limit:,.0f} that are left. Allow more memory."
        )
    price, known = _price(table, limit)
    most = float(table.harm[np.arange(len(known)), known].sum())
    front = _Front(table, limit, price, most * (1 - _CLOSE))
    found = front.picks() if front.grow() else known
    return {name: table.bits[pick] for name, pick in zip(table.names, found, strict=True)}


def _price(table: LayerTable, limit: float) -> tuple[float, NDArray[np.int64]]:
    """Return the price of a byte, in harm, at which layers that each take what is cheapest for them just stay
    within the limit, and what they take then, with the bytes left over given where they spare most.
    """
    low, high = 0.0, float(table.harm.max()) / max(float(np.diff(np.sort(table.n_bytes)).min()), 1e-9) + 1.0
    rows = np.arange(len(table.names))
    for _ in range(60):
        middle = (low + high) / 2
        picks = (table.harm + middle * table.n_bytes).argmin(axis=1)
        low, high = (low, middle) if table.n_bytes[rows, picks].sum() <= limit else (middle, high)
    picks = (table.harm + high * table.n_bytes).argmin(axis=1)
    while True:
        left = limit - table.n_bytes[rows, picks].sum()
        more = table.n_bytes - table.n_bytes[rows, picks][:, None]
        spared = np.where(more <= left, table.harm[rows, picks][:, None] - table.harm, 0.0)
        layer, pick = np.unravel_index(int(spared.argmax()), spared.shape)
        if spared[layer, pick] <= 0:
            return high, picks
        picks[layer] = pick


class _Front:
    """The divisions of bytes among the layers so far that none other beats in both bytes and harm, without
    those that the layers to come cannot bring below `most`, the harm of a division that is known to fit.
    """

    def __init__(self, table: LayerTable, limit: float, price: float, most: float) -> None:
        self._table, self._limit, self._price = table, limit, price
        self._most = most
        priced = (table.harm + price * table.n_bytes).min(axis=1)
        # what the layers from each one on need at least: bytes, and harm with every byte at its price
        self._least_bytes, self._least_priced = (
            np.append(least[::-1].cumsum()[::-1], 0.0) for least in (table.n_bytes.min(axis=1), priced)
        )
        self._bytes, self._harm = np.zeros(1), np.zeros(1)
        self._steps: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []

    def grow(self) -> bool:
        """Take in all layers; say whether a division is left."""
        for layer in range(len(self._table.names)):
            self._add(layer)
        return len(self._harm) > 0

    def _add(self, layer: int) -> None:
        """Take in one layer more, with each of its choices."""
        n_bytes = (self._bytes[:, None] + self._table.n_bytes[layer]).ravel()
        harm = (self._harm[:, None] + self._table.harm[layer]).ravel()
        at_least = harm + self._least_priced[layer + 1] - self._price * (self._limit - n_bytes)
        fits = n_bytes + self._least_bytes[layer + 1] <= self._limit
        kept = np.flatnonzero(fits & (at_least <= self._most))
        kept = kept[np.lexsort((harm[kept], n_bytes[kept]))]
        before = np.minimum.accumulate(np.append(np.inf, harm[kept]))[:-1]
        kept = kept[harm[kept] < before]
        if len(kept) > _WIDEST:
            kept = kept[np.linspace(0, len(kept) - 1, _WIDEST).astype(np.int64)]
        self._bytes, self._harm = n_bytes[kept], harm[kept]
        parents, picks = np.divmod(kept, len(self._table.bits))
        self._steps.append((parents, picks))

    def picks(self) -> list[int]:
        """Return the choice of every layer in the division of least harm."""
        place, found = int(self._harm.argmin()), []
        for parents, picks in reversed(self._steps):
            found.append(int(picks[place]))
            place = int(parents[place])
        return found[::-1]


def monotone(harm: Floats, bits: Sequence[int]) -> NDArray[np.float64]:
    """Return harm (n_layers, n_choices) that never grows with bits: a finer code cannot spoil more, only be
    measured so.
    """
    order = np.argsort(bits)[::-1]
    raised = np.maximum.accumulate(np.asarray(harm, np.float64)[:, order], axis=1)
    back = np.empty_like(raised)
    back[:, order] = raised
    return back
