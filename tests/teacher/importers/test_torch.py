"""Modules of all sorts: what is left alone, what is computed, what cannot be expressed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch
from torch import nn

from engine.teacher.importers.timm import timm
from engine.teacher.importers.torch import import_module
from engine.types import Preprocessing, UserError

pytestmark = pytest.mark.slow


class Scores(nn.Module):
    """Images through `body`, pooled to three scores by `head`."""

    def __init__(self, body: nn.Module, head: nn.Module | None = None) -> None:
        super().__init__()
        self.body, self.head = body, head or nn.Linear(4, 3)

    def forward(self, images: torch.Tensor) -> Any:
        return self.head(self.body(images).mean((2, 3)))


def teacher(model: nn.Module) -> Any:
    return import_module(model, name="m", input_shape=(3, 8, 8))


def test_the_module_is_left_as_it_was() -> None:
    model = Scores(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5)))
    model.body[1].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    teacher(model)
    assert (model.training, model.body[1].training, model.body[2].training) == (True, False, True)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_one_thread_imports_and_the_others_come_back() -> None:
    seen: list[int] = []

    class Counting(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            seen.append(torch.get_num_threads())
            return images

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        import_module(
            nn.Sequential(Counting(), nn.Flatten(), nn.Linear(192, 3)), name="n", input_shape=(3, 8, 8)
        )
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {1}


def test_tied_weights_are_one_kernel() -> None:
    model = Scores(nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)))
    model.body[2].weight = model.body[1].weight
    assert [kernel.name for kernel in teacher(model).kernels] == [
        "body.0.weight",
        "body.1.weight",
        "head.weight",
    ]


def test_half_precision_becomes_float32_and_is_said() -> None:
    result = teacher(Scores(nn.Conv2d(3, 4, 3)).to(torch.bfloat16))
    assert all(array.dtype == np.float32 for array in result.weights.values())
    assert any("converted" in note for note in result.notes)


class Standardized(nn.Conv2d):
    """Weight standardisation: the kernel in use is computed from the stored one."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return nn.functional.conv2d(images, self.effective(), self.bias)

    def effective(self) -> torch.Tensor:
        mean, std = self.weight.mean((1, 2, 3), keepdim=True), self.weight.std((1, 2, 3), keepdim=True)
        return (self.weight - mean) / std


def test_a_computed_weight_is_quantized_as_it_is_used() -> None:
    conv = Standardized(3, 4, 3)
    result = teacher(Scores(conv))
    assert [kernel.name for kernel in result.kernels] == ["body.weight.effective", "head.weight"]
    np.testing.assert_allclose(result.weights["body.weight.effective"], conv.effective().detach(), atol=1e-6)
    assert result.kernels[0].axes == (0,)


class Crossed(nn.Module):
    """Attention with other keys than queries: the packed matrix is sliced in three."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.stem = nn.Conv2d(3, 4, 4, stride=4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens = self.stem(images).flatten(2).transpose(1, 2)
        mixed = self.attention(tokens, tokens + 1, tokens + 1, need_weights=False)[0]
        return mixed.transpose(1, 2).unflatten(2, (2, 2))


def test_slices_of_a_packed_matrix_are_kernels() -> None:
    model = Scores(Crossed())
    result = teacher(model)
    packed = [result.weights[kernel.name] for kernel in result.kernels if "in_proj" in kernel.name]
    assert sum(array.size for array in packed) == model.body.attention.in_proj_weight.numel()


class TwoOutputs(nn.Linear):
    def forward(self, pooled: torch.Tensor) -> Any:
        return super().forward(pooled), pooled


class Branches(nn.Linear):
    def forward(self, pooled: torch.Tensor) -> Any:
        return super().forward(pooled if pooled.sum() > 0 else -pooled)


class FixedBatch(nn.Linear):
    def forward(self, pooled: torch.Tensor) -> Any:
        return super().forward(pooled.reshape(2, 4))


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (TwoOutputs(4, 3), "returns a tuple"),
        (Branches(4, 3), "cannot be expressed as an ONNX graph"),
        (FixedBatch(4, 3), "does not accept 3 images"),
        (nn.Linear(5, 3), "does not accept 2 images of shape"),
        (nn.Linear(4, 1), "at least 2 classes"),
        (nn.Sequential(nn.Linear(4, 3), nn.Sigmoid()), "sigmoid"),
        (nn.Unflatten(1, (2, 2)), "one row of class scores"),
    ],
    ids=["tuple", "branch", "batch", "shape", "one-class", "sigmoid", "spatial"],
)
def test_what_cannot_be_a_teacher_is_refused(head: nn.Module, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        teacher(Scores(nn.Conv2d(3, 4, 3), head))
    assert "\n" not in str(error.value)


def test_softmax_inside_the_model_is_recognised() -> None:
    assert (
        teacher(Scores(nn.Conv2d(3, 4, 3), nn.Sequential(nn.Linear(4, 3), nn.Softmax(1)))).output
        == "probabilities"
    )
    assert (
        teacher(Scores(nn.Conv2d(3, 4, 3), nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(1)))).output
        == "logits"
    )


def test_channels_and_names_must_fit() -> None:
    with pytest.raises(UserError, match="5 channels"):
        import_module(Scores(nn.Conv2d(5, 4, 3)), name="m", input_shape=(5, 8, 8))
    with pytest.raises(UserError, match="2 class names"):
        import_module(Scores(nn.Conv2d(3, 4, 3)), name="m", input_shape=(3, 8, 8), class_names=["a", "b"])
    gray = import_module(Scores(nn.Conv2d(1, 4, 3)), name="m", input_shape=(1, 8, 8), preprocessing=None)
    assert gray.preprocessing == Preprocessing(8, 8, channels=1, mean=(0.0,), std=(1.0,))


class BatchInNumbers(torch.nn.Module):
    """Uses the batch size as a number, which a graph traced for one size cannot show."""

    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(12, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(images.flatten(1)) * (images.shape[0] / (images.shape[0] + 1))


def test_a_model_that_computes_with_its_batch_size_is_traced_for_all_sizes() -> None:
    model = BatchInNumbers().eval()
    teacher = import_module(model, name="m", input_shape=(3, 2, 2))
    session = ort.InferenceSession(teacher.graph, providers=["CPUExecutionProvider"])
    for n in (1, 4):
        images = np.random.default_rng(n).standard_normal((n, 3, 2, 2)).astype(np.float32)
        with torch.no_grad():
            expected = model(torch.from_numpy(images)).numpy()
        np.testing.assert_allclose(session.run(None, {"images": images})[0], expected, atol=1e-6)


@pytest.mark.slow
def test_kernels_of_a_position_network_are_named_in_the_notes() -> None:
    model = timm().create_model(
        "swinv2_cr_tiny_ns_224", num_classes=3, img_size=64, depths=(1, 1), num_heads=(3, 6), window_size=4
    )
    notes = import_module(model, name="swin", input_shape=(3, 64, 64)).notes
    assert any(
        note.startswith("4 kernels are not quantized") and "attn.meta_mlp.fc*.weight" in note
        for note in notes
    )
