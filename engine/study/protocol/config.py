"""What a study varies: budgets, corruption rates, rules, memory budgets, anchors and floors, checked once.

Knows the paper's settings. Knows nothing of predictions or files.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from engine.decide.choose import METHODS, PEERS
from engine.rules.anchors import ANCHORS
from engine.rules.statistics import FLOOR
from engine.study.protocol.active import ACTIVE
from engine.study.protocol.noise import MATRIX, NOISE_KINDS, UNIFORM
from engine.types import LABEL_TRUSTS, LabelTrust, UserError

CLEAN_REPETITIONS, CORRUPTED_REPETITIONS = 25, 10  # the paper's


STUDY_RULES = (*METHODS, *PEERS, ACTIVE)


@dataclass(frozen=True)
class StudyConfig:
    """What a study varies. Seeds are fixed by `engine.rules.sampling`: the same config gives the same table,
    to the bit.

    rules are names of `engine.decide.choose.METHODS`, or `auto-active`: `auto` on labels that `label-next`
    asked for (slower, so not by default). memory_budgets are shares of the float teacher, None = no limit.
    anchors beside "pool" add the anchored rules as `ce-combo@sample` and so on; floors beside the first,
    which serves as the main one, add every rule as `ce-combo@floor=1e-12`. repetitions None means the
    paper's: 25 with clean labels, 10 with corrupted ones; the complete pool with clean labels is evaluated
    once in any case. noise is how labels go wrong at those rates, see `NOISE_KINDS`; noise_matrix holds the
    weights of wrong classes, a row per true class, for the kind "matrix". label_trust is what the
    recommendation is told of the labels.
    """

    budgets: tuple[int, ...] = (10, 25, 50, 100, 150, 300)
    rates: tuple[float, ...] = (0.0,)
    rules: tuple[str, ...] = METHODS
    repetitions: int | None = None
    memory_budgets: tuple[float | None, ...] = (None,)
    anchors: tuple[str, ...] = ("pool",)
    floors: tuple[float, ...] = (FLOOR,)
    noise: str = UNIFORM
    noise_matrix: tuple[tuple[float, ...], ...] | None = None
    label_trust: LabelTrust = "normal"

    def __post_init__(self) -> None:
        for name in ("budgets", "rates", "rules", "memory_budgets", "anchors", "floors"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise UserError(
                    f"{name.replace('_', ' ')} must list at least one value and none twice, got"
                    f" {list(values)}. Correct the list."
                )
        _refuse_unknown("rule", self.rules, STUDY_RULES)
        _refuse_unknown("anchor", self.anchors, ANCHORS)
        _refuse_unknown("noise", (self.noise,), NOISE_KINDS)
        _refuse_unknown("label trust", (self.label_trust,), LABEL_TRUSTS)
        if (self.noise == MATRIX) != (self.noise_matrix is not None):
            raise UserError(
                f"the noise is {self.noise!r} and {'no' if self.noise_matrix is None else 'a'} matrix is"
                " given.",
                "Give a matrix with the noise that is drawn from one, and with no other.",
                option="noise",
            )
        if min(self.budgets) < 1:
            raise UserError(
                f"a label budget is {min(self.budgets)}; each must be a whole number from 1. Label-free rules"
                " need no budget."
            )
        if not all(0 <= rate < 1 for rate in self.rates):
            raise UserError(
                f"corruption rates are {list(self.rates)}; each must be at least 0 and below 1, e.g. 0.2."
            )
        if not all(limit is None or limit > 0 for limit in self.memory_budgets):
            raise UserError(
                f"memory budgets are {list(self.memory_budgets)}; each must be a positive share of the float"
                " teacher, e.g. 0.22."
            )
        if not all(0 < floor < 0.1 for floor in self.floors):
            raise UserError(f"floors are {list(self.floors)}; each must lie between 0 and 0.1, e.g. 1e-8.")
        if self.repetitions is not None and self.repetitions < 1:
            raise UserError(f"repetitions is {self.repetitions}; at least 1 is needed.")

    def repetitions_at(self, n: int, rate: float, n_pool: int) -> int:
        """How many samples of n labels are drawn at a corruption rate from n_pool labeled rows."""
        if rate == 0 and n == n_pool:
            return 1
        return self.repetitions or (CORRUPTED_REPETITIONS if rate > 0 else CLEAN_REPETITIONS)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def _refuse_unknown(what: str, given: tuple[str, ...], known: Collection[str]) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        raise UserError(f"unknown {what} {unknown[0]!r}. Use any of: {', '.join(known)}.")
