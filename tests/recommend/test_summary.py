"""What a verdict says it follows, in every world: children, peers, many labels, and labels checked by an
expert.
"""

import numpy as np
import pytest

from engine.decide.choose import choose
from engine.predictions.file import make_predictions
from engine.recommend.hypotheses import kinship
from engine.types import LabeledSample, Predictions
from tests.families import softmax


def family(seed: int, *, peers: bool) -> Predictions:
    """Candidates that are the teacher with a little noise, or models of their own; the teacher's peer is
    wrong.
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 5, 300)
    truth = 3.0 * np.eye(5)[labels]
    teacher = truth + 2.5 * rng.normal(size=truth.shape)
    if peers:
        logits = truth + 1.5 * rng.normal(size=(8, *truth.shape))
    else:
        logits = teacher + np.linspace(0.02, 1.5, 8)[:, None, None] * rng.normal(size=(8, *truth.shape))
    return make_predictions(softmax(teacher), softmax(logits), labels=labels)


def labeled(predictions: Predictions, n: int) -> LabeledSample:
    return LabeledSample(np.arange(n), predictions.labels[:n])


def test_kinship_by_hand() -> None:
    assert kinship(np.array([0.0, 0.05, 3.0])) == pytest.approx(np.exp(-1))
    assert kinship(np.array([0.0, 0.0])) == 1
    assert kinship(np.array([0.0, 2.0])) < 1e-9


@pytest.mark.parametrize(("peers", "n", "follows"), [(False, 10, "teacher"), (True, 4, "consensus")])
def test_few_labels_choose_the_reference(peers: bool, n: int, follows: str) -> None:
    predictions = family(1, peers=peers)
    details = choose("auto", predictions, labeled(predictions, n)).details
    assert details["follows"] == follows
    assert details["teacher_weight"] + details["consensus_weight"] == pytest.approx(1)
    assert details["label_weight"] == details["kappa"] < 0.5
    said = "consensus" if peers else "the teacher so corrected"
    assert said in details["reasons"][0]
    assert {"teacher": "follows the teacher", "consensus": "consensus"}[follows] in details["reasons"][1]


def test_many_labels_are_followed_among_peers_sooner() -> None:
    weights = [choose("auto", f, labeled(f, 60)).details for f in (family(2, peers=p) for p in (False, True))]
    assert weights[1]["follows"] == "labels"
    assert weights[1]["label_weight"] > weights[0]["label_weight"]


def test_checked_labels_put_the_doubt_on_the_teacher() -> None:
    """A teacher that is sure and wrong: without trust the labels look wrong, with it the teacher does."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 4, 200)
    shown = np.where(rng.random(200) < 0.5, labels, (labels + 1) % 4)
    teacher = softmax(8.0 * np.eye(4)[shown] + rng.normal(size=(200, 4)))
    candidates = np.stack([teacher, softmax(0.2 * np.log(teacher)), softmax(np.log(teacher) + 0.1)])
    predictions = make_predictions(teacher, candidates, labels=labels)
    normal, checked = (
        choose("auto", predictions, labeled(predictions, 40), trust=trust).details
        for trust in ("normal", "checked")
    )
    assert normal["error_rate"] > 0.1
    assert (checked["error_rate"], checked["error_rate_grid"]) == (0, [0])
    assert checked["teacher_accuracy"] == pytest.approx(0.5, abs=0.15)
    assert checked["label_trust"] == "checked"
    assert "the teacher is doubted" in checked["reasons"][1]
    assert "seem wrong" not in " ".join(checked["reasons"])
