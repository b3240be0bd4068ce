"""Teachers imported before, in the store: a model file that was read once need not be translated again.

Knows what an entry's name is made of (the file's bytes, what was stated, the importers' own code and the
frameworks' versions) and that an entry counts only if it is whole, unaltered and this user's own. Anything
else about it is silently ignored: the teacher is imported anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, cast

from engine.files.hashing import sha256_of
from engine.files.whole_file import whole_file
from engine.samples import SAMPLES, sample_teacher
from engine.teacher.request import LoadRequest
from engine.types import Preprocessing, Teacher

_FOLDER = "teachers"
_KEPT = 12  # entries; each is as large as its model
# Another version of one of these may translate the same file in another way.
_PACKAGES = ("onnx", "onnxruntime", "torch", "onnxscript", "timm", "keras", "tensorflow-cpu", "tf2onnx")


def entry_path(store: Path, request: LoadRequest) -> Path | None:
    """Return where the teacher of `request` is kept, or None for a model that cannot be told by its
    content.
    """
    content = _content(request.spec)
    if content is None:
        return None
    stated = {key: value for key, value in request.to_dict().items() if key != "max_bytes"}
    key = {
        # The name is part of what is loaded: it becomes the teacher's. Its folder is not.
        "stated": {**stated, "spec": Path(request.spec).name},
        "content": content,
        "importers": _importers(),
        "packages": {name: _version(name) for name in _PACKAGES},
    }
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return store / _FOLDER / f"{digest[:32]}.onnx"


def read_entry(path: Path, max_bytes: int) -> Teacher | None:
    """Return the teacher kept at `path` if it is whole, unaltered, within the limit and this user's own."""
    try:
        if not _is_own(path) or not _is_own(_digest_path(path)) or path.stat().st_size > max_bytes:
            return None
        content = path.read_bytes()
        if _digest_path(path).read_text(encoding="ascii") != hashlib.sha256(content).hexdigest():
            return None
        os.utime(path)  # the least recently used go first
    except (OSError, UnicodeDecodeError):
        return None
    return _teacher(content)


def write_entry(path: Path, teacher: Teacher, source: str) -> None:
    """Keep a teacher for the next command; a store that cannot be written loses nothing but time."""
    from engine.teacher.graph import save

    if source.endswith(".onnx") and _reaches_outside(Path(source)):
        return  # its bytes do not tell all of its content
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        save(teacher, path)
        path.chmod(0o600)
        with whole_file(_digest_path(path), private=True) as file:
            file.write(sha256_of(path).encode())
        _forget_the_oldest(path.parent)


def _forget_the_oldest(folder: Path) -> None:
    entries = sorted(folder.glob("*.onnx"), key=lambda path: path.stat().st_mtime)
    for path in entries[:-_KEPT]:
        path.unlink(missing_ok=True)
        _digest_path(path).unlink(missing_ok=True)


def _digest_path(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _is_own(path: Path) -> bool:
    """Whether a regular file belongs to this user and nobody else may write it."""
    status = path.lstat()
    owned = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return owned and path.is_file() and not path.is_symlink() and not status.st_mode & 0o022


def _teacher(content: bytes) -> Teacher:
    import onnx

    from engine.teacher.graph import PREFIX, model_facts, stored_weights
    from engine.teacher.kernels import find_kernels
    from engine.teacher.normal_form import weight_bytes

    model = onnx.ModelProto.FromString(content)
    facts = model_facts(model)
    onnx.helper.set_model_props(
        model, {item.key: item.value for item in model.metadata_props if not item.key.startswith(PREFIX)}
    )
    kernels = find_kernels(model.graph)
    return Teacher(
        name=facts["name"],
        source=facts["source"],
        graph=model.SerializeToString(deterministic=True),
        kernels=kernels,
        weights=stored_weights(model.graph, kernels),
        preprocessing=Preprocessing.from_json(facts["preprocessing"]),
        class_names=tuple(json.loads(facts["class_names"])),
        output=cast('Literal["logits", "probabilities"]', facts["output"]),
        float_bytes=weight_bytes(model.graph),
        notes=tuple(json.loads(facts["notes"])),
    )


def _reaches_outside(path: Path) -> bool:
    import onnx

    from engine.teacher.outside_data import every_tensor

    model = onnx.load(path, load_external_data=False)
    return any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in every_tensor(model))


def _content(spec: str) -> Any:
    """What tells a model by its bytes: their sha256, or the names under which the hub's client keeps public
    weights, which are hashes too. None if there is nothing to go by.
    """
    kind, _, name = spec.partition(":")
    if kind == "timm" and name:
        return _public_weights(name)
    if kind == "sample" and name:
        return sha256_of(sample_teacher(name)[0]) if name in SAMPLES and SAMPLES[name].teacher else None
    path = Path(spec).expanduser()
    try:
        return sha256_of(path) if path.is_file() else None
    except OSError:
        return None  # the importer says why it cannot be read


def _public_weights(name: str) -> list[str] | None:
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    arch = "".join(letter for letter in name.partition(".")[0] if letter.isalnum() or letter in "_-")
    return sorted(path.name for path in hub.glob(f"models--timm--{arch}.*/blobs/*")) or None


@cache
def _importers() -> str:
    """A hash of the code that makes a teacher: an entry made by other code is not used."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(f"{path.name}:{path.stat().st_size}:".encode() + path.read_bytes())
    return digest.hexdigest()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
