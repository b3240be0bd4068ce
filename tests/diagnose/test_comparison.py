"""Models side by side: against hand-worked cases, brute-force loops and statsmodels-like closed forms."""

import numpy as np
import pytest

from engine.diagnose.comparison import (
    class_effects,
    confusion_changes,
    disagreements,
    labeled_rows,
    quality,
    share_interval,
)
from engine.types import LabeledSample


def one_hot(classes, n_classes=3, top=0.9):
    probs = np.full((len(classes), n_classes), (1 - top) / (n_classes - 1))
    probs[np.arange(len(classes)), classes] = top
    return probs


def test_wilson_interval_of_a_textbook_case():
    found = share_interval(15, 20)
    assert found.value == 0.75
    assert found.low == pytest.approx(0.5313, abs=1e-4)
    assert found.high == pytest.approx(0.8881, abs=1e-4)


def test_quality_is_accuracy_and_mean_loss():
    labels = np.array([0, 1, 2, 2])
    found = quality(one_hot([0, 1, 2, 0]), labels)
    assert found.accuracy.value == 0.75
    assert found.loss.value == pytest.approx((3 * -np.log(0.9) - np.log(0.05)) / 4)
    assert found.loss.low <= found.loss.value <= found.loss.high
    assert found.ece == pytest.approx(0.15)  # 75 % right at 90 % confidence
    assert quality(one_hot([0, 1, 2, 0]), labels) == found  # seeded


def test_the_interval_of_a_constant_loss_has_no_width():
    found = quality(one_hot([0, 1, 2]), np.array([0, 1, 2]))
    assert found.loss.low == pytest.approx(found.loss.high)


def test_class_effects_name_the_class_that_pays():
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    before, after = one_hot([0, 0, 0, 1, 1, 1, 0, 0]), one_hot([1, 1, 0, 1, 1, 1, 1, 1])
    table = class_effects(before, after, labels, 3)
    assert table["class"].tolist() == [0, 1]
    assert table["change"].tolist() == [-0.5, 0.5]
    assert table["before"].tolist() == [0.75, 0.5]
    assert table["after"].tolist() == [0.25, 1.0]
    assert (table["low"] <= table["change"]).all()
    assert (table["high"] >= table["change"]).all()
    # Agresti and Min: two lost, none won, of four: centre -2/6, spread 1.96·sqrt(2+1-4/6)/6
    spread = 1.959964 * np.sqrt(3 - 4 / 6) / 6
    assert table["low"][0] == pytest.approx(-2 / 6 - spread, abs=1e-6)
    assert table["high"][0] == pytest.approx(-2 / 6 + spread, abs=1e-6)
    swapped = class_effects(before[:, [1, 0, 2]], after[:, [1, 0, 2]], 1 - labels, 3)
    assert swapped["class"].tolist() == [1, 0]  # who loses most comes first, whatever its number


def test_paired_intervals_hold_what_they_promise():
    rng = np.random.Generator(np.random.PCG64(5))
    truth, n, inside = -0.1, 40, 0
    for _ in range(400):
        kind = rng.choice(3, n, p=[0.15, 0.05, 0.8])  # lost, won, same
        labels = np.zeros(n, int)
        before = one_hot(np.where(kind == 1, 1, 0))
        after = one_hot(np.where(kind == 0, 1, 0))
        row = class_effects(before, after, labels, 3).iloc[0]
        inside += row["low"] <= truth <= row["high"]
    assert inside / 400 >= 0.92


def test_new_and_vanished_mistakes_are_counted():
    labels = np.array([0, 0, 0, 1, 2])
    table = confusion_changes(one_hot([1, 0, 0, 1, 0]), one_hot([1, 1, 1, 1, 2]), labels)
    assert table[["true", "answered", "change"]].to_numpy().tolist() == [[0, 1, 2], [2, 0, -1]]
    assert confusion_changes(one_hot(labels), one_hot(labels), labels).empty


@pytest.mark.parametrize("n_images", [1, 7, 5000])
def test_disagreements_against_a_loop(n_images):
    rng = np.random.Generator(np.random.PCG64(n_images))
    models = {name: rng.dirichlet(np.ones(4), n_images) for name in ("teacher", "A", "B")}
    table = disagreements(models, limit=20)
    expected = []
    for row in range(n_images):
        stack = np.array([models[name][row] for name in models])
        if len(set(stack.argmax(axis=1).tolist())) > 1:
            logs = np.log(np.maximum(stack, 1e-8))
            expected.append((float((stack.mean(axis=0) * (logs.max(0) - logs.min(0))).sum()), row))
    expected.sort(key=lambda pair: -pair[0])
    assert table["row"].tolist() == [row for _, row in expected[:20]]
    np.testing.assert_allclose(table["stake"], [stake for stake, _ in expected[:20]], rtol=1e-12)
    for at, row in enumerate(table["row"]):
        assert table["A"][at] == models["A"][row].argmax()
        assert table["A probability"][at] == models["A"][row].max()


def test_labeled_rows_are_those_of_the_sample():
    probs = np.arange(12, dtype=np.float32).reshape(6, 2)
    rows = labeled_rows(probs, LabeledSample(np.array([4, 1]), np.array([0, 1])))
    assert rows.tolist() == [[8, 9], [2, 3]]
