"""Which layer gets how many bits: the exact solution for a memory limit, from what each layer's bits cost and
spoil.

Knows numbers only. Where they are measured is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from engine.family.quantize import n_output_channels
from engine.types import Floats, Kernel, UserError

CHOICES: tuple[int, ...] = (2, 3, 4, 5, 6, 8)
FLOAT = 32  # bits of a layer that is left alone
_SECONDS = 20.0  # for the solver; a gap left then is below what the measurement can tell


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
    n_layers, n_choices = table.harm.shape
    harm = np.asarray(table.harm, np.float64)
    one_each = csr_array(np.kron(np.eye(n_layers), np.ones(n_choices)))
    found = milp(
        harm.ravel() / max(harm.max(), 1e-300),  # the solver's tolerances are absolute
        integrality=np.ones(harm.size, np.int64),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(one_each, 1, 1),
            LinearConstraint(table.n_bytes.reshape(1, -1) / limit, -np.inf, 1),
        ],
        options={"time_limit": _SECONDS, "mip_rel_gap": 1e-6},
    )
    if found.x is None:
        raise UserError("the bits could not be divided among the layers in time. Use a uniform candidate.")
    picks: NDArray[np.int64] = found.x.reshape(n_layers, n_choices).argmax(axis=1)
    return {name: table.bits[pick] for name, pick in zip(table.names, picks, strict=True)}


def monotone(harm: Floats, bits: Sequence[int]) -> NDArray[np.float64]:
    """Return harm (n_layers, n_choices) that never grows with bits: a finer code cannot spoil more, only be
    measured so.
    """
    order = np.argsort(bits)[::-1]
    raised = np.maximum.accumulate(np.asarray(harm, np.float64)[:, order], axis=1)
    back = np.empty_like(raised)
    back[:, order] = raised
    return back
