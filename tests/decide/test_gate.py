"""The gate: hand-worked drops, the words of its answer, and that stated confidence is kept on real
families.
"""

import numpy as np
import pytest
from scipy import stats

from engine.decide.choose import statistics_of
from engine.decide.drop import IMAGINED, Evidence, class_drop, readings
from engine.decide.gate import Question, costs, gate, gate_candidate, gate_statement
from engine.predictions.file import load_sample_predictions, make_predictions
from engine.rules.sampling import draw_subset
from engine.study.protocol.noise import label_noise
from engine.types import LabeledSample, LabelTrust, Predictions
from tests.families import random_family


def clean(belief: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> Evidence:
    return Evidence(
        belief=belief, sample=LabeledSample(rows, labels), rates=np.zeros(1), rate_weights=np.ones(1)
    )


def test_costs_by_hand() -> None:
    probs = np.array([[0.5, 0.25, 0.25], [0.0, 0.9, 0.1]])
    np.testing.assert_allclose(costs(probs, "loss")[0], [np.log(2), np.log(4), np.log(4)])
    assert costs(probs, "loss")[1, 0] == pytest.approx(-np.log(1e-8))
    np.testing.assert_array_equal(costs(probs, "accuracy"), [[0, 1, 1], [1, 0, 1]])


def test_with_a_flat_expectation_it_is_the_t_interval_of_the_labels() -> None:
    """Nothing to expect and nothing imagined beyond the labels' own variance: Student's interval with 8
    more.
    """
    rng = np.random.default_rng(0)
    n, labels = 400, rng.integers(0, 2, 400)
    drop = np.tile([0.3, -0.1], (n, 1))  # the same whatever the image: the label alone decides
    belief = np.full((n, 2), 0.5)
    reading = readings(drop, clean(belief, np.arange(n), labels))
    seen = drop[np.arange(n), labels]
    variance = (((seen - seen.mean()) ** 2).sum() + IMAGINED * 0.04) / (n - 1 + IMAGINED)
    expected = seen.mean() + stats.t.ppf(0.9, n - 1 + IMAGINED) * np.sqrt(variance / n)
    assert reading.bound(0.9) == pytest.approx(expected)
    assert reading.below(expected) == pytest.approx(0.9)
    assert reading.centre() == pytest.approx(seen.mean())


def test_wrong_labels_hide_a_drop_of_accuracy_and_that_is_undone() -> None:
    """At 30 % errors among 4 classes a drop shows only 0.6 of itself; the corrected reading restores it."""
    rng = np.random.default_rng(1)
    n = 4000
    labels, hit = rng.integers(0, 4, n), rng.random(n) < 0.5
    teacher, candidate = np.eye(4)[labels], np.eye(4)[np.where(hit, labels, (labels + 1) % 4)]
    drop = costs(candidate, "accuracy") - costs(teacher, "accuracy")
    observed = np.where(rng.random(n) < 0.3, (labels + rng.integers(1, 4, n)) % 4, labels)
    evidence = Evidence(
        belief=np.full((n, 4), 0.25),
        sample=LabeledSample(np.arange(n), observed),
        rates=np.array([0.3]),
        rate_weights=np.ones(1),
    )
    reading = readings(drop, evidence)
    assert reading.as_given[0].mean == pytest.approx(0.6 * (~hit).mean(), abs=0.03)
    assert reading.corrected[0].mean == pytest.approx((~hit).mean(), abs=0.04)
    assert reading.bound(0.9) > (~hit).mean() - 0.02


@pytest.mark.parametrize("against", ["teacher", "best"])
def test_a_pool_too_large_to_hold_is_read_in_part(against: str, monkeypatch: pytest.MonkeyPatch) -> None:
    family = load_sample_predictions("digits-resnet")
    pool, rows = statistics_of(family), draw_subset(family.n_images, 40)
    question = Question(max_drop=0.05, against=against)  # type: ignore[arg-type]
    given = family, pool, LabeledSample(rows, family.labels[rows]), 60, question
    whole = gate_candidate(*given)
    monkeypatch.setattr("engine.decide.gate._POOL_VALUES", family.n_classes * family.n_images // 3)
    part = gate_candidate(*given)
    assert part.drop.n == whole.drop.n == 40
    assert part.per_class == whole.per_class
    assert part.drop != whole.drop
    for name in ("estimate", "low", "high"):
        assert getattr(part.drop, name) == pytest.approx(getattr(whole.drop, name), abs=0.03)


def test_one_class_by_hand() -> None:
    values = np.array([1.0, 2.0, 3.0])
    found = class_drop(values, 1.0, 0.9)
    assert found is not None
    reach = stats.t.ppf(0.9, 2 + IMAGINED) * np.sqrt((2 + IMAGINED) / (2 + IMAGINED) / 3)
    assert (found.estimate, found.n) == (2.0, 3)
    assert (found.low, found.high) == (pytest.approx(2 - reach), pytest.approx(2 + reach))
    assert class_drop(np.empty(0), 1.0, 0.9) is None


@pytest.mark.parametrize(("max_drop", "status"), [(0.5, "holds"), (0.2, "unknown"), (0.0, "fails")])
def test_three_answers_and_their_sentences(max_drop: float, status: str) -> None:
    rng = np.random.default_rng(2)
    n = 100
    drop = np.repeat(rng.normal(0.2, 0.3, (n, 1)), 2, axis=1)
    evidence = clean(np.full((n, 2), 0.5), np.arange(0, n, 2), np.zeros(n // 2, np.int64))
    answer = gate(Question(max_drop=max_drop), [drop], evidence, "checked")
    assert answer.status == status
    sentence = gate_statement(answer, candidate="b4")
    assert "the teacher" in sentence
    assert "than v7" in gate_statement(answer, candidate="b4", reference="candidate:v7")
    assert sentence.startswith("Signed off:" if status == "holds" else "Not signed off")
    assert "50 labels checked by an expert" in sentence
    assert (answer.more_labels is not None) == ("more labels would tell" in sentence)
    assert (answer.probability >= 0.9) == (status == "holds")


def test_the_number_of_labels_that_would_tell_does_tell() -> None:
    rng = np.random.default_rng(3)
    n = 3000
    drop = np.repeat(rng.normal(0.1, 0.5, (n, 1)), 2, axis=1)
    belief, zeros = np.full((n, 2), 0.5), np.zeros(n, np.int64)
    # Belief that does not know the drop: the labels must tell, as their own values do here.
    few = gate(Question(max_drop=0.15), [drop], clean(belief, np.arange(40), zeros[:40]))
    assert few.status != "unknown" or few.more_labels is not None


def test_against_the_best_every_rival_counts() -> None:
    family = random_family(3, n_images=400)
    sample = LabeledSample(np.arange(150), family.labels[:150])
    pool = statistics_of(family)
    one = gate_candidate(family, pool, sample, 3, Question(max_drop=0.1, against="best"), trust="checked")
    losses = costs_at(family, sample)
    assert one.drop.high >= losses[3] - losses.min() - 0.05
    best = int(np.argmin(losses))
    own = gate_candidate(family, pool, sample, best, Question(max_drop=5, against="best"), trust="checked")
    assert own.status == "holds"
    assert own.drop.estimate >= 0


def costs_at(family: Predictions, sample: LabeledSample) -> np.ndarray:
    return np.array([costs(p, "loss")[sample.rows, sample.labels].mean() for p in family.candidates])


def test_a_candidate_that_stands_alone_is_the_best() -> None:
    family = random_family(4, n_images=100)
    alone = make_predictions(family.teacher, family.candidates[:1], labels=family.labels)
    sample = LabeledSample(np.arange(20), family.labels[:20])
    answer = gate_candidate(alone, statistics_of(alone), sample, 0, Question(0.0, against="best"))
    assert (answer.status, answer.drop.high) == ("holds", pytest.approx(0, abs=1e-9))


# Each world: a shipped family, how labels go wrong, how often, and what the gate is told of them.
WORLDS: list[tuple[str, str, float, LabelTrust]] = [
    ("digits-resnet", "uniform", 0.0, "checked"),
    ("digits-vit", "uniform", 0.0, "normal"),
    ("pacs-cartoon", "uniform", 0.0, "checked"),
    ("pacs-sketch", "uniform", 0.0, "normal"),
    ("digits-mobilenet", "uniform", 0.2, "normal"),
    ("digits-resnet", "confusion", 0.2, "crowd"),
    ("digits-vit", "disagreement", 0.1, "crowd"),
    ("digits-mobilenet", "annotators", 0.2, "crowd"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind", "rate", "trust"), WORLDS)
def test_stated_confidence_is_kept(name: str, kind: str, rate: float, trust: LabelTrust) -> None:
    """At 90 % the true drop on the test part lies below the bound in at least 88 % of draws, over
    candidates.
    """
    family = load_sample_predictions(name)
    assert family.candidates_test is not None
    assert family.labels_test is not None
    assert family.teacher_test is not None
    noise, pool, rows = label_noise(kind, family), statistics_of(family), np.arange(len(family.labels_test))
    truth = costs(family.teacher_test, "loss")[rows, family.labels_test].mean()
    right = []
    for repetition in range(6):
        chosen = draw_subset(family.n_images, 60, repetition)
        sample = LabeledSample(chosen, noise.corrupt(chosen, rate, repetition))
        for index in range(0, family.n_candidates, 9):
            drop = costs(family.candidates_test[index], "loss")[rows, family.labels_test].mean() - truth
            answer = gate_candidate(family, pool, sample, index, Question(max_drop=0.02), trust=trust)
            right.append(drop <= answer.drop.high)
    assert np.mean(right) >= 0.88
