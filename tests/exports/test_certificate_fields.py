"""A forged certificate is refused in one sentence that names the field; nothing else is ever raised.

Forgers can compute the seal, so every forgery here carries the right one.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.exports.certificate import FORMAT, Certificate, _seal
from engine.exports.writing import write
from engine.types import Recipe, UserError
from tests.tiny_teacher import tiny_teacher

STRANGE: list[Any] = [None, True, -1, 1e308, "", "x" * 1000, [], {}, [[]], {"a": None}, [None], 2**70, "\0"]


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("export")
    write(tiny_teacher(), Recipe(4, 100.0, "channel", False), folder)
    made: dict[str, Any] = json.loads((folder / "certificate.json").read_text())
    del made["seal"]
    return made


def sealed(content: dict[str, Any]) -> str:
    return json.dumps({**content, "seal": _seal(content)})


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every field and item."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def changed(content: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    made = copy.deepcopy(content)
    holder = made
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return made


def refusal(content: dict[str, Any]) -> str | None:
    try:
        Certificate.from_json(sealed(content))
    except UserError as error:
        return str(error)
    return None


def test_the_genuine_one_is_read(content: dict[str, Any]) -> None:
    assert Certificate.from_json(sealed(content)).passed


def test_any_value_anywhere_is_read_or_refused_in_a_sentence(content: dict[str, Any]) -> None:
    refusals = [refusal(changed(content, path, value)) for path in places(content) for value in STRANGE]
    assert sum(text is not None for text in refusals) > 500
    assert not any(text and ("\n" in text or len(text) > 400) for text in refusals)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("probes", 0, "limit"), None, "field probes[0].limit is null; it must be a number"),
        (("checks", 0, "passed"), 1, "field checks[0].passed is a whole number; it must be true or false"),
        (("files",), [], "field files is a list; it must be an object"),
        (("files", "model.onnx"), 7, "field files.model.onnx is a whole number; it must be text"),
        (("recipe",), {}, "field recipe is an object; it must be text"),
        (("notes",), "x", "field notes is text; it must be a list"),
        (("extra",), 1, "unknown field extra"),
        (("format",), "anchorpoint certificate 99", "field format"),
    ],
)
def test_the_field_at_fault_is_named(
    content: dict[str, Any], path: tuple[Any, ...], value: Any, words: str
) -> None:
    with pytest.raises(UserError) as caught:
        Certificate.from_json(sealed(changed(content, path, value)))
    assert words in str(caught.value)


def test_a_missing_field_is_named(content: dict[str, Any]) -> None:
    for name in set(content) - {"format", "passed", "notes"}:
        with pytest.raises(UserError, match=f"no field {name}"):
            Certificate.from_json(sealed({key: value for key, value in content.items() if key != name}))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "nested too deeply"),
        ("{}".encode("utf-16"), "not UTF-8"),
        ("{}".encode("utf-32-be"), "no JSON"),
        ("é".encode("latin-1"), "not UTF-8"),
        (b"", "no JSON"),
        (b"null", "holds null"),
        (b"NaN", "no JSON"),
        (b'{"a": Infinity}', "no JSON"),
        (b"9" * 5000, "no JSON"),
        (b'{"format": "' + FORMAT.encode() + b'"}', "no field recipe"),
    ],
)
def test_what_is_no_certificate_is_said(text: bytes, words: str) -> None:
    with pytest.raises(UserError) as caught:
        Certificate.from_json(text)
    assert words in str(caught.value)


def test_the_seal_shows_an_edit(content: dict[str, Any], tmp_path: Path) -> None:
    text = sealed(content).replace(content["recipe"], "b8-tensor-q100")
    with pytest.raises(UserError, match="seal"):
        Certificate.from_json(text)
