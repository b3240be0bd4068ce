"""A family of every kind in one run: built from the pool's own images, judged as the files that ship,
timed.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.deploy import latency, running, timing, workshop
from engine.deploy.calibration import calibrate_on
from engine.deploy.latency import Stopwatch
from engine.deploy.running import FamilyOptions, predict_family
from engine.deploy.timing import structure, time_family
from engine.family.kinds import AnyRecipe, parse_any
from engine.family.recipes import custom_family
from engine.predictions.deployed import read_allocation
from engine.predictions.file import load_predictions, make_predictions, save_predictions
from engine.predictions.gather import predict
from engine.target import ImageSet, open_images
from engine.types import UserError
from tests.tiny_teacher import tiny_teacher

NAMES = (
    "b4-channel-q100",
    "b8a8-channel-minmax",
    "b8a8-tensor-mse",
    "mix-0.4",
    "mix-0.4-opt",
    "b3-channel-q100-bc",
)
RECIPES: tuple[AnyRecipe, ...] = tuple(map(parse_any, NAMES))


@pytest.fixture
def images(tmp_path: Path) -> ImageSet:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 16, 16, 3), dtype=np.uint8)
    np.save(tmp_path / "x.npy", pixels)
    return open_images(tmp_path / "x.npy")


def test_every_kind_is_judged_and_described(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = tiny_teacher(width=32)
    options = FamilyOptions(latency=True)
    result = predict_family(teacher, RECIPES, images, store=tmp_path / "s", family=options, workers=1)
    assert result.names == NAMES
    assert result.cost is not None
    assert result.latency is not None
    assert result.latency_unpacked is not None
    assert (result.latency > 0).all()
    np.testing.assert_array_equal(np.isnan(result.latency_unpacked), ["a8" in name for name in NAMES])
    allocation = read_allocation(result.allocation)
    assert set(allocation) == {"mix-0.4", "mix-0.4-opt"}
    assert set(allocation["mix-0.4"]) == set(teacher.weights)
    assert (result.cost[3:5] <= 0.4).all()
    close = np.mean(result.candidates.argmax(2) == result.teacher.argmax(1), axis=1)
    assert close[NAMES.index("b8a8-channel-minmax")] > 0.9

    monkeypatch.setattr(workshop.Workshop, "_make", None)  # a second run finds every file
    again = predict_family(teacher, RECIPES, images, store=tmp_path / "s", workers=1)
    np.testing.assert_array_equal(again.candidates, result.candidates)
    path = tmp_path / "p.npz"
    save_predictions(result, path)
    stored = load_predictions(path)
    assert stored.allocation == result.allocation
    np.testing.assert_array_equal(stored.latency, result.latency)


def test_weights_alone_are_judged_as_ever(images: ImageSet, tmp_path: Path) -> None:
    recipes = custom_family((3, 8), (100.0,), ("channel",), (False,))
    ours = predict_family(tiny_teacher(), recipes, images, store=tmp_path / "a")
    plain = predict(tiny_teacher(), recipes, images, store=tmp_path / "b")
    np.testing.assert_array_equal(ours.candidates, plain.candidates)
    assert ours.latency is None


def test_weights_are_judged_while_files_are_built(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, build = tmp_path / "s", workshop.Workshop.build

    def waiting(shop: workshop.Workshop, *given: Any) -> workshop.Built:
        deadline = time.monotonic() + 30
        while not list(store.glob("predictions/*/b4-channel-q100.npy")):
            assert time.monotonic() < deadline, "nothing was judged meanwhile"
            time.sleep(0.01)
        return build(shop, *given)

    monkeypatch.setattr(running, "available_cores", lambda: 2)
    monkeypatch.setattr(workshop.Workshop, "build", waiting)
    result = predict_family(tiny_teacher(), RECIPES[:2], images, store=store)
    monkeypatch.undo()
    alone = predict_family(tiny_teacher(), RECIPES[:2], images, store=tmp_path / "alone", workers=1)
    np.testing.assert_array_equal(result.candidates, alone.candidates)


def test_building_does_not_wait_for_the_weights(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is judged beside the building ends with it, and its errors are the run's to tell."""
    ended = []

    def endless(*given: Any, cancel: Any, **options: Any) -> None:
        while not cancel():
            time.sleep(0.01)
        ended.append(True)
        raise UserError("stopped")

    monkeypatch.setattr(running, "available_cores", lambda: 2)
    monkeypatch.setattr(running, "predict", endless)
    with running._meanwhile(tiny_teacher(), RECIPES[:1], images, tmp_path, {}, lambda: False):
        assert not ended
    assert ended


def test_a_packed_file_repeats_its_recipe(images: ImageSet, tmp_path: Path) -> None:
    """An optimised file and the packed weights it stores are one model: unpacked at load or not."""
    teacher = tiny_teacher(width=32)
    result = predict_family(teacher, RECIPES[3:4], images, store=tmp_path / "s")
    shop = workshop.Workshop(calibrate_on(teacher, np.zeros((8, 3, 16, 16), np.float32)), tmp_path / "other")
    assert shop.folder != next((tmp_path / "s" / "tailored").iterdir())
    assert result.names == ("mix-0.4",)


def test_what_does_not_suit_is_missing_with_its_reason(images: ImageSet, tmp_path: Path) -> None:
    recipes = [*RECIPES[:2], parse_any("mix-0.01")]
    options = FamilyOptions(budget=0.3)
    result = predict_family(tiny_teacher(), recipes, images, store=tmp_path / "s", family=options)
    assert result.names == NAMES[:1]
    reasons = dict(zip(result.missing, result.missing_reasons, strict=True))
    assert "need at least" in reasons["mix-0.01"]
    assert "more than the budget" in reasons["b8a8-channel-minmax"]


def test_too_few_images_to_calibrate_on(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((10, 16, 16, 3), np.uint8))
    with pytest.raises(UserError, match="has 5 images; ranges and sensitivities need at least 8"):
        predict_family(tiny_teacher(), RECIPES, open_images(tmp_path / "x.npy"), store=tmp_path / "s")


def test_rows_held_out_are_never_calibrated_on(images: ImageSet, tmp_path: Path) -> None:
    folders = []
    for n_test in (0, 40):
        options = FamilyOptions(n_test=n_test)
        predict_family(tiny_teacher(), RECIPES[1:2], images, store=tmp_path / str(n_test), family=options)
        about = next((tmp_path / str(n_test) / "tailored").glob("*/*.json"))
        folders.append(json.loads(about.read_text())["facts"]["calibration_images"])
    assert len(folders[0]) == 32
    assert folders[1] == folders[0][:12]


def test_files_that_differ_in_numbers_only_share_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    same = ["b3-channel-q99", "b4-channel-q100", "b4-channel-q100-bc"]
    assert len({structure(parse_any(name)) for name in same}) == 1
    apart = [
        "b4-channel-q100",
        "b4-tensor-q100",
        "b4-channel-q100-ends",
        "b5-channel-q100",
        "b2-channel-q100",
    ]
    assert len({structure(parse_any(name)) for name in apart}) == 5
    assert structure(parse_any("b8a8-channel-mse")) == structure(parse_any("b8a8-channel-p99.9"))
    measured: list[bool] = []

    def measure(self: Stopwatch, content: bytes, *, unpacked: bool) -> latency.Latency:
        measured.append(unpacked)
        return latency.Latency(0.5, 0.1)

    monkeypatch.setattr(timing.Stopwatch, "measure", measure)
    calibration = calibrate_on(tiny_teacher(), np.zeros((8, 3, 16, 16), np.float32))
    found = time_family(calibration, [parse_any(name) for name in same[:2]], {})
    assert measured == [False, True]
    np.testing.assert_array_equal(found.shipped, [0.5, 0.5])


def test_a_time_is_the_median_of_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([1.0, 2.0, 8.0, 16.0] * 100)  # candidate one image, teacher one image, both batches
    monkeypatch.setattr(latency, "_seconds", lambda _: next(clock))
    teacher = tiny_teacher()
    watch = Stopwatch(teacher.graph, np.zeros((4, 3, 16, 16), np.float32))
    assert watch.measure(teacher.graph, unpacked=False) == latency.Latency(0.5, 0.0)


def test_bad_times_and_allocations_are_explained() -> None:
    probs = np.full((4, 2), 0.5)
    candidates = np.stack([probs] * 2)
    assert make_predictions(probs, candidates, latency=[0.5, np.nan]).latency is not None
    with pytest.raises(UserError, match="latency must be 2 numbers"):
        make_predictions(probs, candidates, latency=[0.5])
    with pytest.raises(UserError, match="negative or infinite"):
        make_predictions(probs, candidates, latency=[-0.5, 1])
    for text in ("no json", '{"a": 3}', '{"a": {"b": 99}}', "[1]"):
        with pytest.raises(UserError, match="allocation is not JSON"):
            make_predictions(probs, candidates, allocation=text)
