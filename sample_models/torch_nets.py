"""The two PyTorch digit teachers: a BatchNorm ResNet, and a Vision Transformer built with timm."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import relu

from engine.teacher.importers.timm import timm
from sample_models.digits import N_CLASSES, SIDE


class Block(nn.Module):
    """Two 3x3 convolutions with BatchNorm and a shortcut, projected where the shape changes."""

    def __init__(self, width_in: int, width_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width_out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width_out)
        self.conv2 = nn.Conv2d(width_out, width_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or width_in != width_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(width_in, width_out, 1, stride, bias=False), nn.BatchNorm2d(width_out)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = relu(self.bn1(self.conv1(x)))
        return relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class DigitResNet(nn.Module):
    """A ResNet of eight weighted layers, about 78 thousand parameters, for one-channel images."""

    def __init__(self, n_classes: int = N_CLASSES) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, stride=2, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(16)
        self.blocks = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2))
        self.head = nn.Linear(64, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(relu(self.bn(self.stem(x))))
        logits: Tensor = self.head(x.mean(dim=(2, 3)))
        return logits


def build_vit() -> nn.Module:
    """Return a small Vision Transformer: 64 patches of 4x4 pixels, four blocks of width 64."""
    vision_transformer = timm().models.vision_transformer
    model: nn.Module = vision_transformer.VisionTransformer(
        img_size=SIDE,
        patch_size=4,
        in_chans=1,
        num_classes=N_CLASSES,
        embed_dim=64,
        depth=4,
        num_heads=4,
        mlp_ratio=2.0,
    )
    return model
