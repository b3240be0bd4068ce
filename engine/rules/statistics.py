"""The statistics of a family's pool that label-free rules share: computed when asked for, several in one
pass.

Knows which statistics there are and which of them a pass must still make. How a pass streams over blocks of
rows is in `streaming`, optimal transport in `transport`. Knows nothing of rules or picks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from engine.rules.streaming import STATISTICS, row_tops, stream
from engine.rules.transport import optimal_transport, transport_cost
from engine.types import FLOOR as FLOOR
from engine.types import Bools, Floats, Ints, Progress

# every statistic that a pass makes; a rule names those it needs
DISTORTION, BY_ROW, CORRELATION, SPECTRUM = STATISTICS
TRANSPORT = "transport"  # none of a pass; made elsewhere, it can be taken over


@dataclass(frozen=True, eq=False)
class PoolStatistics:
    """What the label-free rules need of teacher (N, K) and candidates (M, N, K), each made on first use.

    `need` makes several in one pass; a property that was not asked for before makes its own. `calibration`
    leading rows form the calibration split; the whole pool serves if that split is empty.
    """

    teacher: Floats
    candidates: Floats
    calibration: int
    floor: float = FLOOR
    # what a rule prepared from this pool, so that it is done once
    memo: dict[str, Any] = field(default_factory=dict, repr=False)
    _made: dict[str, Any] = field(default_factory=dict, repr=False)

    def need(self, *statistics: str, on_progress: Progress | None = None) -> None:
        """Make those of DISTORTION, BY_ROW, CORRELATION and SPECTRUM that are not there yet, in one pass."""
        missing = frozenset(statistics) - self._made.keys()
        if missing:
            self._made.update(
                stream(self.teacher, self.candidates, missing, floor=self.floor, on_progress=on_progress)
            )

    def take(self, made: Mapping[str, Any]) -> None:
        """Take over statistics that were made elsewhere: as `stream` returns them, or TRANSPORT (M,)."""
        self._made.update(made)

    def _get(self, statistic: str) -> Any:
        self.need(statistic)
        return self._made[statistic]

    @property
    def calibration_rows(self) -> slice:
        return slice(0, self.calibration or None)

    @property
    def distortion(self) -> Floats:
        """(M,) mean KL(p_f ‖ p_g) of the floored probabilities."""
        return np.asarray(self._get(DISTORTION))

    @property
    def confidence(self) -> Floats:
        """(M, N) largest probability of each row."""
        return np.asarray(self._get(BY_ROW).confidence)

    @property
    def neg_entropy(self) -> Floats:
        """(M, N) Σ q log q of each row."""
        return np.asarray(self._get(BY_ROW).neg_entropy)

    @property
    def predicted(self) -> Ints:
        """(M, N) class of the largest probability."""
        return np.asarray(self._get(BY_ROW).predicted)

    @cached_property
    def teacher_tops(self) -> tuple[Ints, Floats]:
        """(N,) the teacher's class on every row, and (N,) its probability."""
        return row_tops(self.teacher)

    @cached_property
    def agrees(self) -> Bools:
        """(M, N) whether that is the teacher's class."""
        return np.asarray(self.predicted == self.teacher_tops[0])

    @property
    def gram_trace(self) -> Floats:
        """(M,) trace of the Gram matrix QᵀQ (K, K) of the floored probabilities."""
        return np.asarray(self._get(CORRELATION).trace)

    @property
    def gram_norm(self) -> Floats:
        """(M,) Frobenius norm of the Gram matrix."""
        return np.asarray(self._get(CORRELATION).norm)

    @property
    def spectrum_sum(self) -> Floats:
        """(M,) sum of the singular values of Q."""
        return np.asarray(self._get(SPECTRUM))

    @cached_property
    def transport(self) -> Floats:
        """(M,) optimal transport costs; by far the slowest statistic, hence computed only when asked for."""
        if TRANSPORT in self._made:
            return np.asarray(self._made[TRANSPORT])
        optimal_transport()  # import once, before the threads
        # The solver releases the interpreter lock, so candidates are solved side by side.
        with ThreadPoolExecutor(os.cpu_count()) as workers:
            return np.fromiter(
                workers.map(transport_cost, self.candidates), dtype=np.float64, count=len(self.candidates)
            )


def pool_statistics(
    teacher: Floats, candidates: Floats, *, calibration: int | None = None, floor: float = FLOOR
) -> PoolStatistics:
    """Return the statistics of teacher (N, K) and candidates (M, N, K) probabilities; nothing is read yet."""
    split = candidates.shape[1] // 2 if calibration is None else calibration
    return PoolStatistics(teacher=teacher, candidates=candidates, calibration=split, floor=floor)
