"""The options beside `--teacher`: one set for every command, each in its field of the load request."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

import pytest

from engine.commands import export, predict
from engine.commands.teacher_arguments import add_teacher_arguments, load_request
from engine.teacher.request import LoadRequest
from engine.types import UserError

NOT_AN_OPTION = {"spec", "preprocessing", "max_bytes"}


def parsed(*words: str) -> LoadRequest:
    parser = argparse.ArgumentParser()
    add_teacher_arguments(parser)
    return load_request(parser.parse_args(["--teacher", "net.onnx", *words]))


def test_nothing_stated_is_a_bare_request() -> None:
    assert parsed() == LoadRequest(spec="net.onnx")


def test_every_option_lands_in_its_field(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("ant\n\nbee \n")
    words = "--arch resnet18 --classes 2 --size 48x192 --channels 1 --layout NHWC --mean .5 --std .25"
    words += " --scale 1 --resize none --interpolation bicubic --order BGR"
    assert parsed(*words.split(), "--class-names", str(tmp_path / "names.txt")) == LoadRequest(
        spec="net.onnx",
        arch="resnet18",
        classes=2,
        size=(48, 192),
        channels=1,
        layout="NHWC",
        mean=(0.5,),
        std=(0.25,),
        scale=1.0,
        resize=0,
        interpolation="bicubic",
        order="BGR",
        class_names=("ant", "bee"),
    )


@pytest.mark.parametrize("command", [predict, export], ids=["predict", "export"])
def test_every_command_with_a_teacher_takes_every_field(command: argparse.Namespace) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    options = {action.dest for action in parser._actions}
    assert {field.name for field in fields(LoadRequest)} - NOT_AN_OPTION <= options


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--size big", "224 or 192x256"),
        ("--resize 0", "number of pixels, or none"),
        ("--mean a,b,c", "e.g. 0.485"),
        ("--class-names nowhere.txt", "one class name per line"),
    ],
)
def test_what_cannot_be_understood_is_explained(words: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        parsed(*words.split())
