"""The bundle's own script, run in this process: the probabilities it prints are onnxruntime's on prepared
images.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from PIL import Image
from scipy.special import softmax

from engine.exports import bundle_predict
from engine.teacher.graph import save
from tests.tiny_teacher import tiny_teacher


@pytest.mark.parametrize("output", ["logits", "probabilities"])
@pytest.mark.parametrize("fast", [False, True])
def test_probabilities_are_the_runtimes_own(
    output: str, fast: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = tiny_teacher(output=output)  # type: ignore[arg-type]
    model = tmp_path / "model.onnx"
    save(teacher, model)
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    monkeypatch.setattr(bundle_predict, "FAST", fast)
    names, probabilities = bundle_predict.predict([tmp_path / "a.png"], model)
    p = teacher.preprocessing
    image = ((pixels * p.scale - np.array(p.mean)) / np.array(p.std)).transpose(2, 0, 1)[None]
    session = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    raw = session.run(None, {session.get_inputs()[0].name: image.astype(np.float32)})[0]
    expected = softmax(raw.astype(np.float64), axis=1) if output == "logits" else raw
    assert np.allclose(probabilities, expected, atol=1e-6)
    assert tuple(names) == teacher.class_names
