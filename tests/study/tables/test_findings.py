"""Findings in words: each sentence on outcomes made up so that the answer is known, and on none at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.study.protocol.result import StudyResult
from engine.study.tables import findings
from tests.study.tables.test_regret import made_up, outcome


def study(combo: dict[int, float], direct: dict[int, float], rate: float = 0.0) -> StudyResult:
    """One family in which the two rules have these regrets by number of labels."""
    rows = [outcome("a", "distortion", 0, 0.5, pick=2)]
    for rule, regrets in (("ce-combo", combo), ("val-ce", direct)):
        rows += [
            outcome("a", rule, n, regret, rate=wrong, coefficient=0.0)
            for n, regret in regrets.items()
            for wrong in {0.0, rate}
        ]
    return made_up(rows)


def test_nothing_found_is_said_plainly() -> None:
    free = made_up([outcome("a", "distortion", 0, 0.5, pick=2)])
    empty = replace(free, candidates=free.candidates[:0], attenuation=free.attenuation[:0])
    said = {
        findings.budgets(free): "Mean regret by number of labels",
        findings.families(free): "Mean regret, family by family",
        findings.corruption(free): "Mean regret under wrong labels",
        findings.paired(free): "Paired differences",
        findings.coefficients(free): "Coefficients chosen by cross-validation",
        findings.regimes(empty): "Confidence against accuracy",
        findings.attenuation(empty): "Attenuation under wrong labels",
        findings.smallest(replace(free, results=free.results[:0])): "No rule was run",
    }
    assert all(got == expected for got, expected in said.items()), said


@pytest.mark.parametrize(
    ("combo", "direct", "sentence"),
    [
        ({10: 0.1, 50: 0.1}, {10: 0.2, 50: 0.2}, "lowers mean regret at every number of labels"),
        ({10: 0.3, 50: 0.1}, {10: 0.2, 50: 0.1}, "does not lower mean regret at any number"),
        (
            {10: 0.1, 25: 0.1, 50: 0.3},
            {10: 0.2, 25: 0.2, 50: 0.2},
            "lowers mean regret at 10 and 25 labels and raises it at 50",
        ),
    ],
)
def test_where_anchoring_helps(combo: dict[int, float], direct: dict[int, float], sentence: str) -> None:
    assert sentence in findings.budgets(study(combo, direct))


def test_a_study_without_right_labels_says_how_many_were_wrong() -> None:
    rows = [outcome("a", "distortion", 0, 0.5, pick=2)]
    for rule, regret in (("ce-combo", 0.1), ("val-ce", 0.2)):
        rows += [outcome("a", rule, 10, regret, rate=rate, coefficient=0.0) for rate in (0.2, 0.4)]
    said = findings.families(made_up(rows))
    assert said.startswith("With 10 labels, 20 % of them wrong, the anchored rule does better")


def test_families_and_wrong_labels_are_counted() -> None:
    result = study({10: 0.1, 50: 0.4}, {10: 0.2, 50: 0.2}, rate=0.4)
    assert findings.families(result).endswith("better than direct validation in 1 of 1 family")
    assert "beats direct validation in 1 of 2 cells" in findings.corruption(result)
    assert "100 % of outcomes with 10 labels" in findings.coefficients(result)


def test_the_best_rule_and_the_best_without_labels() -> None:
    assert (
        "ce-combo, 0.100, with 10 labels; the best label-free rule is distortion, 0.500"
        in findings.smallest(study({10: 0.1}, {10: 0.2}))
    )
    assert findings.smallest(study({10: 0.9}, {10: 0.8})).endswith("distortion, 0.500, without labels")


def test_confidence_is_a_trap_or_a_hint() -> None:
    result = study({10: 0.1}, {10: 0.2})
    assert "in every family: confidence misleads" in findings.regimes(result)
    honest = result.candidates.assign(confidence=1 - result.candidates["loss"] / 10)
    assert "In no family is the worst candidate more confident" in findings.regimes(
        replace(result, candidates=honest)
    )


def test_what_was_asked_for_and_did_not_run_is_said() -> None:
    result = study({10: 0.1}, {10: 0.2})
    asked: dict[str, Any] = {
        "budgets": [10, 5000],
        "rules": ["val-ce", "alignment"],
        "memory_budgets": [None, 0.01],
    }
    sentences = " ".join(findings.summary(replace(result, metadata={"config": asked})))
    assert "No family has as many labels as 5000" in sentences
    assert "no result for alignment" in sentences
    assert "No candidate fits a memory budget of 0.01" in sentences
    assert "already the best in 0 of 1 family" in sentences


def test_a_memory_budget_has_its_price() -> None:
    result = study({10: 0.1}, {10: 0.2})
    # the candidates cost .1, .2 and .3 of float and lose 5.0, 1.0 and 1.5 nats: .22 still holds the best
    assert findings.cost(result) == "A budget of 22 % of float memory costs 0.000 nats on average"
    costless = result.candidates.assign(cost=np.nan)
    assert findings.cost(replace(result, candidates=costless)) == "Loss within a memory budget"
