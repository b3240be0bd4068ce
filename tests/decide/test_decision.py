"""The tables behind the pages, against the rules' own functions and hand-made cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.decide.choose import METHODS, RECOMMENDED, choose, statistics_of
from engine.decide.decision import decide, teacher_loss
from engine.decide.firmness import DRAWS, firmness_table
from engine.decide.tables import (
    CONTROLS,
    contenders,
    dial_table,
    family_table,
    group_of,
    iso_score_line,
    scale_premium,
)
from engine.predictions.file import make_predictions
from engine.rules.sampling import draw_sample
from engine.rules.supervised import sample_evidence
from engine.types import LabeledSample, Predictions


@pytest.fixture(scope="module")
def sample(family: Predictions) -> LabeledSample:
    return draw_sample(family.labels, 25, n_classes=10)


def test_decision_holds_every_rules_own_choice(family: Predictions, sample: LabeledSample) -> None:
    decision = decide(family, statistics_of(family), sample)
    assert set(decision.choices) == set(METHODS)
    for method, choice in decision.choices.items():
        assert choice.name == choose(method, family, sample).name
    assert decision.recommended.method == RECOMMENDED
    assert set(decision.rules["rule"]) == set(METHODS)
    assert decision.rules["group"].iloc[0] == "Recommended"


def test_the_labeled_rows_are_read_once_for_all_rules(
    family: Predictions, sample: LabeledSample, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def counted(*arguments: Any, **options: Any) -> Any:
        asked.append(arguments[2])
        return sample_evidence(*arguments, **options)

    monkeypatch.setattr("engine.decide.choose.sample_evidence", counted)
    pool, other = statistics_of(family), LabeledSample(sample.rows, (sample.labels + 1) % 10)
    decide(family, pool, sample, skip=("cot",))
    assert len(asked) == 1
    assert choose("val-ce", family, other, pool=pool).name == choose("val-ce", family, other).name
    assert len(asked) == 3


def test_candidate_columns_are_what_they_say(family: Predictions, sample: LabeledSample) -> None:
    table = decide(family, statistics_of(family), sample, skip=("cot",)).candidates
    probs = family.candidates[7].astype(np.float64)
    at = table.iloc[7]
    assert at["name"] == family.names[7]
    losses = [
        -np.log(max(probs[row, label], 1e-8)) for row, label in zip(sample.rows, sample.labels, strict=True)
    ]
    assert at["loss"] == pytest.approx(np.mean(losses))
    hits = [np.argmax(probs[row]) == label for row, label in zip(sample.rows, sample.labels, strict=True)]
    assert at["accuracy"] == pytest.approx(np.mean(hits))
    assert at["agreement"] == pytest.approx(
        np.mean(np.argmax(probs, axis=1) == np.argmax(family.teacher, axis=1))
    )
    assert at["confidence"] == pytest.approx(np.mean(probs.max(axis=1)))
    picked = {name for names in table["picked_by"] for name in names.split(", ") if name}
    assert picked == set(METHODS) - {"cot"}


def test_teacher_loss_by_hand() -> None:
    predictions = make_predictions(np.array([[0.5, 0.5], [0.2, 0.8]]), np.full((1, 2, 2), 0.5))
    sample = LabeledSample(np.array([0, 1]), np.array([0, 0]))
    assert teacher_loss(predictions, sample) == pytest.approx((np.log(2) + np.log(5)) / 2)
    assert teacher_loss(predictions, None) is None


def test_without_labels_only_label_free_rules_speak(family: Predictions) -> None:
    decision = decide(family, statistics_of(family), None, skip=("cot",))
    assert not {"val-ce", "ce-combo"} & set(decision.choices)
    assert decision.teacher_loss is None
    assert decision.candidates["loss"].isna().all()


def test_foreign_names_and_no_costs_still_decide(family: Predictions, sample: LabeledSample) -> None:
    foreign = make_predictions(family.teacher, family.candidates, labels=family.labels)
    decision = decide(foreign, statistics_of(foreign), sample, skip=("cot",))
    assert "highest-precision" not in decision.choices
    assert decision.candidates["bits"].isna().all()
    assert decision.cheapest is None


def test_budget_hides_scores_of_what_does_not_fit(family: Predictions, sample: LabeledSample) -> None:
    assert family.cost is not None
    fits = family.cost <= 0.3
    decision = decide(family, statistics_of(family), sample, fits, skip=("cot",))
    assert all(fits[choice.index] for choice in decision.choices.values())
    assert decision.candidates["score"].isna().to_numpy().tolist() == (~fits).tolist()
    assert all(fits[index] for index in decision.same)


def test_dial_repeats_algorithm_one_at_every_coefficient(family: Predictions, sample: LabeledSample) -> None:
    choice = choose("ce-combo", family, sample)
    dial = dial_table(choice)
    assert choice.anchor is not None
    assert choice.supervised is not None
    picks = [int(np.argmin(choice.anchor + c * choice.supervised)) for c in dial["coefficient"]]
    assert list(dial["index"]) == picks
    assert int(dial[dial["chosen"]]["index"].iloc[0]) == choice.index
    with pytest.raises(ValueError, match="no coefficient"):
        dial_table(choose("val-ce", family, sample))


def test_iso_score_line_has_one_score(family: Predictions, sample: LabeledSample) -> None:
    table = decide(family, statistics_of(family), sample, skip=("cot",)).candidates
    line = iso_score_line(table, 60, 0.5)
    score = table["distortion"][60] + 0.5 * table["loss"][60]
    assert np.allclose(line["distortion"] + 0.5 * line["loss"], score)
    vertical = iso_score_line(table, 60, 0.0)
    assert np.allclose(vertical["distortion"], table["distortion"][60])


def test_contenders_are_the_better_half_and_the_choice(family: Predictions, sample: LabeledSample) -> None:
    table = decide(family, statistics_of(family), sample, skip=("cot",)).candidates
    worst = table.loc[table["loss"].idxmax(), "name"]
    kept = contenders(table, worst)
    assert 36 <= len(kept) - 1 <= 40
    assert worst in set(kept["name"])


def test_family_table_reads_slugs() -> None:
    table = family_table(("b4-channel-q99.5-ends", "mine"), np.array([0.1, 0.2]), np.array([True, False]))
    assert table.iloc[0][["bits", "granularity", "percentile", "float_ends"]].tolist() == [
        4,
        "channel",
        99.5,
        True,
    ]
    assert table.iloc[1][["bits", "granularity"]].isna().all()


def test_every_method_has_a_group() -> None:
    groups = {group_of(method) for method in METHODS}
    assert groups == {"Recommended", "Anchored", "Direct validation", "Label-free", "Control"}
    assert all(group_of(control) == "Control" for control in CONTROLS)


def test_firmness_counts_kept_picks(family: Predictions, sample: LabeledSample) -> None:
    pool = statistics_of(family)
    seen: list[tuple[int, int]] = []
    still = firmness_table(
        family,
        pool,
        sample,
        0.0,
        rules=("val-ce", "val-acc"),
        on_progress=lambda *done: seen.append(done),
    )
    assert seen == [(draw, DRAWS) for draw in range(1, DRAWS + 1)]
    assert list(still["kept"]) == [1.0, 1.0]
    assert list(still["other"]) == ["", ""]
    shaken = firmness_table(family, pool, sample, 0.4, rules=("val-ce",)).iloc[0]
    assert shaken["pick"] == choose("val-ce", family, sample).name
    assert (shaken["kept"] * DRAWS) % 1 == pytest.approx(0)
    assert shaken["kept"] < 1
    assert shaken["other"] not in ("", shaken["pick"])


def test_what_finer_scales_cost_is_the_largest_difference_of_siblings():
    names = ("b4-tensor-q100", "b4-channel-q100", "b8-tensor-q100", "b8-channel-q100")
    table = family_table(names, np.array([0.1, 0.12, 0.2, 0.25]), np.ones(4, bool))
    assert scale_premium(table) == pytest.approx(0.05)
    assert np.isnan(scale_premium(table.iloc[[0, 2]]))
