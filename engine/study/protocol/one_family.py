"""The paper's protocol on one family: every rule, budget, corruption rate, memory budget and repetition, as
one tidy table.

Sees one family's predictions. Knows nothing of files, groups or tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from engine.decide.choose import admissible_under, choose, statistics_of
from engine.recommend.auto import AUTO, CALIBRATED, CALIBRATED_RULES, prepare
from engine.recommend.calibrated import calibrate
from engine.rules.anchors import anchor_scores
from engine.rules.label_free import HIGHEST_PRECISION, LABEL_FREE
from engine.rules.sampling import draw_subset
from engine.rules.statistics import PoolStatistics
from engine.rules.supervised import SUPERVISED
from engine.study.protocol.active import ACTIVE, active_samples
from engine.study.protocol.batch import Draws, Picks, PoolTerms, batch_evidence, batch_select, pool_terms
from engine.study.protocol.config import CORRUPTED_REPETITIONS, StudyConfig
from engine.study.protocol.noise import LabelNoise, label_noise
from engine.study.protocol.truth import Truth, measure_truth
from engine.types import UNLABELED, Bools, Floats, Ints, LabeledSample, Predictions, UserError

__all__ = ["COLUMNS", "StudyConfig", "run_family"]

COLUMNS = (
    "family",
    "rule",
    "n",
    "rate",
    "memory_budget",
    "repetition",
    "pick",
    "coefficient",
    "regret",
    "accuracy_regret",
)
_BATCH_VALUES = 3_000_000  # values per term gathered at once, which bounds a worker's memory


@dataclass(frozen=True)
class Cell:
    """A part of the protocol that can run on its own: one floor, and the draws of one number of labels, or
    what needs none (LABEL_FREE_CELL), or the labels that `label-next` asks for (ACTIVE_CELL).
    """

    floor: float
    n: int


LABEL_FREE_CELL, ACTIVE_CELL = 0, -1


def cells_of(config: StudyConfig) -> tuple[Cell, ...]:
    """Return the cells of a family, in the order of their rows."""
    active = (ACTIVE_CELL,) if ACTIVE in config.rules else ()
    return tuple(
        Cell(floor, n) for floor in config.floors for n in (LABEL_FREE_CELL, *sorted(config.budgets), *active)
    )


def run_family(
    predictions: Predictions,
    config: StudyConfig,
    *,
    name: str = "family",
    cells: Sequence[Cell] | None = None,
) -> pd.DataFrame:
    """Run the whole protocol on one family and return one row per outcome, with the columns COLUMNS.

    Label-free rules appear once, with n = 0, as does any other rule that can choose without labels. Regret is
    measured on the test part against the best admissible candidate. Budgets beyond the labeled pool and
    memory budgets that no candidate fits contribute no rows. Raises UserError without a test part.
    """
    parts = []
    wanted = set(cells_of(config) if cells is None else cells)
    for floor in config.floors:
        family = _Family(predictions, config, floor)
        outcomes = _Outcomes(family)
        if Cell(floor, LABEL_FREE_CELL) in wanted:
            _run_label_free(family, outcomes)
        for draws in family.draws([n for n in sorted(config.budgets) if Cell(floor, n) in wanted]):
            _run_supervised(family, draws, outcomes)
            _run_calibrated(family, draws, outcomes)
            _run_others(family, draws, outcomes)
        if Cell(floor, ACTIVE_CELL) in wanted:
            _run_active(family, outcomes)
        parts.append(outcomes.frame())
    return joined_rows(parts).assign(family=name)[list(COLUMNS)]


def joined_rows(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of several tables as one; an empty table has no types of its own to give."""
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True) if filled else parts[0]


@dataclass(frozen=True)
class _Family:
    """One family at one floor, with everything that the draws share."""

    predictions: Predictions
    config: StudyConfig
    floor: float

    @cached_property
    def truth(self) -> Truth:
        return measure_truth(self.predictions, floor=self.floor)

    @cached_property
    def noise(self) -> LabelNoise:
        return label_noise(self.config.noise, self.predictions, self.config.noise_matrix)

    @cached_property
    def pool(self) -> PoolStatistics:
        return statistics_of(self.predictions, floor=self.floor)

    @cached_property
    def terms(self) -> PoolTerms:
        return pool_terms(self.predictions.teacher, self.predictions.candidates, floor=self.floor)

    @cached_property
    def admissible(self) -> list[tuple[float | None, Ints]]:
        """Each memory budget that some candidate fits, with the indices of those that do."""
        fitting: list[tuple[float | None, Ints]] = []
        for budget in self.config.memory_budgets:
            if budget is None:
                fitting.append((None, np.arange(self.predictions.n_candidates)))
            elif self.predictions.cost is not None and np.any(self.predictions.cost <= budget):
                mask = admissible_under(self.predictions, budget)
                assert mask is not None
                fitting.append((budget, np.flatnonzero(mask)))
        return fitting

    def draws(self, sizes: Sequence[int]) -> Iterator[Draws]:
        """Yield batches of labeled samples of one of these sizes, few enough at a time to bound the memory.

        A repetition draws the same rows at every rate, so its rates stand side by side.
        """
        labeled = np.flatnonzero(self.predictions.labels != UNLABELED)
        for n in sizes:
            if n > len(labeled):
                continue
            counts = [(rate, self.config.repetitions_at(n, rate, len(labeled))) for rate in self.config.rates]
            cells = [
                (r, rate)
                for r in range(max(count for _, count in counts))
                for rate, count in counts
                if r < count
            ]
            size = max(1, _BATCH_VALUES // (n * self.predictions.n_candidates))
            for start in range(0, len(cells), size):
                yield _draw(labeled, self.noise, n, cells[start : start + size])

    def anchors(self, kind: str, draws: Draws) -> Floats:
        """(B, M): the anchor's scores for every draw."""
        teacher = self.predictions.teacher
        if kind in ("pool", "cot"):  # these do not look at the labeled sample
            first = LabeledSample(draws.rows[0], draws.labels[0])
            row = anchor_scores(kind, teacher, self.pool, first, floor=self.floor)
            return np.broadcast_to(row, (len(draws.rows), len(row)))
        rows = [
            anchor_scores(kind, teacher, self.pool, sample, floor=self.floor, repetition=r)
            for sample, r in _samples(draws)
        ]
        return np.stack(rows)

    def mask(self, usable: Ints) -> Bools:
        mask = np.zeros(self.predictions.n_candidates, dtype=np.bool_)
        mask[usable] = True
        return mask


def _draw(labeled: Ints, noise: LabelNoise, n: int, cells: list[tuple[int, float]]) -> Draws:
    subsets = {r: labeled[draw_subset(len(labeled), n, r)] for r in {r for r, _ in cells}}
    rows = np.stack([subsets[r] for r, _ in cells])
    observed = np.stack([noise.corrupt(subsets[r], rate, r) for r, rate in cells])
    return Draws(
        rows=rows,
        labels=observed,
        repetitions=np.array([r for r, _ in cells]),
        rates=np.array([rate for _, rate in cells]),
    )


def _samples(draws: Draws) -> Iterator[tuple[LabeledSample, int]]:
    for rows, labels, repetition in zip(draws.rows, draws.labels, draws.repetitions, strict=True):
        yield LabeledSample(rows, labels), int(repetition)


@dataclass(frozen=True)
class _Outcomes:
    """Collects columns as arrays; one table is made at the end, which is far cheaper than many small ones."""

    family: _Family
    parts: list[dict[str, object]] = field(default_factory=list)

    def add(self, rule: str, picks: Picks, budget: float | None, usable: Ints, draws: Draws | None) -> None:
        truth, n_rows = self.family.truth, len(picks.candidates)
        zeros = np.zeros(n_rows, dtype=np.int64)
        suffix = "" if self.family.floor == self.family.config.floors[0] else f"@floor={self.family.floor:g}"
        self.parts.append(
            {
                "rule": np.full(n_rows, rule + suffix, dtype=object),
                "n": np.full(n_rows, draws.n if draws else 0),
                "rate": draws.rates if draws else zeros.astype(np.float64),
                "memory_budget": np.full(n_rows, np.nan if budget is None else budget),
                "repetition": draws.repetitions if draws else zeros,
                "pick": picks.candidates,
                "coefficient": picks.coefficients,
                "regret": truth.loss[picks.candidates] - truth.loss[usable].min(),
                "accuracy_regret": truth.accuracy[usable].max() - truth.accuracy[picks.candidates],
            }
        )

    def frame(self) -> pd.DataFrame:
        names = [column for column in COLUMNS if column != "family"]
        if not self.parts:
            return pd.DataFrame(columns=names)
        return pd.DataFrame({name: np.concatenate([part[name] for part in self.parts]) for name in names})


# --- the kinds of rules -----------------------------------------------------------------


def _run_label_free(family: _Family, outcomes: _Outcomes) -> None:
    """Label-free rules, and whatever other rule is willing to choose without labels."""
    for budget, usable in family.admissible:
        for rule in family.config.rules:
            if rule in SUPERVISED or rule == ACTIVE:
                continue
            try:
                choice = choose(
                    rule,
                    family.predictions,
                    pool=family.pool,
                    admissible=family.mask(usable),
                    floor=family.floor,
                )
            except UserError:
                if rule in LABEL_FREE:
                    raise
                continue  # it needs labels; or neither names nor costs tell this family's precision
            outcomes.add(rule, Picks(np.array([choice.index]), np.array([np.nan])), budget, usable, None)


def _run_supervised(family: _Family, draws: Draws, outcomes: _Outcomes) -> None:
    rules = [rule for rule in family.config.rules if rule in SUPERVISED]
    if not rules:
        return
    teacher, candidates = family.predictions.teacher, family.predictions.candidates
    control = "permutation-control" in rules
    evidence = batch_evidence(teacher, candidates, family.terms, draws, floor=family.floor, control=control)
    for anchor in ("pool", *(kind for kind in family.config.anchors if kind != "pool")):
        base = family.anchors(anchor, draws)
        for rule in rules:
            if anchor != "pool" and SUPERVISED[rule].grid is None:
                continue  # direct validation has no anchor to vary
            for budget, usable in family.admissible:
                name = rule if anchor == "pool" else f"{rule}@{anchor}"
                outcomes.add(name, batch_select(rule, evidence, base, usable), budget, usable, draws)


def _run_calibrated(family: _Family, draws: Draws, outcomes: _Outcomes) -> None:
    """The calibrated rules share one verdict per draw, whatever the memory budget; a study has no use for
    their doubt.
    """
    rules = [rule for rule in family.config.rules if rule in CALIBRATED_RULES]
    if not rules:
        return
    prepared = prepare(family.predictions, family.pool, floor=family.floor)
    verdicts = [calibrate(prepared, sample, family.config.label_trust) for sample, _ in _samples(draws)]
    coefficients = np.array([verdict.kappa for verdict in verdicts])
    scores = {
        CALIBRATED: np.stack([verdict.scores for verdict in verdicts]),
        AUTO: np.stack([verdict.recommended for verdict in verdicts]),
    }
    for budget, usable in family.admissible:
        for rule in rules:
            best = usable[np.argmin(scores[rule][:, usable], axis=1)]
            outcomes.add(rule, Picks(best, coefficients), budget, usable, draws)


def _run_others(family: _Family, draws: Draws, outcomes: _Outcomes) -> None:
    """Any other rule of METHODS goes through the entry that app and command line use, a draw at a time."""
    for rule in family.config.rules:
        if rule in (*SUPERVISED, *CALIBRATED_RULES, *LABEL_FREE, HIGHEST_PRECISION, ACTIVE):
            continue
        for budget, usable in family.admissible:
            choices = [
                choose(
                    rule,
                    family.predictions,
                    sample,
                    pool=family.pool,
                    admissible=family.mask(usable),
                    floor=family.floor,
                    repetition=r,
                )
                for sample, r in _samples(draws)
            ]
            coefficients = [
                np.nan if choice.coefficient is None else choice.coefficient for choice in choices
            ]
            picks = Picks(np.array([choice.index for choice in choices]), np.array(coefficients))
            outcomes.add(rule, picks, budget, usable, draws)


def _run_active(family: _Family, outcomes: _Outcomes) -> None:
    """The recommendation on labels that `label-next` asked for, as many repetitions as with wrong labels:
    each takes many verdicts.
    """
    if ACTIVE not in family.config.rules:
        return
    prepared = prepare(family.predictions, family.pool, floor=family.floor)
    labeled, config = np.flatnonzero(family.predictions.labels != UNLABELED), family.config
    for rate in config.rates:
        for repetition in range(config.repetitions or CORRUPTED_REPETITIONS):
            # Wrong labels are drawn once for the whole pool: asking earlier or later does not change them.
            observed = family.predictions.labels.copy()
            observed[labeled] = family.noise.corrupt(labeled, rate, repetition)
            for sample in active_samples(
                prepared, observed, config.budgets, seed=repetition, trust=config.label_trust
            ):
                if repetition >= config.repetitions_at(sample.n, rate, len(labeled)):
                    continue
                verdict = calibrate(prepared, sample, config.label_trust)
                draws = Draws(
                    rows=sample.rows[None],
                    labels=sample.labels[None],
                    repetitions=np.array([repetition]),
                    rates=np.array([rate]),
                )
                for budget, usable in family.admissible:
                    best = usable[[int(np.argmin(verdict.recommended[usable]))]]
                    outcomes.add(ACTIVE, Picks(best, np.array([verdict.kappa])), budget, usable, draws)
