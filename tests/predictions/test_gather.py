"""predict against an oracle that shares no code with it, and the same bytes however the work is split,
stopped or resumed.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper
from PIL import Image
from scipy.special import softmax

from engine.family.cost import costs
from engine.family.recipes import custom_family, standard_family
from engine.family.weights import candidate_weights
from engine.predictions import runner
from engine.predictions.gather import predict, running_order
from engine.predictions.machine import available_cores, available_memory
from engine.predictions.memory import peak_memory_estimate
from engine.predictions.pixels import PoolOptions
from engine.predictions.runner import ProgressReport
from engine.target import open_images
from engine.types import Predictions, Recipe, Teacher, UserError
from tests.tiny_teacher import tiny_teacher

RECIPES = custom_family((2, 4, 8), (99.0, 100.0), ("tensor", "channel"), (False, True))
PIXELS = np.random.default_rng(0).integers(0, 256, (70, 16, 16, 3), dtype=np.uint8)


@pytest.fixture
def array(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", PIXELS)
    return tmp_path / "x.npy"


def oracle(teacher: Teacher, recipe: Recipe | None, pixels: np.ndarray) -> np.ndarray:
    """The candidate's kernels written into the file, an unoptimised session, the normalisation and softmax
    spelled out.
    """
    model = onnx.ModelProto.FromString(teacher.graph)
    changed = {} if recipe is None else candidate_weights(teacher, recipe)
    for tensor in model.graph.initializer:
        if tensor.name in changed:
            tensor.CopyFrom(numpy_helper.from_array(changed[tensor.name], tensor.name))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options)
    p = teacher.preprocessing
    inputs = ((pixels / 255 - np.array(p.mean)) / np.array(p.std)).transpose(0, 3, 1, 2).astype(np.float32)
    outputs = session.run(None, {"x": inputs})[0]
    return outputs if teacher.output == "probabilities" else softmax(outputs.astype(np.float64), axis=1)


def same(a: Predictions, b: Predictions) -> bool:
    return (
        a.names == b.names
        and a.teacher.tobytes() == b.teacher.tobytes()
        and a.candidates.tobytes() == b.candidates.tobytes()
    )


@pytest.mark.parametrize("output", ["logits", "probabilities"])
def test_every_candidate_is_judged_with_its_own_weights(array: Path, tmp_path: Path, output: str) -> None:
    teacher = tiny_teacher(output=output)
    family = standard_family()
    result = predict(teacher, family, open_images(array), store=tmp_path / "store")
    assert result.names == tuple(recipe.slug for recipe in family)
    assert result.candidates.shape == (72, 70, 4)
    assert result.candidates.dtype == np.float32
    assert result.calibration == 35
    assert result.missing == ()
    assert result.files is None
    np.testing.assert_allclose(result.teacher, oracle(teacher, None, PIXELS), atol=1e-5)
    for probs, recipe in zip(result.candidates, family, strict=True):
        np.testing.assert_allclose(probs, oracle(teacher, recipe, PIXELS), atol=1e-5)
    np.testing.assert_allclose(result.cost, costs(teacher, family))
    assert len({probs.tobytes() for probs in result.candidates}) == 72


def test_workers_and_repetition_do_not_change_a_byte(
    array: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, teacher = open_images(array), tiny_teacher()
    alone = predict(teacher, RECIPES, images, store=tmp_path / "a", workers=1)
    monkeypatch.setattr(runner, "_SMALL", 0.0)  # force processes
    assert same(alone, predict(teacher, RECIPES, images, store=tmp_path / "b", workers=2))
    assert same(alone, predict(teacher, RECIPES, images, store=tmp_path / "b", workers=3))
    assert same(alone, predict(teacher, RECIPES, images, store=tmp_path / "c"))


def test_a_stopped_run_keeps_the_best_evidence_and_resumes(array: Path, tmp_path: Path) -> None:
    images, teacher = open_images(array), tiny_teacher()
    reports: list[ProgressReport] = []
    whole = predict(teacher, RECIPES, images, store=tmp_path / "whole", on_progress=reports.append)
    assert reports[-1].done == reports[-1].total == 25 * 70
    assert {report.stage for report in reports} == {"reading images", "running 24 candidates"}

    seen: list[ProgressReport] = []
    partial = predict(
        teacher,
        RECIPES,
        images,
        store=tmp_path / "s",
        workers=1,
        on_progress=seen.append,
        cancel=lambda: bool(seen) and seen[-1].done >= 7 * 70,
    )
    assert set(partial.names) == {recipe.slug for recipe in running_order(RECIPES)[:6]}
    assert {name.split("-")[0] for name in partial.names[:6]} == {"b2", "b4", "b8"}
    assert set(partial.missing) == {recipe.slug for recipe in RECIPES} - set(partial.names)
    for name, probs in zip(partial.names, partial.candidates, strict=True):
        np.testing.assert_array_equal(probs, whole.candidates[whole.names.index(name)])

    resumed: list[ProgressReport] = []
    assert same(whole, predict(teacher, RECIPES, images, store=tmp_path / "s", on_progress=resumed.append))
    assert resumed[0].done > 7 * 70  # what was finished counts, and is not run again
    again: list[ProgressReport] = []
    assert same(whole, predict(teacher, RECIPES, images, store=tmp_path / "s", on_progress=again.append))
    assert again == []


def test_out_of_time_before_any_candidate_is_an_error(array: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="images were being read"):
        predict(tiny_teacher(), RECIPES, open_images(array), store=tmp_path / "s", time_budget=0.0)
    # the images are read now
    predict(tiny_teacher(seed=1), RECIPES[:1], open_images(array), store=tmp_path / "s")
    with pytest.raises(UserError, match="before the teacher and one candidate"):
        predict(tiny_teacher(), RECIPES, open_images(array), store=tmp_path / "s", time_budget=0.0)


def test_a_changed_input_never_reuses_a_stale_result(array: Path, tmp_path: Path) -> None:
    teacher, recipes = tiny_teacher(), RECIPES[:2]
    store = tmp_path / "s"
    first = predict(teacher, recipes, open_images(array), store=store)
    edited = PIXELS.copy()
    edited[69, 15, 15, 2] ^= 1
    np.save(tmp_path / "y.npy", edited)
    variants = {
        "images": (teacher, tmp_path / "y.npy"),
        "weights": (tiny_teacher(seed=1), array),
        "output": (tiny_teacher(output="probabilities"), array),
        "mean": (
            replace(teacher, preprocessing=replace(teacher.preprocessing, mean=(0.5, 0.4, 0.31))),
            array,
        ),
    }
    for name, (other, path) in variants.items():
        shared = predict(other, recipes, open_images(path), store=store)
        fresh = predict(other, recipes, open_images(path), store=tmp_path / name)
        assert same(shared, fresh), name
        if name != "output":
            assert not same(shared, first), name
    assert same(first, predict(teacher, recipes, open_images(array), store=store))


def test_damaged_store_files_are_found_and_made_again(array: Path, tmp_path: Path) -> None:
    teacher, recipes = tiny_teacher(), RECIPES[:6]
    first = predict(teacher, recipes, open_images(array), store=tmp_path)
    folder = next((tmp_path / "predictions").iterdir())
    for path, damage in zip(
        sorted(folder.glob("*.npy")),
        (
            lambda b: b[:-5],
            lambda b: b[:100] + b"\xff" + b[101:],
            lambda b: b"",
            lambda b: b + b"x",
            lambda b: b"PK" + b,
        ),
        strict=False,
    ):
        path.write_bytes(damage(path.read_bytes()))
    (folder / f"{recipes[5].slug}.sha256").unlink()
    for age, name in ((7200, ".old.tmp"), (0, ".new.tmp")):
        (folder / name).write_bytes(b"half")
        os.utime(folder / name, (time.time() - age,) * 2)
    pixels = next((tmp_path / "pools").glob("*/pixels.npy"))
    pixels.write_bytes(pixels.read_bytes()[:-1] + b"\0")
    assert same(first, predict(teacher, recipes, open_images(array), store=tmp_path))
    assert [path.name for path in folder.glob(".*.tmp")] == [".new.tmp"]


def test_folders_are_shuffled_and_labels_follow(tmp_path: Path) -> None:
    for i in range(12):
        (tmp_path / "set" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(PIXELS[i]).save(tmp_path / "set" / "ab"[i % 2] / f"{i:02}.png")
    images, teacher = open_images(tmp_path / "set"), tiny_teacher()
    labels = np.array([int(Path(name).stem) % 4 for name in images.names])
    result = predict(teacher, RECIPES[:1], images, store=tmp_path / "s", labels=labels)
    assert result.files is not None
    assert sorted(result.files) == sorted(images.names)
    assert result.files != images.names
    assert result.labels.tolist() == [int(Path(name).stem) % 4 for name in result.files]
    rows = np.array([int(Path(name).stem) for name in result.files])
    np.testing.assert_allclose(result.teacher, oracle(teacher, None, PIXELS[rows]), atol=1e-5)
    kept = predict(teacher, RECIPES[:1], images, store=tmp_path / "s", options=PoolOptions(shuffle=False))
    assert kept.files == images.names
    with pytest.raises(UserError, match="one label per image"):
        predict(teacher, RECIPES[:1], images, store=tmp_path / "s", labels=labels[1:])
    with pytest.raises(UserError, match="classes 0 to 3"):
        predict(teacher, RECIPES[:1], images, store=tmp_path / "s", labels=labels + 1)


def test_corrupt_images_are_named_or_skipped(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    for i in range(6):
        Image.fromarray(PIXELS[i]).save(tmp_path / "set" / f"{i}.png")
    for name in ("broken.png", "empty.png"):
        (tmp_path / "set" / name).write_bytes(b"PNG" * (name == "broken.png"))
    images, teacher = open_images(tmp_path / "set"), tiny_teacher()
    with pytest.raises(UserError, match=r"2 of 8 images cannot be read: .*broken\.png.*--skip-corrupt"):
        predict(teacher, RECIPES[:1], images, store=tmp_path / "s")
    for _ in range(2):  # computed, then found in the store
        result = predict(
            teacher, RECIPES[:1], images, store=tmp_path / "s", skip_corrupt=True, labels=np.arange(8) % 4
        )
        assert result.n_images == 6
        assert result.files is not None
        assert [int(label) for label in result.labels] == [
            images.names.index(name) % 4 for name in result.files
        ]


def test_a_test_part_is_judged_beside_the_pool(array: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", PIXELS[:9])
    test = (open_images(tmp_path / "t.npy"), np.arange(9) % 4)
    result = predict(tiny_teacher(), RECIPES, open_images(array), store=tmp_path / "s", test=test)
    assert result.candidates_test is not None
    assert result.candidates_test.shape == (24, 9, 4)
    assert result.labels_test is not None
    assert result.labels_test.tolist() == test[1].tolist()
    np.testing.assert_allclose(result.candidates_test, result.candidates[:, :9], atol=1e-6)


def test_memory_is_stated_and_grows_with_what_it_depends_on() -> None:
    teacher = tiny_teacher()
    base = peak_memory_estimate(teacher, 1000, 72, 1)
    assert peak_memory_estimate(teacher, 2000, 72, 1) - base == 4 * 73 * 1000 * 4
    assert peak_memory_estimate(teacher, 1000, 72, 2) > base


def test_a_container_may_grant_less_than_the_machine_has(tmp_path: Path) -> None:
    bound = available_cores(tmp_path)  # no limits stated
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert available_cores(tmp_path) == bound >= 1
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert available_cores(tmp_path) == 1
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert available_memory(tmp_path) == 600_000
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory(tmp_path) is None or available_memory(tmp_path) > 600_000


def test_the_running_order_spans_the_range_first() -> None:
    order = running_order(standard_family())
    assert len(order) == len(set(order)) == 72
    assert [recipe.slug for recipe in order[:6]] == [f"b{b}-channel-q100" for b in (8, 4, 6, 5, 3, 2)]
