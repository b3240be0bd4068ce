"""What every importer promises, checked for all of them with the source framework as the oracle."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper
from scipy.special import softmax

from engine.teacher.agreement import random_images
from engine.teacher.graph import save
from engine.teacher.importers.onnx import import_graph
from engine.types import Teacher
from tests.teacher.importers.cases import BUILDERS, PARAMETERS, Case


@pytest.fixture(scope="module", params=PARAMETERS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    build = BUILDERS[request.param]
    return build(tmp_path_factory.mktemp("pt2")) if request.param == "torch-pt2" else build()


def outputs(teacher: Teacher, images: Any, replaced: dict[str, Any] | None = None) -> Any:
    """Run the teacher's graph, with some kernels replaced in a copy of it."""
    model = onnx.load_from_string(teacher.graph)
    for tensor in model.graph.initializer:
        if replaced and tensor.name in replaced:
            tensor.CopyFrom(numpy_helper.from_array(replaced[tensor.name], tensor.name))
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: images})[0]


def probabilities(teacher: Teacher, raw: Any) -> Any:
    return raw if teacher.output == "probabilities" else softmax(raw, axis=1)


def test_outputs_are_those_of_the_source(case: Case) -> None:
    images = random_images(4, case.teacher.preprocessing, seed=7)
    expected, got = case.reference(images), outputs(case.teacher, images)
    assert np.abs(probabilities(case.teacher, expected) - probabilities(case.teacher, got)).max() < 1e-4
    assert np.abs(expected - got).max() < 1e-3 * max(1.0, np.abs(expected).max())


def test_kernels_are_the_raw_weights_under_their_own_names(case: Case) -> None:
    """Bit for bit: a folded BatchNorm would have scaled them."""
    assert case.teacher.kernels
    assert list(case.teacher.weights) == [kernel.name for kernel in case.teacher.kernels]
    for kernel in case.teacher.kernels:
        np.testing.assert_array_equal(case.teacher.weights[kernel.name], case.weights[kernel.name])
        assert kernel.shape == case.weights[kernel.name].shape


def test_kernels_come_in_the_order_they_run(case: Case) -> None:
    names = [kernel.name for kernel in case.teacher.kernels]
    assert len(set(names)) == len(names)
    if case.order is not None:
        assert names == case.order
    elif any(
        "kernel" in name for name in case.weights
    ):  # Keras: every kernel, first and last layer at the ends
        assert set(names) == {name for name in case.weights if name.endswith("kernel")}
        assert names[0].split("/")[0] in ("stem", "conv1_conv", "Conv1")
        assert names[-1].split("/")[0] in ("head", "predictions")


def test_a_replaced_kernel_changes_the_output_and_not_the_teacher(case: Case) -> None:
    images = random_images(2, case.teacher.preprocessing, seed=1)
    before, fingerprint = outputs(case.teacher, images), hashlib.sha256(case.teacher.graph).hexdigest()
    names = [case.teacher.kernels[i].name for i in (0, len(case.teacher.kernels) // 2, -1)]
    for name in names:
        changed = outputs(case.teacher, images, {name: case.teacher.weights[name] * np.float32(-0.5)})
        assert np.abs(changed - before).max() > 0
    assert hashlib.sha256(case.teacher.graph).hexdigest() == fingerprint
    np.testing.assert_array_equal(outputs(case.teacher, images), before)
    with pytest.raises(ValueError, match="read-only"):
        case.teacher.weights[names[0]][:] = 0


def test_batch_size_does_not_matter(case: Case) -> None:
    images = random_images(5, case.teacher.preprocessing, seed=2)
    together = outputs(case.teacher, images)
    apart = np.concatenate([outputs(case.teacher, images[:1]), outputs(case.teacher, images[1:])])
    np.testing.assert_allclose(together, apart, rtol=1e-3, atol=1e-4)


def test_memory_is_that_of_the_parameters(case: Case) -> None:
    kernels = sum(kernel.size * 4 for kernel in case.teacher.kernels)
    stored = sum(np.asarray(value).nbytes for value in case.weights.values())
    assert kernels <= case.teacher.float_bytes
    assert case.teacher.float_bytes == pytest.approx(stored, rel=0.1, abs=20_000)


def test_a_stored_teacher_is_read_back_unchanged(case: Case, tmp_path: Path) -> None:
    save(case.teacher, tmp_path / "teacher.onnx")
    again = import_graph(tmp_path / "teacher.onnx")
    assert again.fingerprint == case.teacher.fingerprint
    for field in (
        "name",
        "source",
        "kernels",
        "preprocessing",
        "class_names",
        "output",
        "float_bytes",
        "notes",
    ):
        assert getattr(again, field) == getattr(case.teacher, field), field
