"""Exported programs: honest files load, and every known way to hide code in one is refused before torch sees
it.
"""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.teacher.importers.exported_program import import_program
from engine.teacher.importers.pt2_file import _is_arithmetic, read_program
from engine.types import Preprocessing, UserError

pytestmark = pytest.mark.slow
LIMIT = 10**8
DYNAMIC = ({0: torch.export.Dim("batch")},)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(4, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(images)).relu()
        return self.head(x.mean((2, 3)).reshape(images.shape[0], -1))


def saved(
    path: Path, model: torch.nn.Module, images: torch.Tensor | None = None, dynamic: Any = DYNAMIC
) -> Path:
    program = torch.export.export(
        model, (torch.zeros(2, 3, 8, 8) if images is None else images,), dynamic_shapes=dynamic
    )
    torch.export.save(program, path)
    return path


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("pt2") / "net.pt2", Net().eval())


def tampered(honest: Path, path: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """A copy of the archive after `change` was applied to its parts (names without their folder)."""
    with zipfile.ZipFile(honest) as archive:
        parts = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    change(parts)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(f"net/{name}", content)
    return path


def edited(part: str, edit: Callable[[Any], None]) -> Callable[[dict[str, bytes]], None]:
    def change(parts: dict[str, bytes]) -> None:
        content = json.loads(parts[part])
        edit(content)
        parts[part] = json.dumps(content).encode()

    return change


class Bomb:
    """Unpickling it would create a file named `fired` in the working directory."""

    def __reduce__(self) -> Any:
        return (open, ("fired", "w"))


def first_node(program: Any) -> Any:
    return program["graph_module"]["graph"]["nodes"][0]


def hide_pickled_weight(parts: dict[str, bytes]) -> None:
    parts["data/weights/weight_0"] = pickle.dumps(Bomb())
    edited(
        "data/weights/model_weights_config.json",
        lambda config: config["config"]["conv.weight"].update(use_pickle=True),
    )(parts)


def hide_pickled_object(parts: dict[str, bytes]) -> None:
    parts["data/constants/opaque_obj_0"] = pickle.dumps(Bomb())


def hide_in_examples(parts: dict[str, bytes]) -> None:
    buffer = io.BytesIO()
    torch.save(Bomb(), buffer)
    parts["data/sample_inputs/model.pt"] = buffer.getvalue()


def hide_in_size(program: Any) -> None:
    sizes = program["graph_module"]["graph"]["tensor_values"]["images"]["sizes"]
    sizes[0]["as_expr"]["expr_str"] = "open('fired', 'w')"


def hide_in_input_name(program: Any) -> None:
    program["graph_module"]["graph"]["inputs"][-1]["as_tensor"]["name"] = "images=open('fired', 'w')"


def hide_in_tree(program: Any) -> None:
    signature = program["graph_module"]["module_call_graph"][0]["signature"]
    signature["in_spec"] = signature["in_spec"].replace("builtins.tuple", "antigravity.Thing")


ATTACKS: dict[str, Callable[[dict[str, bytes]], None]] = {
    "pickled-weight": hide_pickled_weight,
    "pickled-object": hide_pickled_object,
    "pickled-examples": hide_in_examples,
    "native-library": lambda parts: parts.update({"data/aotinductor/model/x.so": b"\x7fELF"}),
    "evaluated-size": edited("models/model.json", hide_in_size),
    "generated-code": edited("models/model.json", hide_in_input_name),
    "imported-tree": edited("models/model.json", hide_in_tree),
    "any-function": edited(
        "models/model.json", lambda program: first_node(program).update(target="torch.hub.load")
    ),
    "file-reader": edited(
        "models/model.json",
        lambda program: first_node(program).update(target="torch.ops.aten.from_file.default"),
    ),
    "no-program": lambda parts: parts.pop("models/model.json") and None,
    "no-json": lambda parts: parts.update({"models/model.json": b"{"}),
}


def test_an_honest_program_is_read(honest: Path) -> None:
    program = read_program(honest, max_bytes=LIMIT)
    assert set(program.state_dict) == set(Net().state_dict())


@pytest.mark.parametrize("name", ATTACKS)
def test_hidden_code_is_refused(
    name: str, honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tampered(honest, tmp_path / "net.pt2", ATTACKS[name])
    with pytest.raises(UserError, match=r"net\.pt2"):
        read_program(path, max_bytes=LIMIT)
    assert not (tmp_path / "fired").exists()


def test_guards_are_never_executed(honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    guard = edited("models/model.json", lambda program: program.update(guards_code=["open('fired', 'w')"]))
    program = read_program(tampered(honest, tmp_path / "net.pt2", guard), max_bytes=LIMIT)
    program.module()(torch.zeros(2, 3, 8, 8))
    assert not (tmp_path / "fired").exists()


def test_sizes_and_damage_are_refused(honest: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unpacks to more"):
        read_program(honest, max_bytes=1000)
    (tmp_path / "cut.pt2").write_bytes(honest.read_bytes()[:2000])
    with pytest.raises(UserError, match="damaged"):
        read_program(tmp_path / "cut.pt2", max_bytes=LIMIT)


def test_programs_that_cannot_be_teachers_are_refused(tmp_path: Path) -> None:
    def message(path: Path) -> str:
        with pytest.raises(UserError) as error:
            import_program(path, max_bytes=LIMIT)
        return str(error.value)

    assert "batches of exactly 2" in message(saved(tmp_path / "fixed.pt2", Net().eval(), dynamic=None))
    assert "training mode" in message(saved(tmp_path / "training.pt2", Net().train()))
    dims = torch.export.Dim("height", min=4), torch.export.Dim("width", min=4)
    path = saved(tmp_path / "open.pt2", Net().eval(), dynamic=({0: DYNAMIC[0][0], 2: dims[0], 3: dims[1]},))
    assert "leaves the image size open" in message(path)
    assert import_program(path, size=(6, 7), max_bytes=LIMIT).preprocessing == Preprocessing(6, 7)


@pytest.mark.parametrize(
    ("size", "is_plain"),
    [
        ("Symbol('s77', positive=True, integer=True)", True),
        ("Pow(Symbol('s0', integer=True), Integer(2))", True),
        ("Mul(Integer(3), Pow(s0, Rational(1, 2)))", True),
        ("Pow(s0, -1) + s0**2 // 3", True),
        ("Pow(s0, Integer(1000000000))", False),
        ("Pow(Pow(s0, 8), 8)", False),
        ("Pow(s0, s0)", False),
        ("s0**(8*8*8*8)", False),
        ("9**99999", False),
        ("1 << 1000000000", False),
        ("Pow(s0)", False),
    ],
)
def test_sizes_are_small_arithmetic(size: str, is_plain: bool) -> None:
    """A power or a shift of a few characters is worked out digit by digit."""
    assert _is_arithmetic(size) == is_plain
