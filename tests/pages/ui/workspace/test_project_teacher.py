"""A stranger's project brings a graph that was never imported here: it is, before anything believes it."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, numpy_helper

from engine.teacher.facts import facts_of, teacher_of
from engine.types import UserError
from pages.ui.workspace.folder import AS_READ, RECORD, new_id
from pages.ui.workspace.project_file import MARK, pack, unpack
from pages.ui.workspace.project_teacher import GRAPH, OUTLINE
from pages.ui.workspace.projects import PROJECTS, projects
from tests.hostile.onnx_files import RUNTIME, STATIC
from tests.tiny_teacher import tiny_teacher

TEACHER = tiny_teacher()
STATED = {"spec": "/home/somebody/secret/tiny.onnx", "size": [16, 16]}


def project(**changed: Any) -> io.BytesIO:
    """A project file with a teacher, some of its parts replaced."""
    files = {
        MARK: b"{}",
        RECORD: json.dumps({"origin": "file", "title": "tiny", "predictions_folder": "/srv/shards"}).encode(),
        GRAPH: TEACHER.graph,
        OUTLINE: json.dumps(facts_of(TEACHER)).encode(),
        AS_READ: json.dumps(
            {"preprocessing": TEACHER.preprocessing.to_json(), "size_is_open": False, "stated": STATED}
        ).encode(),
        **changed,
    }
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANCHORPOINT_LOGS", str(tmp_path / "logs"))
    monkeypatch.setenv("ANCHORPOINT_IMPORT_SECONDS", "4")
    home = tmp_path / "sessions" / new_id()
    home.mkdir(parents=True)
    return home


def test_an_honest_teacher_comes_out_as_it_went_in(folder: Path, tmp_path: Path) -> None:
    home = folder / PROJECTS / unpack(project(), folder, 10**8)
    assert (home / GRAPH).read_bytes() == TEACHER.graph
    found = teacher_of(json.loads((home / OUTLINE).read_bytes()), TEACHER.graph)
    assert found.fingerprint == TEACHER.fingerprint
    assert (found.name, found.notes, found.class_names) == (TEACHER.name, TEACHER.notes, TEACHER.class_names)
    assert json.loads((home / AS_READ).read_bytes())["stated"] == {"size": [16, 16]}
    assert json.loads((home / RECORD).read_bytes())["predictions_folder"] == ""
    (home / AS_READ).write_text(
        json.dumps({"preprocessing": TEACHER.preprocessing.to_json(), "stated": STATED})
    )
    assert b"somebody" not in zipfile.ZipFile(pack(home, tmp_path / "p.zip")).read(AS_READ)


def reaching_out() -> bytes:
    """The same teacher, a kernel of it read from a file of the server."""
    model = onnx.ModelProto.FromString(TEACHER.graph)
    tensor = next(item for item in model.graph.initializer if item.name == TEACHER.kernels[0].name)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "pyproject.toml", "length": str(4 * TEACHER.kernels[0].size)}.items():
        tensor.external_data.add(key=key, value=value)
    content: bytes = model.SerializeToString()
    return content


def other_weights() -> bytes:
    model = onnx.ModelProto.FromString(TEACHER.graph)
    wide = numpy_helper.to_array(model.graph.initializer[0])[:1]
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(wide, model.graph.initializer[0].name))
    content: bytes = model.SerializeToString()
    return content


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({GRAPH: reaching_out()}, id="data in a file of the server"),
        pytest.param({GRAPH: other_weights()}, id="other weights than described"),
        pytest.param({GRAPH: b"no graph"}, id="no graph"),
        pytest.param({GRAPH: STATIC["billion_laughs"]().SerializeToString()}, id="billion laughs"),
        pytest.param({GRAPH: RUNTIME["doubling_loop"]().SerializeToString()}, id="memory without end"),
        pytest.param({OUTLINE: json.dumps({**facts_of(TEACHER), "notes": [7]}).encode()}, id="notes of 7"),
        pytest.param({OUTLINE: json.dumps({**facts_of(TEACHER), "output": "magic"}).encode()}, id="output"),
        pytest.param({OUTLINE: b"[" * 50_000}, id="deep outline"),
    ],
)
def test_a_hostile_teacher_is_refused_and_leaves_nothing(folder: Path, changed: dict[str, bytes]) -> None:
    with pytest.raises(UserError):
        unpack(project(**changed), folder, 10**8)
    assert projects(folder) == ()
    assert not any(path.is_file() for path in folder.rglob("*"))


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({OUTLINE: b"{}"}, id="empty outline"),
        pytest.param({OUTLINE: b'{"name": 7, "kernels": null}'}, id="wrong types"),
    ],
)
def test_a_graph_that_nothing_describes_is_left_out(folder: Path, changed: dict[str, bytes]) -> None:
    home = folder / PROJECTS / unpack(project(**changed), folder, 10**8)
    assert not (home / GRAPH).exists()
    assert not (home / OUTLINE).exists()


@pytest.mark.parametrize("said", [b"{}", b'{"stated": 7}', b'{"stated": {"spec": []}, "preprocessing": "["}'])
def test_what_cannot_have_been_stated_is_forgotten(folder: Path, said: bytes) -> None:
    home = folder / PROJECTS / unpack(project(**{AS_READ: said}), folder, 10**8)
    assert json.loads((home / AS_READ).read_bytes()) == {}
