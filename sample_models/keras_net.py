"""The Keras digit teacher: a MobileNet-style network of depthwise-separable blocks with BatchNorm."""

from __future__ import annotations

import keras
import numpy as np
from keras import layers
from numpy.typing import NDArray

from engine.types import Ints
from sample_models.digits import N_CLASSES, SIDE

# (stride, output channels) of the inverted-residual blocks
BLOCKS = ((1, 16), (2, 24), (1, 24), (2, 40), (1, 40))
EXPANSION = 4
BATCH = 128


def build_mobilenet() -> keras.Model:
    """Return an untrained network that maps images (n, 32, 32, 1) to probabilities (n, 10)."""
    inputs = keras.Input((SIDE, SIDE, 1))
    x = layers.Conv2D(16, 3, strides=2, padding="same", use_bias=False, name="stem")(inputs)
    x = layers.ReLU(max_value=6)(layers.BatchNormalization(momentum=0.9, name="stem_bn")(x))
    for index, (stride, width) in enumerate(BLOCKS):
        x = _block(x, stride, width, name=f"block{index}")
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(
        inputs, layers.Dense(N_CLASSES, activation="softmax", name="head")(x), name="digit_mobilenet"
    )


def _block(x: keras.KerasTensor, stride: int, width: int, name: str) -> keras.KerasTensor:
    shortcut = x
    x = layers.Conv2D(EXPANSION * x.shape[-1], 1, use_bias=False, name=f"{name}_expand")(x)
    x = layers.ReLU(max_value=6)(layers.BatchNormalization(momentum=0.9, name=f"{name}_expand_bn")(x))
    x = layers.DepthwiseConv2D(3, strides=stride, padding="same", use_bias=False, name=f"{name}_depthwise")(x)
    x = layers.ReLU(max_value=6)(layers.BatchNormalization(momentum=0.9, name=f"{name}_depthwise_bn")(x))
    x = layers.Conv2D(width, 1, use_bias=False, name=f"{name}_project")(x)
    x = layers.BatchNormalization(momentum=0.9, name=f"{name}_project_bn")(x)
    return layers.Add()([x, shortcut]) if x.shape == shortcut.shape else x


def train_mobilenet(
    inputs: NDArray[np.float32], labels: Ints, *, epochs: int, peak_rate: float, seed: int
) -> keras.Model:
    """Build and train with Adam and a cosine learning rate; inputs (n, 32, 32, 1), labels (n,)."""
    keras.utils.set_random_seed(seed)
    model = build_mobilenet()
    schedule = keras.optimizers.schedules.CosineDecay(
        peak_rate, decay_steps=epochs * -(-len(inputs) // BATCH)
    )
    model.compile(keras.optimizers.Adam(schedule), loss="sparse_categorical_crossentropy")
    model.fit(inputs, labels, batch_size=BATCH, epochs=epochs, verbose=0)
    bare = build_mobilenet()  # without the optimizer's state, which would triple the file
    bare.set_weights(model.get_weights())
    return bare
