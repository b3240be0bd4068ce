"""What other people's ONNX files say of themselves is read, and what makes no sense is left alone."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from engine.teacher.importers.onnx import import_graph
from engine.teacher.metadata import class_names_in, normalisation_in
from engine.types import Preprocessing
from tests.tiny_teacher import tiny_teacher

NAMES = ("cat, small", 'the "dog"', "пти́ца", "it's|a`fish")
PLAIN = Preprocessing(16, 16, mean=(0.0,) * 3, std=(1.0,) * 3)


@pytest.mark.parametrize(
    "facts",
    [
        {"names": str(dict(enumerate(NAMES)))},  # Ultralytics
        {"id2label": json.dumps({str(k): name for k, name in enumerate(NAMES)})},  # transformers
        {"Class_Names": json.dumps(NAMES)},
        {"labels": "\n".join(NAMES)},
        {"classes": json.dumps({name: k for k, name in enumerate(NAMES)})},
    ],
    ids=lambda facts: next(iter(facts)),
)
def test_class_names_of_other_tools(facts: dict[str, str]) -> None:
    assert class_names_in(facts) == NAMES


@pytest.mark.parametrize(
    "text",
    [
        *("", "{1: 'a', 2: 'b'}", "{0: 'a', 5: 'b'}", "[[1], [2]]", "{", "__import__('os')", "null"),
        *("[" * 5000, "(" * 5000, "a," * (1 << 20), "{0: 'a', '0': 'b'}", "{0: {}, 1: {}}"),
    ],
    ids=lambda text: text[:12],
)
def test_what_makes_no_sense_is_left_alone(text: str) -> None:
    assert class_names_in({"names": text}) == ()
    assert normalisation_in({"mean": text, "std": text}, PLAIN) is None


def test_mean_and_std_of_other_tools() -> None:
    unit = normalisation_in({"mean": "[0.5, 0.4, 0.3]", "std": "0.2,0.2,0.1"}, PLAIN)
    assert unit is not None
    assert (unit.scale, unit.mean, unit.std) == (1 / 255, (0.5, 0.4, 0.3), (0.2, 0.2, 0.1))
    pixels = normalisation_in({"standardization_mean": "127.5", "standardization_std": "64"}, PLAIN)
    assert pixels is not None
    assert (pixels.scale, pixels.mean, pixels.std) == (1.0, (127.5,) * 3, (64.0,) * 3)
    for facts in (
        {"mean": "0.5"},
        {"mean": "0.5", "std": "0"},
        {"mean": "1,2", "std": "1,2"},
        {"std": "nan"},
    ):
        assert normalisation_in(facts, PLAIN) is None


def test_an_onnx_file_names_its_classes_and_numbers(tmp_path: Path) -> None:
    model = onnx.ModelProto.FromString(tiny_teacher(4).graph)
    facts = {"names": str(dict(enumerate(NAMES))), "mean": "[0.1, 0.2, 0.3]", "std": "[1, 2, 3]"}
    onnx.helper.set_model_props(model, facts)
    onnx.save(model, tmp_path / "net.onnx")
    read = import_graph(tmp_path / "net.onnx")
    assert read.class_names == NAMES
    assert read.preprocessing.mean == (0.1, 0.2, 0.3)
    assert not any("does not state" in note for note in read.notes)
    assert import_graph(tmp_path / "net.onnx", class_names=("a", "b", "c", "d")).class_names[0] == "a"
    onnx.helper.set_model_props(model, {"names": "['a', 'b']"})
    onnx.save(model, tmp_path / "net.onnx")
    wrong = import_graph(tmp_path / "net.onnx")
    assert wrong.class_names == ("0", "1", "2", "3")
    assert "names 2 classes and the model has 4 outputs" in wrong.notes[0]
