"""Looking into files: what they take and return, whatever tool wrote them, and what bad ones cost."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.family.model_file import InputForm, ModelFile, OutputForm
from engine.foreign import inspection, session
from engine.foreign.examine import Examined, Question, examine_files
from engine.foreign.found import find_files
from engine.types import Preprocessing, UserError
from tests.foreign.small_models import CLASSES, SIDE, between, linear, write_bad
from tests.hostile.onnx_files import endless_loop

BASE = Preprocessing(SIDE, SIDE, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3))


def examine(folder: Path, question: Question | None = None) -> Examined:
    keep = folder.parent / "keep"
    return examine_files(find_files(folder, keep), question or Question(BASE, CLASSES), keep)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


def test_every_form_is_understood(folder: Path) -> None:
    forms = {
        "plain": linear(),
        "nhwc": linear(layout="NHWC", batch=1),
        "fixed": linear(batch=3),
        "large": linear(side=2 * SIDE),
        "open": linear(side="side"),
        "grey": linear(channels=1),
        "bytes": linear(take=TensorProto.UINT8),
        "half": linear(take=TensorProto.FLOAT16),
        "sure": linear(softmax=True),
    }
    for name, model in forms.items():
        onnx.save(model, folder / f"{name}.onnx")
    examined = examine(folder)
    assert examined.refused == ()
    found = {model.name: model for model in examined.models}
    assert list(found) == sorted(forms)
    taken = {name: model.input for name, model in found.items()}
    assert taken["plain"].preprocessing == BASE
    assert taken["plain"].batch is None
    assert taken["nhwc"].preprocessing.layout == "NHWC"
    assert (taken["nhwc"].batch, taken["fixed"].batch) == (1, 3)
    assert (taken["large"].preprocessing.height, taken["open"].preprocessing.height) == (2 * SIDE, SIDE)
    assert taken["grey"].preprocessing.channels == 1
    assert taken["bytes"].dtype == "uint8"
    assert taken["bytes"].preprocessing.scale == 1.0
    assert taken["half"].dtype == "float16"
    assert found["sure"].output.kind == "probabilities"
    assert found["plain"].output.kind == "logits"
    assert {model.output.n_classes for model in examined.models} == {CLASSES}
    assert all(model.format == "ONNX, float" for model in examined.models)


def test_several_outputs_need_a_name(folder: Path) -> None:
    onnx.save(linear(outputs=2), folder / "two.onnx")
    onnx.save(linear(), folder / "one.onnx")
    refused = examine(folder).refused
    assert refused[0].name == "two"
    assert "'features', 'y'" in refused[0].reason
    named = examine(folder, Question(BASE, CLASSES, "y"))
    assert [model.output.name for model in named.models] == ["y", "y"]
    (folder / "two.json").write_text(json.dumps({"output_name": "y", "scale": 1.0, "output": "logits"}))
    stated = {model.name: model for model in examine(folder).models}
    assert stated["two"].output.name == "y"
    assert stated["two"].input.preprocessing.scale == 1.0
    assert stated["one"].input.preprocessing == BASE
    (folder / "one.json").write_text(json.dumps({"output_name": "z"}))
    assert "states output_name 'z'; it has 'y'" in examine(folder).refused[0].reason


def test_six_bad_files_among_forty_cost_six_lines(folder: Path) -> None:
    for i in range(34):
        onnx.save(linear(seed=i, layout=("NCHW", "NHWC")[i % 2]), folder / f"good-{i:02}.onnx")
    words = write_bad(folder)
    examined = examine(folder)
    assert len(examined.models) == 34
    reasons = {refusal.name: refusal.reason for refusal in examined.refused}
    assert set(reasons) == set(words)
    for name, expected in words.items():
        assert re.search(expected, reasons[name]), (name, reasons[name])
        assert "\n" not in reasons[name]


def test_a_file_that_kills_its_process_is_the_only_one_lost(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "killer", "killer2", "z"):
        onnx.save(linear(), folder / f"{name}.onnx")
    looked = tmp_path / "looked"
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import os, signal\n"
        "import engine.foreign.inspection as inspection\n"
        "look = inspection._describe\n"
        "def dying(file, *rest):\n"
        f"    print(file['name'], file=open({str(looked)!r}, 'a'))\n"
        "    if file['name'].startswith('killer'): os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    return look(file, *rest)\n"
        "inspection._describe = dying\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{Path.cwd()}:{site}")
    examined = examine(folder)
    assert [model.name for model in examined.models] == ["a", "z"]
    assert [refusal.name for refusal in examined.refused] == ["killer", "killer2"]
    assert all("SIGSEGV" in refusal.reason for refusal in examined.refused)
    assert looked.read_text().split() == ["a", "killer", "killer2", "z"]  # none of them twice


def test_a_file_that_answers_by_chance_or_asks_for_everything_is_refused(folder: Path) -> None:
    onnx.save(linear(), folder / "good.onnx")
    onnx.save(between(linear(), helper.make_node("RandomNormalLike", ["m"], ["r"])), folder / "draws.onnx")
    huge = between(linear(), helper.make_node("ConstantOfShape", ["far"], ["r"]))
    huge.graph.initializer.append(numpy_helper.from_array(np.array([10**6, 10**5], np.int64), "far"))
    onnx.save(huge, folder / "huge.onnx")
    examined = examine(folder)
    assert [model.name for model in examined.models] == ["good"]
    reasons = {refusal.name: refusal.reason for refusal in examined.refused}
    assert "random numbers (RandomNormalLike" in reasons["draws"]
    assert re.search("more memory than it may have .*ConstantOfShape", reasons["huge"])


def test_a_file_whose_answers_change_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wavering:
        def __init__(self, *_: object) -> None:
            self.calls = 0

        def outputs(self, images: np.ndarray) -> np.ndarray:
            self.calls += 1
            return np.full((len(images), CLASSES), self.calls, np.float32)

    monkeypatch.setattr(inspection, "FileSession", Wavering)
    form = InputForm("x", BASE)
    model = ModelFile("m", Path("m"), "", 0, "litert", form, OutputForm("y", "logits", CLASSES))
    with pytest.raises(UserError, match="differently when it is run twice"):
        inspection._answers(b"", model)


def test_the_most_common_number_of_classes_wins_without_a_teacher(folder: Path) -> None:
    for name, classes in (("a", 7), ("b", CLASSES), ("c", CLASSES)):
        onnx.save(linear(classes=classes), folder / f"{name}.onnx")
    examined = examine(folder, Question())
    assert [model.name for model in examined.models] == ["b", "c"]
    assert "most of the files" in examined.refused[0].reason
    assert "0..1" in examined.models[0].notes[0]


def test_nothing_to_judge_is_one_sentence(folder: Path) -> None:
    (folder / "a.onnx").write_bytes(b"no model")
    with pytest.raises(UserError, match="none of the 1 files can be judged"):
        examine(folder)


def test_a_missing_runtime_is_said_with_its_remedy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(linear(), folder / "a.onnx")
    (folder / "b.tflite").write_bytes(b"1234TFL3")
    monkeypatch.setitem(session.RUNTIMES, "litert", "no-such-package")
    examined = examine(folder)
    assert [model.name for model in examined.models] == ["a"]
    assert "pip install no-such-package" in examined.refused[0].reason


def test_models_of_a_framework_go_through_their_importer(folder: Path) -> None:
    sample = Path("sample_models/digits-resnet.pt2").read_bytes()
    (folder / "net.pt2").write_bytes(sample)
    base = Preprocessing(32, 32, channels=1, mean=(0.2,), std=(0.3,))
    model: ModelFile = examine(folder, Question(base, 10)).models[0]
    assert (model.name, model.runtime, model.path.suffix) == ("net", "onnxruntime", ".onnx")
    assert model.n_bytes == model.path.stat().st_size
    assert any("importer" in note for note in model.notes)


@pytest.mark.slow
def test_a_folder_of_files_that_loop_costs_three_of_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANCHORPOINT_IMPORT_SECONDS", "3")  # a file has a third of it
    monkeypatch.setenv("ANCHORPOINT_LOGS", str(tmp_path / "logs"))
    (folder / "a good one.onnx").write_bytes(linear().SerializeToString())
    for index in range(5):
        (folder / f"loops {index}.onnx").write_bytes(endless_loop().SerializeToString())
    found = examine(folder)
    assert [model.name for model in found.models] == ["a good one"]
    reasons = [refusal.reason for refusal in found.refused]
    assert ["took longer than" in reason for reason in reasons] == [True] * 3 + [False] * 2
    assert all("not looked into" in reason for reason in reasons[3:])
