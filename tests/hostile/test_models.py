"""Hostile model files of every format: loaded or refused in one line, in a child that survives them all.

The same children read them in the product; what ends one of those is in `tests/guard`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.guard import guarded, limits_for
from engine.types import UserError
from tests.hostile.contract import Contract
from tests.hostile.framework_files import CHECKPOINTS, KERAS, PROGRAMS
from tests.hostile.mutation import mutated
from tests.hostile.onnx_files import classifier
from tests.hostile.strange_models import STRANGE

# Strange, but classifiers all the same.
VALID = {
    *("deepest_ifs", "sparse_initializer", "opset_a_thousand_times", "ir_zero", "long_names"),
    *("batch_of_four_thousand", "two_hundred_thousand_classes", "convolution_of_huge_dilation"),
    *("unknown_fields", "weights_of_denormals"),
    *("metadata: names of other types", "metadata: names with escapes", "metadata: names of surrogates"),
    *("metadata: output unknown", "metadata: candidate unknown"),
}


def become(contents: dict[str, bytes], folder: Path, suffix: str, **stated: Any) -> dict[str, str]:
    """What became of each file, in one guarded child: "" if it was loaded, else why not."""
    files = []
    for index, content in enumerate(contents.values()):
        path = folder / f"{index}{suffix}"
        path.write_bytes(content)
        files.append({"spec": str(path), **stated})
    return dict(zip(contents, _load(files), strict=True))


def _load(files: list[dict[str, Any]]) -> list[str]:
    """The product's way with a child that falls: the file it was at is to blame, the rest is read again."""
    reached, task = 0, "tests.hostile.children:load_all"

    def heard(stage: str, done: int, total: int) -> None:
        nonlocal reached
        reached = done if total else reached

    if not files:
        return []
    limits = replace(limits_for("import"), seconds=15.0)
    try:
        with guarded(task, {"files": files}, subject="it", limits=limits, on_report=heard) as outcome:
            return list(outcome.result)
    except UserError as error:
        return [*_load(files[:reached]), str(error), *_load(files[reached + 1 :])]


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    contents = {name: build() for name, build in STRANGE.items()}
    return become(contents, tmp_path_factory.mktemp("onnx"), ".onnx")


@pytest.mark.slow
@pytest.mark.parametrize("name", STRANGE)
def test_strange_onnx(name: str, strange: dict[str, str]) -> None:
    said = strange[name]
    assert len(said.splitlines()) <= 1
    assert not said or name not in VALID, said


@pytest.mark.slow
def test_damaged_onnx(tmp_path: Path) -> None:
    good = classifier().SerializeToString()
    contents = {str(seed): mutated(good, seed) for seed in range(150)}
    said = become(contents, tmp_path, ".onnx")
    assert any(said.values())
    assert all(len(line.splitlines()) <= 1 for line in said.values())


@pytest.fixture(scope="module")
def keras(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    made = {}
    for suffix in (".keras", ".h5"):
        contents = {name: build() for name, build in KERAS.items() if name.endswith(suffix)}
        made |= become(contents, tmp_path_factory.mktemp("keras"), suffix)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", KERAS)
def test_strange_keras(name: str, keras: dict[str, str]) -> None:
    assert len(keras[name].splitlines()) == 1


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    contents = {name: build() for name, build in PROGRAMS.items()}
    return become(contents, tmp_path_factory.mktemp("pt2"), ".pt2")


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_strange_programs(name: str, programs: dict[str, str]) -> None:
    assert len(programs[name].splitlines()) == 1


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    made = {}
    for suffix in (".safetensors", ".pth"):
        contents = {name: build() for name, build in CHECKPOINTS.items() if name.endswith(suffix)}
        folder = tmp_path_factory.mktemp("checkpoints")
        made |= become(contents, folder, suffix, arch="resnet18", classes=4)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_strange_checkpoints(name: str, checkpoints: dict[str, str]) -> None:
    assert len(checkpoints[name].splitlines()) == 1


SAMPLE = ("names_with_escapes", "a_thousand_inputs", "function_called_conv", "weight_twice", "a_pickle")


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_the_command_line_says_one_line(name: str, contract: Contract) -> None:
    Path("m.onnx").write_bytes(STRANGE[name]())
    Path("names.csv").write_text("row,label\n")
    said = contract.run(
        *("predict", "--teacher", "m.onnx", "--images", ".", "--out", "o.npz"), made=("store",)
    )
    assert said
    assert said.isprintable()
