"""What a model is fed: the bytes of the documented arithmetic, by whatever shorter way they are reached."""

from __future__ import annotations

import numpy as np
import pytest

from engine.family.model_file import InputForm, OutputForm
from engine.foreign.feeding import Feed, encode, shift_of
from engine.foreign.session import decode
from engine.target import input_shape
from engine.types import Preprocessing

PLAIN = Preprocessing(4, 3, layout="NHWC")
CENTRED = Preprocessing(4, 3, layout="NHWC", mean=(0.5,) * 3, std=(0.5,) * 3)
IMAGENET = Preprocessing(4, 3, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
GREY = Preprocessing(4, 3, channels=1, layout="NHWC", mean=(0.2,), std=(0.3,))
FORMS = {
    "reals": InputForm("x", IMAGENET),
    "half precision": InputForm("x", GREY, dtype="float16"),
    "0..1": InputForm("x", PLAIN, dtype="int8", scale=1 / 255, zero_point=-128),
    "-1..1": InputForm("x", CENTRED, dtype="uint8", scale=2 / 255, zero_point=127),
    "grey": InputForm("x", GREY, dtype="int8", scale=1 / 0.3 / 255, zero_point=-77),
    "by channel": InputForm("x", IMAGENET, dtype="int8", scale=0.0186, zero_point=-14),
    "clipped": InputForm("x", PLAIN, dtype="int8", scale=1 / 600, zero_point=-10),
    "coarse": InputForm("x", PLAIN, dtype="uint8", scale=1 / 31),
    "wide": InputForm("x", PLAIN, dtype="int16", scale=1 / 255),
}


def written_out(pixels: np.ndarray, form: InputForm) -> np.ndarray:
    """The documented arithmetic, one channel after the other: pixel * a + b in float32, then code by code."""
    p, dtype = form.preprocessing, np.dtype(form.dtype)
    axis = 1 if p.layout == "NCHW" else 3
    reals = pixels.astype(np.float32)
    for c, (mean, std) in enumerate(zip(p.mean, p.std, strict=True)):
        channel = np.moveaxis(reals, axis, 0)[c]
        channel[...] = channel * np.float32(p.scale / std) + np.float32(-mean / std)
    if dtype.kind == "f":
        return reals.astype(dtype)
    codes = np.rint(reals / np.float32(form.scale)) + form.zero_point
    return np.clip(codes, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_pixel_becomes_what_the_arithmetic_says(form: InputForm, dtype: str) -> None:
    feed, shape = Feed(form, 64), input_shape(form.preprocessing)
    pixels = np.random.default_rng(0).integers(0, 256, (200, *shape)).astype(dtype)
    pixels.flat[:256] = range(256)
    for rows in (slice(0, 64), slice(64, 128), slice(128, 131)):
        fed = feed(pixels[rows])
        assert fed.dtype == form.dtype
        np.testing.assert_array_equal(fed, written_out(pixels[rows], form))


@pytest.mark.parametrize(
    ("name", "shift"),
    [("0..1", 128), ("-1..1", None), ("grey", 128), ("by channel", None), ("clipped", None), ("reals", None)],
)
def test_pixels_are_shifted_only_where_each_has_a_code_of_its_own(name: str, shift: int | None) -> None:
    assert shift_of(FORMS[name]) == shift


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_integers_round_half_to_even_and_stay_in_range(dtype: str, overwrite: bool) -> None:
    form = InputForm("x", PLAIN, dtype=dtype, scale=0.5, zero_point=3)
    reals = np.array([0.0, 0.25, 0.75, -1000, 1000, 1.0], np.float32)
    before, info = reals.copy(), np.iinfo(dtype)
    codes = encode(reals, form, overwrite=overwrite)
    np.testing.assert_array_equal(codes, [3, 3, 5, info.min, info.max, 5])
    assert overwrite or (reals == before).all()
    back = decode(np.array([3, 5], dtype), OutputForm("y", "logits", 2, dtype, 0.5, 3))
    np.testing.assert_array_equal(back, [0.0, 1.0])
