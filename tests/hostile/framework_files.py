"""Keras, torch and safetensors files that swell, reach out, lie or carry code; each a builder of bytes.

Made by hand, without the frameworks: a forger does not use them either.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import h5py
import numpy as np

PICKLE = b"\x80\x02cos\nsystem\nX\x11\x00\x00\x00touch canary-pwned\x85R."


def archive(*entries: tuple[str, bytes | str]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in entries:
            packed.writestr(name, content)
    return file.getvalue()


def hdf5(make: Callable[[h5py.File], None]) -> bytes:
    file = io.BytesIO()
    with h5py.File(file, "w") as content:
        make(content)
    return file.getvalue()


def keras(config: Any, *extra: tuple[str, bytes | str], weights: bytes | None = None) -> bytes:
    """A .keras file of this configuration, and no weights worth the name."""
    text = config if isinstance(config, str | bytes) else json.dumps(config)
    return archive(
        ("config.json", text),
        ("metadata.json", '{"keras_version": "3.5.0", "date_saved": ""}'),
        ("model.weights.h5", hdf5(lambda file: None) if weights is None else weights),
        *extra,
    )


def layer(kind: str, module: str = "keras.layers", **config: Any) -> dict[str, Any]:
    return {
        "module": module,
        "class_name": kind,
        "config": {"name": kind.lower(), **config},
        "registered_name": None,
    }


def sequential(*layers: dict[str, Any]) -> dict[str, Any]:
    first = layer("InputLayer", batch_shape=[None, 8, 8, 3], dtype="float32")
    return {
        "module": "keras",
        "class_name": "Sequential",
        "config": {"name": "model", "layers": [first, *layers]},
        "registered_name": None,
    }


def _links(file: h5py.File) -> None:
    file["x"] = h5py.ExternalLink("/etc/passwd", "/x")


def _soft(file: h5py.File) -> None:
    file["x"] = h5py.SoftLink("/x")


def _circle(file: h5py.File) -> None:
    file.create_group("g")["again"] = file


def _huge(file: h5py.File) -> None:
    file.create_dataset("w", shape=(1 << 40,), dtype="f4", chunks=(1024,))


def _outside(file: h5py.File) -> None:
    file.create_dataset("w", shape=(16,), dtype="u1", external=[("/etc/passwd", 0, 16)])


def _deep_groups(file: h5py.File) -> None:
    group = file
    for _ in range(3000):
        group = group.create_group("g")


def _config(value: Any) -> Callable[[h5py.File], None]:
    return lambda file: file.attrs.__setitem__("model_config", value)


DEEP = "[" * 100_000 + "]" * 100_000
KERAS: dict[str, Callable[[], bytes]] = {
    "code.keras": lambda: keras(sequential(layer("Lambda", function={"class_name": "__lambda__"}))),
    "code by its path.keras": lambda: keras(
        sequential(layer("Lambda", "keras.src.layers.core.lambda_layer", function="os.system"))
    ),
    "another module.keras": lambda: keras(sequential(layer("system", "os"))),
    "saved model layer.keras": lambda: keras(sequential(layer("TFSMLayer", filepath="/etc"))),
    "negative units.keras": lambda: keras(sequential(layer("Dense", units=-5))),
    "units of text.keras": lambda: keras(sequential(layer("Dense", units="many"))),
    "unknown layer.keras": lambda: keras(sequential(layer("Nonsense\n\x1b[2J"))),
    "deep.keras": lambda: keras(DEEP),
    "null.keras": lambda: keras("null"),
    "not a number.keras": lambda: keras('{"class_name": NaN}'),
    "many digits.keras": lambda: keras('{"class_name": ' + "9" * 5000 + "}"),
    "utf-16.keras": lambda: keras('{"a": 1}'.encode("utf-16")),
    "no layers.keras": lambda: keras(sequential()),
    "way out.keras": lambda: keras(sequential(), ("../../canary-written", "x")),
    "absolute.keras": lambda: keras(sequential(), ("/tmp/canary-written", "x")),
    "assets.keras": lambda: keras(sequential(), ("assets/vocabulary.txt", "x")),
    "two configurations.keras": lambda: keras(
        sequential(layer("Dense", units=4)), ("config.json", json.dumps(sequential(layer("Lambda"))))
    ),
    "weights that link.keras": lambda: keras(sequential(), weights=hdf5(_links)),
    "weights without end.keras": lambda: keras(sequential(), weights=hdf5(_huge)),
    "weights of noise.keras": lambda: keras(sequential(layer("Flatten")), weights=b"\x89HDF\r\n\x1a\n" * 50),
    "only metadata.keras": lambda: archive(("metadata.json", "{}")),
    "no zip.keras": lambda: b"hello",
    "empty.keras": lambda: b"",
    "entry without a name.keras": lambda: archive(("a", "x")).replace(b"a", b"\0"),
    "link.h5": lambda: hdf5(_links),
    "soft link.h5": lambda: hdf5(_soft),
    "circle.h5": lambda: hdf5(_circle),
    "declared terabytes.h5": lambda: hdf5(_huge),
    "bytes elsewhere.h5": lambda: hdf5(_outside),
    "deep groups.h5": lambda: hdf5(_deep_groups),
    "no model.h5": lambda: hdf5(lambda file: None),
    "deep model.h5": lambda: hdf5(_config("[" * 30_000 + "]" * 30_000)),
    "model of numbers.h5": lambda: hdf5(_config(np.arange(5))),
    "code.h5": lambda: hdf5(_config(json.dumps(sequential(layer("Lambda"))))),
    "cut.h5": lambda: hdf5(_deep_groups)[:3000],
    "empty.h5": lambda: b"",
    "zeros.h5": lambda: bytes(10_000),
}


def safetensors(header: bytes, data: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header + data


def _tensor(shape: Sequence[int], offsets: Sequence[int], kind: str = "F32") -> bytes:
    return json.dumps({"w": {"dtype": kind, "shape": shape, "data_offsets": offsets}}).encode()


CHECKPOINTS: dict[str, Callable[[], bytes]] = {
    "length that lies.safetensors": lambda: b"\xff\xff\xff\xff\xff\xff\xff\x7f{}",
    "exabytes.safetensors": lambda: safetensors(_tensor([10**9, 10**9], [0, 4]), b"1234"),
    "deep.safetensors": lambda: safetensors(b"[" * 50_000),
    "negative.safetensors": lambda: safetensors(_tensor([-1], [4, 0])),
    "overlapping.safetensors": lambda: safetensors(_tensor([1], [0, 400]), b"1234"),
    "unknown type.safetensors": lambda: safetensors(_tensor([1], [0, 4], "F99"), b"1234"),
    "no object.safetensors": lambda: safetensors(b"null"),
    "not text.safetensors": lambda: safetensors(b"\xff\xfe\xfd"),
    "other names.safetensors": lambda: safetensors(_tensor([1], [0, 4]), b"1234"),
    "nothing.safetensors": lambda: safetensors(b"{}"),
    "empty.safetensors": lambda: b"",
    "pickle.pth": lambda: PICKLE,
    "pickle in a zip.pth": lambda: archive(("archive/data.pkl", PICKLE), ("archive/version", "3")),
    "no pickle in a zip.pth": lambda: archive(("archive/version", "3")),
    "recursion.pth": lambda: b"\x80\x02" + b"(" * 1_000_000,
    "memo.pth": lambda: b"\x80\x02r\xff\xff\xff\x7f.",
    "long text.pth": lambda: b"\x80\x02\x8d" + b"\xff" * 7 + b"\x7f.",
    "empty.pth": lambda: b"",
    "a program.pth": lambda: b"#!/bin/sh\ntouch canary-pwned\n",
}

_WEIGHTS = '{"config": {}}'


def program(model: str, *, weights: str = _WEIGHTS, examples: bytes = PICKLE) -> bytes:
    return archive(
        ("m/models/model.json", model),
        ("m/data/weights/model_weights_config.json", weights),
        ("m/data/constants/model_constants_config.json", _WEIGHTS),
        ("m/data/sample_inputs/model.pt", examples),
    )


PROGRAMS: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "no zip": lambda: b"hello",
    "no parts": lambda: archive(("m/archive_format", "pt2")),
    "examples that run": lambda: program("{}"),
    "deep": lambda: program(DEEP),
    "weights as pickles": lambda: program("{}", weights='{"config": {"w": {"use_pickle": true}}}'),
    "deep weights": lambda: program("{}", weights=DEEP),
    "weights of null": lambda: program("{}", weights="null"),
    "way out": lambda: archive(("m/../../canary-written", "x")),
    "compiled": lambda: archive(("m/data/aotinductor/model/x.so", b"\x7fELF")),
    "a keras file": lambda: keras(sequential()),
}
