"""The package: what it requires, what is in the wheel, which names are public, and that every file that
pyproject.toml names exists.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import engine

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]


def requirements(file: str) -> dict[str, Requirement]:
    lines = (line.partition("#")[0].strip() for line in (ROOT / file).read_text().splitlines())
    return {found.name: found for line in lines if line for found in [Requirement(line)]}


def named(lines: list[str]) -> dict[str, Requirement]:
    return {found.name: found for found in map(Requirement, lines)}


def test_requirements_and_extras_say_the_same() -> None:
    stated = named([*PROJECT["dependencies"], *EXTRAS["torch"], *EXTRAS["keras"], *EXTRAS["litert"]])
    everything = requirements("requirements.txt")
    everything.pop("matplotlib")  # draws the training images of the samples, which are not in the wheel
    pinned, open_range = everything.pop("torch"), stated.pop("torch")
    assert stated == everything
    (pin,) = pinned.specifier
    assert pin.operator == "=="
    assert open_range.specifier.contains(pin.version)
    assert named(EXTRAS["ray"]) == requirements("requirements-ray.txt")
    (rest,) = map(Requirement, EXTRAS["all"])
    assert rest.extras == set(EXTRAS) - {"all"}


def test_the_core_has_no_framework() -> None:
    assert not set(named(PROJECT["dependencies"])) & {"torch", "timm", "tensorflow", "keras", "ray"}


def patterns() -> list[str]:
    targets = PYPROJECT["tool"]["hatch"]["build"]["targets"]
    return [
        *(pattern.lstrip("/") for target in targets.values() for pattern in target["include"]),
        *PYPROJECT["tool"]["ruff"]["lint"]["per-file-ignores"],
        *PYPROJECT["tool"]["mypy"]["files"],
        *PYPROJECT["tool"]["pytest"]["ini_options"]["testpaths"],
        *PROJECT["license-files"],
        PYPROJECT["tool"]["hatch"]["version"]["path"],
        PROJECT["readme"],
    ]


@pytest.mark.parametrize("pattern", sorted(set(patterns())))
def test_every_file_that_is_named_exists(pattern: str) -> None:
    assert any(ROOT.glob(pattern)), f"pyproject.toml names {pattern}, and there is no such file"


def test_the_wheel_has_every_file_that_a_sample_opens() -> None:
    from engine.samples import SAMPLES

    included = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["include"]
    shipped = {path.name for pattern in included for path in ROOT.glob(pattern.lstrip("/"))}
    needed = {name for sample in SAMPLES.values() for name in (sample.predictions, sample.teacher) if name}
    assert needed <= shipped
    assert (ROOT / "engine" / "py.typed").is_file()


# --- the public names -----------------------------------------------------------------------


def test_every_public_name_is_there_and_documented() -> None:
    documented = (ROOT / "docs" / "api.md").read_text()
    for name in engine.__all__:
        assert getattr(engine, name) is not None
        assert f"`{name}" in documented, f"docs/api.md does not mention {name}"
    assert set(engine.__all__) <= set(dir(engine))


def test_a_type_checker_sees_the_same_homes() -> None:
    tree = ast.parse((ROOT / "engine" / "__init__.py").read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname or alias.name: f"{node.module}:{alias.name}"
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == engine._HOMES


def test_no_public_name_is_a_room() -> None:
    """A submodule becomes an attribute of its package when it is imported, and would replace the function."""
    rooms = {path.stem for path in (ROOT / "engine").iterdir()}
    assert not rooms & set(engine.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = engine.nonsense


def test_importing_the_engine_stays_light() -> None:
    code = "import sys, engine; print(sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    heavy = ("torch", "timm", "keras", "tensorflow", "onnx", "onnxruntime", "streamlit", "pandas", "sklearn")
    assert not {name for name in heavy if f"'{name}'" in done.stdout}
