"""How sure a calibrated choice is: posterior draws of every candidate's loss, and what follows from them.

Sees arrays only. Draws vary the hypothesis (by its posterior), the labeled sample and the pool (Bayesian
bootstrap); a pick is never changed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.recommend.calibrated import Calibrated
from engine.types import Bools, Floats

EPSILON = 0.05  # nats of cross-entropy that count as "as good as the best"
N_DRAWS = 512
# Hypotheses are a coarse grid and errors of a reference are shared by many rows: a posterior that took every
# label at full weight was overconfident on development families. These two were set there so that stated
# probabilities hold.
TEMPER = 0.25
SPREAD = 1.5
SURE = 0.9
_SAME = 0.05  # share of draws in which a candidate must match the pick to count as indistinguishable from it


@dataclass(frozen=True, eq=False)
class Doubt:
    """Chances and expected losses, one number per candidate (nan = not admissible).

    best: probability to have the lowest loss; close: to be within epsilon of it; regret: expected loss above
    the lowest. same: candidates that match the pick in at least 5 % of the draws, the pick included.
    """

    best: Floats
    close: Floats
    regret: Floats
    same: tuple[int, ...]
    epsilon: float


def draw_losses(
    verdict: Calibrated, *, penalty: Floats | None = None, n_draws: int = N_DRAWS, seed: int = 0
) -> Floats:
    """Return draws of every candidate's target loss, (n_draws, M).

    `penalty` (M,) is label-free evidence in nats that a rule adds; how much of it is true is drawn as well,
    from none to twice.
    """
    rng = np.random.default_rng(seed)
    weights = verdict.hypothesis_weights**TEMPER
    draws = verdict.expected[rng.choice(len(weights), n_draws, p=weights / weights.sum())]
    if penalty is not None:
        draws = draws + rng.uniform(0, 2, n_draws)[:, None] * penalty
    n = verdict.residuals.shape[1]
    if n == 0:
        return draws
    shares, others = rng.dirichlet(np.ones(n), (2, n_draws)) - 1 / n
    # The pool is a sample of the target too: its mean is as much surer than that of n images as it is larger.
    pool = np.sqrt(n / verdict.n_images) * others @ verdict.usual.T
    labels = verdict.kappa * (verdict.correction + SPREAD * shares @ verdict.residuals.T)
    return np.asarray(draws + SPREAD * pool + labels)


def doubt_of(
    losses: Floats, pick: int, *, admissible: Bools | None = None, epsilon: float = EPSILON
) -> Doubt:
    """Summarise draws (n_draws, M) of the candidates' losses around a pick."""
    usable = np.ones(losses.shape[1], dtype=np.bool_) if admissible is None else admissible
    above = np.where(usable, losses, np.inf)
    above = above - above.min(axis=1, keepdims=True)
    winners = np.bincount(above.argmin(axis=1), minlength=len(usable)) / len(losses)
    matches = np.mean(losses <= losses[:, [pick]] + 1e-12, axis=0)
    return Doubt(
        best=np.where(usable, winners, np.nan),
        close=np.where(usable, np.mean(above <= epsilon, axis=0), np.nan),
        regret=np.where(usable, np.mean(np.where(usable, above, 0), axis=0), np.nan),
        same=tuple(int(m) for m in np.flatnonzero(usable & (matches >= _SAME))),
        epsilon=epsilon,
    )


def recommendation(verdict: Calibrated, *, admissible: Bools | None = None) -> tuple[int, Doubt]:
    """Return the candidate that `auto` picks, and the doubt about it."""
    scores = verdict.recommended if admissible is None else np.where(admissible, verdict.recommended, np.inf)
    pick = int(np.argmin(scores))
    return pick, doubt_of(draw_losses(verdict, penalty=verdict.penalty), pick, admissible=admissible)


def cheapest_within(doubt: Doubt, pick: int, cost: Floats | None) -> int | None:
    """Return the cheapest candidate that is within epsilon of the best as surely as 90 % (or as the pick, if
    that is less sure).

    None without costs. Ties in cost go to the surer candidate.
    """
    if cost is None:
        return None
    enough = np.nan_to_num(doubt.close, nan=-1.0) >= min(SURE, doubt.close[pick])
    order = np.lexsort((-np.nan_to_num(doubt.close, nan=-1.0), cost))
    return int(next(m for m in order if enough[m]))


def doubt_record(doubt: Doubt, pick: int, cost: Floats | None) -> dict[str, Any]:
    """Return the doubt around a pick, JSON-ready."""
    return {
        "probability_best": [float(value) for value in doubt.best],
        "probability_close": [float(value) for value in doubt.close],
        "expected_regrets": [float(value) for value in doubt.regret],
        "expected_regret": float(doubt.regret[pick]),
        "indistinguishable": list(doubt.same),
        "epsilon": doubt.epsilon,
        "cheapest_within": cheapest_within(doubt, pick, cost),
    }
