"""Read the tensors of a `.safetensors` or `.pth` checkpoint without running anything that is inside it.

Knows file formats and the wrappings training scripts add. Knows nothing of architectures.
"""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from engine.teacher.reason import reason
from engine.types import UserError

_WRAPPINGS = ("state_dict_ema", "model_ema", "state_dict", "model_state_dict", "model", "net")
_PREFIXES = ("module.", "_orig_mod.", "model.")  # DataParallel, torch.compile, Lightning
_INSTEAD = "Save only the weights: torch.save(model.state_dict(), 'weights.pth'), or use safetensors."


def read_weights(path: Path, *, max_bytes: int) -> dict[str, torch.Tensor]:
    """Read a state dict, unwrapped from {"state_dict": ...} and freed of prefixes such as "module.".

    Raises UserError if the file is damaged, carries Python objects, or holds no tensors.
    """
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except SafetensorError as error:
            raise UserError(
                f"{path.name} is not a readable safetensors file ({error}). Save or copy it again."
            ) from error
    return _bare(_unwrap(_read_torch(path, max_bytes), path))


def _read_torch(path: Path, max_bytes: int) -> Any:
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                if sum(entry.file_size for entry in archive.infolist()) > max_bytes:
                    raise UserError(
                        f"{path.name} unpacks to more than {max_bytes / 1e9:.1f} GB, the limit for a"
                        " checkpoint."
                    )
        with warnings.catch_warnings():  # torch warns of unusual pickles before it refuses them
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if "Unsupported" not in str(error) and "weights_only" not in str(error):
            raise UserError(
                f"{path.name} is damaged or no PyTorch checkpoint. Save or copy it again."
            ) from error
        raise UserError(
            f"{path.name} contains Python objects beside tensors (a whole pickled model?), and loading those"
            f" would run its code. {_INSTEAD}"
        ) from error
    except (RuntimeError, OSError, EOFError, ValueError, KeyError, IndexError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path.name} is damaged or no PyTorch checkpoint ({reason(error)}). {_INSTEAD}"
        ) from error


def _unwrap(content: Any, path: Path) -> dict[str, torch.Tensor]:
    for key in _WRAPPINGS:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if (
        not isinstance(content, Mapping)
        or not content
        or not all(isinstance(value, torch.Tensor) for value in content.values())
    ):
        raise UserError(f"{path.name} holds no state dict (names with tensors). {_INSTEAD}")
    return dict(content)


def _bare(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    for prefix in _PREFIXES:
        if all(name.startswith(prefix) for name in weights):
            weights = {name.removeprefix(prefix): value for name, value in weights.items()}
    return weights
