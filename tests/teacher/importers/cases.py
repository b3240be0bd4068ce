"""The models every importer is held to: architectures with random weights, and what their own framework says
about them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.teacher.importers.onnx import import_graph
from engine.teacher.importers.timm import timm
from engine.teacher.importers.torch import import_module
from engine.teacher.load import load_teacher
from engine.types import Preprocessing, Teacher

SIZE = 64


@dataclass(frozen=True)
class Case:
    """An imported teacher beside its source: outputs, raw weights by name, and the order in which layers
    first run.
    """

    teacher: Teacher
    reference: Callable[[Any], Any]
    weights: dict[str, Any]
    order: list[str] | None  # None: the source does not say


class TorchNet(torch.nn.Module):
    """Grouped, depthwise and transposed convolutions, BatchNorm, a layer that is used twice, attention, a
    functional kernel.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, stride=4, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(8)
        self.depthwise = torch.nn.Conv2d(8, 16, 3, padding=1, groups=8)
        self.grouped = torch.nn.Conv2d(16, 16, 3, padding=1, groups=4)
        self.up = torch.nn.ConvTranspose2d(16, 12, 2, stride=2, groups=2)
        self.down = torch.nn.ConvTranspose2d(12, 8, 2, stride=2)
        self.tokens = torch.nn.Conv1d(8, 8, 8, stride=8)
        self.mixer = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.shared = torch.nn.Linear(8, 8)
        self.bare = torch.nn.Parameter(torch.randn(8, 8))
        self.embedding = torch.nn.Parameter(torch.randn(1, 512, 8))
        self.head = torch.nn.Linear(8, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.stem(images)).relu()
        x = self.down(self.up(self.grouped(self.depthwise(x))))
        x = self.tokens(x.flatten(2)).transpose(1, 2) + self.embedding
        x = x + self.mixer(x, x, x, need_weights=False)[0]
        x = self.shared(self.shared(x).relu()) @ self.bare
        return self.head(x.mean(1))


def randomize(model: torch.nn.Module) -> torch.nn.Module:
    """Weights and BatchNorm statistics that make folding visible."""
    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 2.0)
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
    return model.eval()


def execution_order(model: torch.nn.Module, images: torch.Tensor) -> list[str]:
    """Names of the kernels of Conv and Linear modules in the order they first run, from hooks."""
    seen: list[str] = []
    layers = (torch.nn.modules.conv._ConvNd, torch.nn.Linear)
    hooks = [
        module.register_forward_pre_hook(lambda _module, _input, name=f"{name}.weight": seen.append(name))
        for name, module in model.named_modules()
        if isinstance(module, layers)
    ]
    with torch.no_grad():
        model(images)
    for hook in hooks:
        hook.remove()
    return list(dict.fromkeys(seen))


def torch_case(model: torch.nn.Module, teacher: Teacher, size: int = SIZE) -> Case:
    def reference(images: Any) -> Any:
        with torch.no_grad():
            return model(torch.from_numpy(images)).numpy()

    weights = {name: value.detach().numpy() for name, value in model.named_parameters()}
    return Case(teacher, reference, weights, execution_order(model, torch.zeros(2, 3, size, size)))


def torch_hand() -> Case:
    model = randomize(TorchNet())
    case = torch_case(model, import_module(model, name="hand", input_shape=(3, SIZE, SIZE)))
    # The attention calls its weights without a module, and a bare parameter has none: their places are known
    # from `forward`.
    order = [name for name in case.order or [] if not name.startswith("mixer")]
    at = order.index("shared.weight")
    order[at:at] = ["mixer.in_proj_weight", "mixer.out_proj.weight"]
    order.insert(order.index("head.weight"), "bare")
    return Case(case.teacher, case.reference, case.weights, order)


def torch_file(folder: Path) -> Case:
    model = randomize(TorchNet())
    path = folder / "hand.pt2"
    program = torch.export.export(
        model, (torch.zeros(2, 3, SIZE, SIZE),), dynamic_shapes=({0: torch.export.Dim("batch")},)
    )
    torch.export.save(program, path)
    case = torch_case(model, load_teacher(path))
    return Case(case.teacher, case.reference, case.weights, None)


def timm_case(name: str, size: int, **options: Any) -> Case:
    model = randomize(timm().create_model(name, num_classes=7, **options))
    preprocessing = Preprocessing(size, size, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    return torch_case(
        model, import_module(model, name=name, input_shape=(3, size, size), preprocessing=preprocessing), size
    )


def onnx_folded() -> Case:
    """A file as exporters usually write it: fixed batch, BatchNorm folded into the kernels."""
    model = randomize(timm().create_model("resnet10t", num_classes=4))
    program = torch.onnx.export(
        model, (torch.zeros(1, 3, SIZE, SIZE),), dynamo=True, optimize=True, verbose=False
    )
    assert all(node.op_type != "BatchNormalization" for node in program.model_proto.graph.node)
    teacher = import_graph(program.model_proto.SerializeToString(), name="folded")
    case = torch_case(model, teacher)
    return Case(teacher, case.reference, dict(teacher.weights), None)


def keras_case(build: Callable[[], Any]) -> Case:
    import keras

    from engine.teacher.importers.keras import import_model

    keras.utils.set_random_seed(0)
    model = build()
    generator = np.random.default_rng(0)
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.moving_mean.assign(generator.normal(0, 0.3, layer.moving_mean.shape))
            layer.moving_variance.assign(generator.uniform(0.5, 2.0, layer.moving_variance.shape))
    teacher = import_model(model, name=model.name)
    weights = {variable.path: np.asarray(variable) for variable in model.variables}
    return Case(teacher, lambda images: np.asarray(model(images, training=False)), weights, None)


def keras_hand() -> Any:
    import keras
    from keras import layers

    images = keras.Input((32, 32, 3))
    x = layers.Conv2D(8, 3, use_bias=False, name="stem")(images)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.SeparableConv2D(12, 3, depth_multiplier=2, name="separable")(x)
    x = layers.DepthwiseConv2D(3, depth_multiplier=2, name="depthwise")(x)
    x = layers.Conv2DTranspose(10, 3, strides=2, name="up")(x)
    x = layers.Conv2D(20, 3, groups=2, name="grouped")(x)
    x = layers.Reshape((-1, 20))(layers.MaxPool2D(8)(x))
    x = layers.MultiHeadAttention(2, 5, name="attention")(x, x)
    shared = layers.Dense(20, name="shared")
    x = layers.GlobalAveragePooling1D()(shared(shared(x)))
    return keras.Model(images, layers.Dense(5, activation="softmax", name="head")(x))


def keras_application(name: str) -> Any:
    import keras

    return getattr(keras.applications, name)(weights=None, input_shape=(SIZE, SIZE, 3), classes=7)


def keras_gelu() -> Any:
    """What Keras' ConvNeXt is made of: a Normalization with given constants, exact GELU, layer scale."""
    import keras
    from keras import layers

    images = keras.Input((32, 32, 3))
    x = layers.Normalization(mean=[123.7, 116.3, 103.5], variance=[3400.0, 3260.0, 3290.0])(images)
    x = layers.Conv2D(8, 4, strides=4, name="stem")(x)
    x = layers.DepthwiseConv2D(3, padding="same", name="depthwise")(x)
    x = layers.Activation("gelu")(layers.Dense(16, name="wide")(layers.LayerNormalization()(x)))
    return keras.Model(images, layers.Dense(5, name="head")(layers.GlobalAveragePooling2D()(x)))


def levit() -> Case:
    """Attention biases that are looked up, and kept from one run to the next; they and the weights of the
    norms behind attention are nought in a new model.
    """
    model = timm().create_model("levit_128s", num_classes=7)
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if "attention_biases" in name or name.endswith("bn.weight"):
            torch.nn.init.normal_(parameter)
    model = randomize(model)
    teacher = import_module(model, name="levit", input_shape=(3, 224, 224))
    return torch_case(model, teacher, 224)


BUILDERS: dict[str, Callable[..., Case]] = {
    "torch-hand": torch_hand,
    "torch-pt2": torch_file,
    "timm-resnet18": functools.partial(timm_case, "resnet18", SIZE),
    "timm-mobilenetv2": functools.partial(timm_case, "mobilenetv2_100", SIZE),
    "timm-efficientnet": functools.partial(timm_case, "efficientnet_b0", SIZE),
    "timm-convnext": functools.partial(timm_case, "convnext_atto", SIZE),
    "timm-vit": functools.partial(timm_case, "vit_tiny_patch16_224", SIZE, img_size=SIZE),
    "timm-swin": functools.partial(
        timm_case, "swin_tiny_patch4_window7_224", 56, img_size=56, depths=(2, 1), num_heads=(3, 6)
    ),
    "timm-ghostnetv2": functools.partial(timm_case, "ghostnetv2_100", SIZE),
    "timm-mobileone": functools.partial(timm_case, "mobileone_s0", SIZE),
    "timm-levit": levit,
    "onnx-folded": onnx_folded,
    "keras-hand": functools.partial(keras_case, keras_hand),
    "keras-gelu": functools.partial(keras_case, keras_gelu),
    "keras-resnet50": functools.partial(keras_case, functools.partial(keras_application, "ResNet50")),
    "keras-mobilenetv2": functools.partial(keras_case, functools.partial(keras_application, "MobileNetV2")),
}
PARAMETERS = [pytest.param(name, marks=() if name == "torch-hand" else pytest.mark.slow) for name in BUILDERS]
