"""The preview: the answers are the teacher's own, and the pictures are what it was fed."""

import numpy as np
import onnxruntime as ort
import pytest

from engine.predictions.preview import TOP, preview
from engine.target import normalise, open_images, prepare
from tests.tiny_teacher import tiny_teacher


@pytest.fixture
def images(tmp_path):
    rng = np.random.Generator(np.random.PCG64(1))
    np.save(tmp_path / "images.npy", rng.integers(0, 256, (6, 20, 20, 3), dtype=np.uint8))
    return open_images(tmp_path / "images.npy")


def test_answers_against_onnxruntime_alone(images):
    teacher = tiny_teacher()
    found = preview(teacher, images, [4, 1])
    session = ort.InferenceSession(teacher.graph, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    for place, index in enumerate([4, 1]):
        pixels = prepare(images.read(index), teacher.preprocessing)
        logits = session.run(None, {name: normalise(pixels[None], teacher.preprocessing)})[0][0]
        probs = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        expected = np.argsort(-probs)[:TOP]
        assert found.classes[place].tolist() == expected.tolist()
        np.testing.assert_allclose(found.probs[place], probs[expected], atol=1e-5)


def test_pictures_are_what_the_teacher_sees(images):
    teacher = tiny_teacher()
    found = preview(teacher, images, [0])
    p = teacher.preprocessing
    assert found.seen.shape == (1, p.height, p.width, 3)
    assert found.seen.dtype == np.uint8
    assert found.low < found.high
