"""Model files beside recipes: judged as they are, in a process of their own, whatever happens to it."""

from __future__ import annotations

import hashlib
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.family.model_file import InputForm, ModelFile, OutputForm, Refusal, StandIn
from engine.family.recipes import custom_family
from engine.predictions.file import load_predictions, save_predictions
from engine.predictions.gather import predict
from engine.target import ImageSet, open_images
from engine.teacher.importers.onnx import import_graph
from engine.types import Teacher, UserError
from tests.hostile.onnx_files import RUNTIME, classifier, loops_on_white
from tests.tiny_teacher import tiny_teacher

RECIPES = custom_family((4, 8), (100.0,), ("channel",), (False,))
PIXELS = np.random.default_rng(0).integers(0, 256, (70, 16, 16, 3), dtype=np.uint8)


@pytest.fixture
def images(tmp_path: Path) -> ImageSet:
    np.save(tmp_path / "x.npy", PIXELS)
    return open_images(tmp_path / "x.npy")


def as_file(teacher: Teacher, folder: Path, name: str, content: bytes | None = None) -> ModelFile:
    path = folder / f"{name}.onnx"
    path.write_bytes(teacher.graph if content is None else content)
    content = path.read_bytes()
    return ModelFile(
        name=name,
        path=path,
        sha256=hashlib.sha256(content).hexdigest(),
        n_bytes=len(content),
        runtime="onnxruntime",
        input=InputForm("x", teacher.preprocessing),
        output=OutputForm("y", teacher.output, teacher.n_classes),
    )


def test_a_description_survives_json(tmp_path: Path) -> None:
    model = replace(as_file(tiny_teacher(), tmp_path, "a"), notes=("one", "two"), format="ONNX")
    assert ModelFile.from_json(model.to_json()) == model


def test_files_and_recipes_compete(images: ImageSet, tmp_path: Path) -> None:
    teacher, other = tiny_teacher(), tiny_teacher(seed=1)
    # a file may be called like the teacher in the store
    same, another = as_file(teacher, tmp_path, "teacher"), as_file(other, tmp_path, "other")
    result = predict(teacher, [same, RECIPES[0], another, RECIPES[1]], images, store=tmp_path / "s")
    assert result.names == ("teacher", RECIPES[0].slug, "other", RECIPES[1].slug)
    np.testing.assert_allclose(result.candidates[0], result.teacher, atol=1e-6)
    alone = predict(other, RECIPES[:1], images, store=tmp_path / "o")
    np.testing.assert_allclose(result.candidates[2], alone.teacher, atol=1e-6)
    recipes = predict(teacher, RECIPES, images, store=tmp_path / "r")
    np.testing.assert_array_equal(result.candidates[[1, 3]], recipes.candidates)
    assert result.bytes is not None
    assert result.bytes[0] == same.path.stat().st_size
    assert result.cost is not None
    assert result.cost[0] == pytest.approx(same.n_bytes / teacher.float_bytes)
    assert result.file_sha256 == (same.sha256, "", another.sha256, "")
    seen: list[object] = []
    again = predict(teacher, [same], images, store=tmp_path / "s", on_progress=seen.append)
    assert seen == []
    np.testing.assert_array_equal(again.candidates[0], result.candidates[0])


def test_without_a_teacher_the_files_agree_on_one(images: ImageSet, tmp_path: Path) -> None:
    teachers = [tiny_teacher(seed=seed) for seed in range(3)]
    models = [as_file(teacher, tmp_path, f"m{i}") for i, teacher in enumerate(teachers)]
    crowd = StandIn(teachers[0].class_names)
    result = predict(crowd, models, images, store=tmp_path / "s")
    assert result.reference == "consensus"
    np.testing.assert_allclose(result.teacher, np.mean(result.candidates, axis=0), atol=1e-6)
    named = predict(replace(crowd, candidate="m1"), models, images, store=tmp_path / "s")
    assert named.reference == "candidate:m1"
    np.testing.assert_array_equal(named.teacher, named.candidates[1])
    save_predictions(named, tmp_path / "p.npz")
    loaded = load_predictions(tmp_path / "p.npz")
    assert loaded.reference == "candidate:m1"
    assert loaded.file_sha256 == tuple(model.sha256 for model in models)
    np.testing.assert_array_equal(loaded.bytes, [model.n_bytes for model in models])
    with pytest.raises(UserError, match="there is none"):
        predict(crowd, [*models, RECIPES[0]], images, store=tmp_path / "s")


def test_a_file_that_fails_costs_itself(images: ImageSet, tmp_path: Path) -> None:
    teacher = tiny_teacher()
    good = as_file(teacher, tmp_path, "good")
    damaged = as_file(teacher, tmp_path, "damaged", teacher.graph[:-200])
    changed = as_file(tiny_teacher(seed=2), tmp_path, "changed")
    changed.path.write_bytes(b"other")
    wide = as_file(tiny_teacher(n_classes=7), tmp_path, "wide")
    wide = replace(wide, output=replace(wide.output, n_classes=4))
    result = predict(
        teacher,
        [damaged, changed, good, wide],
        images,
        store=tmp_path / "s",
        refused=[Refusal("strange", "it is no model")],
    )
    assert result.names == ("good",)
    assert result.missing == ("damaged", "changed", "wide", "strange")
    words = ("cannot open it", "has changed", "shape (70, 7)", "it is no model")
    for reason, expected in zip(result.missing_reasons, words, strict=True):
        assert expected in reason
    save_predictions(result, tmp_path / "p.npz")
    assert load_predictions(tmp_path / "p.npz").missing_reasons == result.missing_reasons


def test_where_every_file_fails_the_reasons_are_said(images: ImageSet, tmp_path: Path) -> None:
    teacher = tiny_teacher()
    files = [as_file(teacher, tmp_path, f"damaged{i}", teacher.graph[: -200 - i]) for i in range(5)]
    with pytest.raises(UserError, match=r"none of the 5 candidates .*damaged0: .*cannot open it.*and 2 more"):
        predict(teacher, files, images, store=tmp_path / "s")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_crash_of_the_runtime_costs_one_candidate(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    teacher = tiny_teacher()
    models = [as_file(tiny_teacher(seed=seed), tmp_path, f"m{seed}") for seed in range(4)]
    # a worker that dies, as a runtime may on a crafted file, whenever it meets the second file
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import os, signal\n"
        "import engine.predictions.model as model\n"
        "read = model.read_judged\n"
        "def dying(file):\n"
        "    if file.name == 'm1': os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    return read(file)\n"
        "model.read_judged = dying\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{Path.cwd()}:{site}")
    result = predict(teacher, models, images, store=tmp_path / "s", workers=workers)
    assert result.names == ("m0", "m2", "m3")
    assert result.missing_reasons == (f"its runtime crashed ({signal.SIGSEGV.name})",)


def test_a_file_that_never_answers_is_ended(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [as_file(tiny_teacher(seed=seed), tmp_path, f"m{seed}") for seed in range(2)]
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import time\n"
        "import engine.predictions.model as model\n"
        "read = model.read_judged\n"
        "model.read_judged = lambda file: time.sleep(60) if file.name == 'm0' else read(file)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{Path.cwd()}:{site}")
    monkeypatch.setenv("ANCHORPOINT_JUDGE_SECONDS", "1")
    result = predict(tiny_teacher(), models, images, store=tmp_path / "s", workers=1)
    assert result.names == ("m1",)
    assert "no answer for 4 seconds" in result.missing_reasons[0]


@pytest.mark.slow
def test_files_that_loop_or_swell_cost_themselves(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judged behind limits of time and memory: the others are judged, and the reasons said."""
    monkeypatch.setenv("ANCHORPOINT_JUDGE_SECONDS", "2")
    monkeypatch.setenv("ANCHORPOINT_JUDGE_MEMORY_GB", "1")
    teacher = tiny_teacher()
    good = as_file(teacher, tmp_path, "good")
    np.save(tmp_path / "small.npy", PIXELS[:5, :8, :8])
    small = open_images(tmp_path / "small.npy")
    way = replace(teacher.preprocessing, height=8, width=8)

    def hostile(name: str) -> ModelFile:
        content = RUNTIME[name]().SerializeToString()
        model = as_file(teacher, tmp_path, name, content)
        return replace(model, input=InputForm("x", way), output=OutputForm("y", "logits", 4))

    good = replace(hostile("tile"), name="good", path=tmp_path / "fine.onnx")
    good.path.write_bytes(classifier().SerializeToString())
    good = replace(good, sha256=hashlib.sha256(good.path.read_bytes()).hexdigest())
    models = [hostile("endless_loop"), hostile("doubling_loop"), hostile("expand_the_input"), good]
    stand_in = StandIn(("a", "b", "c", "d"))
    result = predict(stand_in, models, small, store=tmp_path / "s", workers=1)
    assert result.names == ("good",)
    endless, doubling, expanded = result.missing_reasons
    assert "longer than 2 s for one batch" in endless or "no answer" in endless
    for reason in (doubling, expanded):
        assert "\n" not in reason


@pytest.mark.slow
def test_a_teacher_that_loops_on_real_images_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not steady runs in a worker even where the work is small, and its end is one line."""
    monkeypatch.setenv("ANCHORPOINT_JUDGE_SECONDS", "2")
    np.save(tmp_path / "white.npy", np.full((3, 8, 8, 3), 255, np.uint8))
    way = replace(tiny_teacher().preprocessing, height=8, width=8)
    teacher = import_graph(loops_on_white().SerializeToString(), preprocessing=way)
    with pytest.raises(UserError, match=r"a model could not be judged: it took longer than|no answer"):
        predict(teacher, RECIPES[:1], open_images(tmp_path / "white.npy"), store=tmp_path / "s", workers=1)
