"""The teacher's preprocessing at a file's own size, layout and channels; what owners state; integer
ranges.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.family.model_file import InputForm
from engine.foreign.fitting import fit, range_note, read_sidecar, taken_by
from engine.types import Preprocessing, UserError

BASE = Preprocessing(224, 224, resize=256, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3))


def test_shapes_are_read_as_images() -> None:
    assert taken_by((1, 3, 32, 20)).layout == "NCHW"
    nhwc = taken_by((None, 32, 20, 3))
    assert (nhwc.layout, nhwc.height, nhwc.width, nhwc.channels) == ("NHWC", 32, 20, 3)
    assert taken_by((None, 3, None, None)).height is None
    for shape, words in (
        ((1, 784), "2 axes"),
        ((1, 4, 32, 32), "4 channels"),
        ((1, None, 3, 8), "any number"),
    ):
        with pytest.raises(UserError, match=words):
            taken_by(shape)


def test_a_file_of_another_size_sees_the_same_cut() -> None:
    fitted, notes = fit(BASE, taken_by((1, 3, 112, 112)), {})
    assert fitted == replace(BASE, height=112, width=112, resize=128)
    assert "112 x 112" in notes[0]
    same, quiet = fit(BASE, taken_by((1, 3, 224, 224)), {})
    assert (same, quiet) == (BASE, ())
    open_size, _ = fit(BASE, taken_by((None, None, None, 3)), {})
    assert open_size == replace(BASE, layout="NHWC")


def test_grey_and_colour_are_converted_and_said() -> None:
    grey, notes = fit(BASE, taken_by((1, 224, 224, 1)), {})
    assert grey.channels == 1
    assert grey.mean == pytest.approx((0.4,))
    assert grey.std == pytest.approx((0.25,))
    assert "grey" in notes[0]
    colour, _ = fit(replace(BASE, channels=1, mean=(0.2,), std=(0.3,)), taken_by((1, 3, 224, 224)), {})
    assert colour.mean == (0.2, 0.2, 0.2)


def test_what_the_owner_states_wins() -> None:
    fitted, notes = fit(BASE, taken_by((1, 3, 224, 224)), {"scale": 1.0, "mean": 0, "std": [1, 2, 3]})
    assert (fitted.scale, fitted.mean, fitted.std) == (1.0, (0.0, 0.0, 0.0), (1, 2, 3))
    assert notes == ("It states mean, scale, std.",)
    plain, assumed = fit(None, taken_by((1, 3, 8, 8)), {})
    assert plain == Preprocessing(8, 8)
    assert "0..1" in assumed[0]
    for stated, words in (
        ({"height": 96}, "states height 96"),
        ({"std": [0, 1, 1]}, "std"),
        ({"order": "GBR"}, "RGB or BGR"),
        ({"scale": "big"}, "cannot be used"),
        ({"scale": True}, "scale True"),
    ):
        with pytest.raises(UserError, match=words):
            fit(BASE, taken_by((1, 3, 224, 224)), stated)
    with pytest.raises(UserError, match="size open"):
        fit(None, taken_by((None, 3, None, None)), {})


def test_sidecars_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"scale": 1, "output": "logits", "output_name": "y"}))
    assert read_sidecar(path)["output_name"] == "y"
    for text, words in (
        ("[1]", "no JSON object"),
        ("{", "no JSON object"),
        ("[" * 100_000, "64 kB"),
        ('{"shutdown": 1}', "shutdown"),
        ('{"output": "votes"}', "logits or probabilities"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=words):
            read_sidecar(path)


def test_integers_for_another_range_are_noticed() -> None:
    raw = Preprocessing(8, 8, scale=1.0)
    form = InputForm("x", Preprocessing(8, 8), dtype="uint8", scale=1 / 255, zero_point=0)
    assert range_note(form) is None
    assert "another scaling" in (range_note(replace(form, preprocessing=raw)) or "")
    assert "another scaling" in (range_note(replace(form, scale=1.0)) or "")
    assert range_note(replace(form, preprocessing=raw, scale=1.0)) is None
    assert range_note(replace(form, dtype="float32")) is None
    signed = replace(form, dtype="int8", scale=1 / 64, zero_point=0, preprocessing=BASE)
    assert range_note(signed) is None  # -2 to 2 holds most of -2.5 to 2.4
