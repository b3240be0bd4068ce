"""Resizing, cropping and normalising against Pillow step by step, and against timm's own evaluation
transform.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from engine.target import input_shape, normalise, prepare
from engine.types import Preprocessing

RNG = np.random.default_rng(0)
PLAIN = Preprocessing(12, 10)


def picture(height: int, width: int) -> np.ndarray:
    return RNG.integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("size", [(40, 30), (31, 77), (12, 12), (13, 200)])
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic", "lanczos"])
def test_resize_and_crop(size: tuple[int, int], interpolation: str) -> None:
    image = picture(*size)
    p = Preprocessing(12, 10, resize=14, interpolation=interpolation, layout="NHWC")
    height, width = size
    scale = 14 / min(height, width)
    big = Image.fromarray(image).resize(
        (int(width * scale + 1e-9), int(height * scale + 1e-9)), Image.Resampling[interpolation.upper()]
    )
    left, top = round((big.width - 10) / 2), round((big.height - 12) / 2)
    np.testing.assert_array_equal(prepare(image, p), np.asarray(big)[top : top + 12, left : left + 10])


def test_without_resize_the_image_is_squashed() -> None:
    image = picture(31, 77)
    expected = np.asarray(Image.fromarray(image).resize((10, 12), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(prepare(image, PLAIN), expected.transpose(2, 0, 1))
    same = picture(12, 10)
    np.testing.assert_array_equal(prepare(same, PLAIN), same.transpose(2, 0, 1))


def test_an_extreme_strip_does_not_explode() -> None:
    p = Preprocessing(224, 224, resize=256)
    assert prepare(picture(2, 30_000), p).shape == (3, 224, 224)
    # the memory-saving way agrees with the plain way up to rounding
    gentle = np.asarray(Image.fromarray(picture(8, 8)).resize((3000, 20), Image.Resampling.BICUBIC))
    whole = Image.fromarray(gentle).resize(((256 * 150), 256), Image.Resampling.BILINEAR)
    left = round((whole.width - 224) / 2)
    expected = np.asarray(whole)[16:240, left : left + 224].transpose(2, 0, 1).astype(int)
    assert np.abs(prepare(gentle, p).astype(int) - expected).max() <= 2


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("order", ["RGB", "BGR"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_order_layout_and_arithmetic(layout: str, order: str, dtype: type) -> None:
    image = picture(12, 10).astype(dtype)
    p = replace(PLAIN, layout=layout, order=order, scale=1 / 127.5, mean=(0.9, 1.0, 1.1), std=(1.0, 0.5, 2.0))
    pixels = prepare(image, p)
    assert pixels.shape == input_shape(p)
    assert pixels.dtype == dtype
    channels = image.astype(np.float64)[..., ::-1] if order == "BGR" else image.astype(np.float64)
    expected = (channels / 127.5 - np.array(p.mean)) / np.array(p.std)
    expected = expected.transpose(2, 0, 1) if layout == "NCHW" else expected
    batch = normalise(np.stack([pixels, pixels // 2]), p)
    assert batch.dtype == np.float32
    np.testing.assert_allclose(batch[0], expected, atol=1e-6)
    np.testing.assert_array_equal(normalise(pixels[None], p)[0], batch[0])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("std", [(0.3, 0.3, 0.3), (0.2, 0.3, 0.4)])
def test_a_large_batch_of_small_images_has_the_bytes_of_each_alone(
    layout: str, std: tuple[float, ...]
) -> None:
    p = replace(PLAIN, layout=layout, mean=(0.5, 0.5, 0.5), std=std)
    pixels = np.random.default_rng(0).integers(0, 256, (200, *input_shape(p)), dtype=np.uint8)
    assert pixels.size > 2 * 32768  # more than is normalised at a time
    alone = np.concatenate([normalise(image[None], p) for image in pixels])
    buffer = np.full((256, *input_shape(p)), np.nan, np.float32)
    np.testing.assert_array_equal(normalise(pixels, p, buffer), alone)


def test_gray_teachers_get_one_channel() -> None:
    image = picture(12, 10)
    p = Preprocessing(12, 10, channels=1, mean=(0.0,), std=(1.0,))
    np.testing.assert_array_equal(prepare(image, p)[0], np.asarray(Image.fromarray(image).convert("L")))
    np.testing.assert_allclose(
        prepare(image.astype(np.float32), p)[0], np.asarray(Image.fromarray(image).convert("L")), atol=0.6
    )


def test_float_images_are_resized_as_floats() -> None:
    image = picture(40, 30)
    exact = prepare(image.astype(np.float32), PLAIN)
    assert np.abs(exact - prepare(image, PLAIN)).max() <= 1.01
    assert (exact != np.round(exact)).any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("interpolation", "crop_pct", "size"),
    [("bilinear", 0.875, 64), ("bicubic", 0.9, 48), ("bicubic", 1.0, 64)],
)
def test_timm_prepares_the_same_way(interpolation: str, crop_pct: float, size: int) -> None:
    from engine.teacher.importers.timm import timm

    timm()  # makes timm importable beside a CPU-only torch
    from timm.data import create_transform

    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    transform = create_transform(
        (3, size, size), is_training=False, interpolation=interpolation, mean=mean, std=std, crop_pct=crop_pct
    )
    p = Preprocessing(
        size, size, resize=int(np.floor(size / crop_pct)), interpolation=interpolation, mean=mean, std=std
    )
    for shape in ((80, 120), (301, 77), (64, 64), (50, 51)):
        image = picture(*shape)
        ours = normalise(prepare(image, p)[None], p)[0]
        np.testing.assert_allclose(ours, transform(Image.fromarray(image)).numpy(), atol=2e-6)
