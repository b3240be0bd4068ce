"""Open a torch exported program (`.pt2`) without running anything that is inside it.

torch.export.load unpickles, evaluates shape expressions and guards as Python, resolves operators by name
anywhere in torch, and loads native libraries. So the archive is first rebuilt here from parts that are known
to be data, and only that is loaded.
"""

from __future__ import annotations

import ast
import io
import json
import pickle
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import torch

from engine.files.zips import is_bomb
from engine.teacher.reason import reason
from engine.types import UserError

_INSTEAD = "Save it again with torch.export.save from a plain torch.nn.Module, or export it to ONNX."
_ENTRIES = re.compile(
    r"archive_format|archive_version|byteorder|\.data/(version|serialization_id)|models/model\.json"
    r"|data/weights/(weight_\d+|model_weights_config\.json)"
    r"|data/constants/(tensor_\d+|model_constants_config\.json)"
    r"|data/sample_inputs/model\.pt"
)
_CONFIGS = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")
_PROGRAM = "models/model.json"
_EXAMPLES = "data/sample_inputs/model.pt"
_TARGETS = re.compile(
    r"torch\.ops\.(aten|prims)\.\w+(\.\w+)?"
    r"|torch\.ops\.higher_order\.(wrap_with_set_grad_enabled|wrap_with_autocast)"
    r"|_operator\.(getitem|add|sub|mul|floordiv|truediv|mod|pow|neg|eq|ne|lt|le|gt|ge|and_|or_|not_)"
    r"|torch\.sym_(float|int|max|min|not|sum|sqrt|ite)|math\.(ceil|floor|trunc)",
    re.ASCII,
)
_FILE_READERS = re.compile(r"torch\.ops\.aten\.from_file\b")
# Names become part of generated Python code; anything but a dotted name could end a statement there.
_NAME = re.compile(r"[\w.+-]*", re.ASCII)
_FREE_TEXT = ("as_string", "as_strings", "as_strs")  # arguments, always quoted by torch
_OPAQUE = ("as_custom_obj", "as_operator", "as_opaque")
_TREES = ("builtins.tuple", "builtins.list", "builtins.dict", None)
_LARGEST_EXPONENT = 8
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)  # none that shifts bits
_ARITHMETIC = [
    "Symbol",
    "Integer",
    "Float",
    "Rational",
    "Add",
    "Mul",
    "Pow",
    "Max",
    "Min",
    "Mod",
    "Abs",
    "And",
    "Or",
    "Not",
    "floor",
    "ceiling",
    "Equality",
    "Unequality",
    "GreaterThan",
    "LessThan",
    "StrictGreaterThan",
    "StrictLessThan",
    "FloorDiv",
    "CeilDiv",
    "CleanDiv",
    "ModularIndexing",
    "PythonMod",
    "IntTrueDiv",
    "FloatTrueDiv",
    "TruncToInt",
    "CeilToInt",
]


def read_program(path: Path, *, max_bytes: int) -> torch.export.ExportedProgram:
    """Load the exported program in `path`.

    Raises UserError if the archive is damaged, too large, or holds pickles, compiled code or unknown
    operators.
    """
    parts = _read_parts(path, max_bytes)
    for name in _CONFIGS:
        _refuse_pickled(_parse(parts, name, path), path)
    _refuse_code_in_examples(parts[_EXAMPLES], path)
    parts[_PROGRAM] = json.dumps(_plain(_parse(parts, _PROGRAM, path), path)).encode()
    clean = io.BytesIO()
    with zipfile.ZipFile(clean, "w", zipfile.ZIP_STORED) as archive:
        for name, content in parts.items():
            archive.writestr(f"model/{name}", content)
    clean.seek(0)
    try:
        program = torch.export.load(clean)
    except (
        RuntimeError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        AssertionError,
        IndexError,
    ) as error:
        raise UserError(f"torch cannot load {path.name}: {reason(error)}. {_INSTEAD}") from error
    for name, tensors in zip(_CONFIGS, (program.state_dict, program.constants), strict=True):
        _refuse_cut(_parse(parts, name, path)["config"], parts, tensors, path)
    if sum(tensor.numel() * tensor.element_size() for tensor in program.state_dict.values()) > max_bytes:
        raise UserError(
            f"{path.name} declares more than {max_bytes / 1e9:.2f} GB of weights, the limit for a teacher."
        )
    return program


def _read_parts(path: Path, max_bytes: int) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if is_bomb(entries) or sum(entry.file_size for entry in entries) > max_bytes:
                raise UserError(
                    f"{path.name} unpacks to more than the {max_bytes / 1e9:.2f} GB allowed for a teacher, or"
                    " to 200 times its size."
                )
            parts = {}
            for name in archive.namelist():
                part = name.partition("/")[2]
                if part.startswith("extra/"):
                    continue
                if not _ENTRIES.fullmatch(part):
                    raise UserError(
                        f"{path.name} contains {part or name!r}, which is not plain program data. {_INSTEAD}"
                    )
                parts[part] = archive.read(name)
    except (
        zipfile.BadZipFile,
        zlib.error,
        OSError,
        EOFError,
        ValueError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise UserError(f"{path.name} is damaged or no .pt2 file. {_INSTEAD}") from error
    missing = [name for name in (*_CONFIGS, _PROGRAM, _EXAMPLES) if name not in parts]
    if missing:
        raise UserError(f"{path.name} lacks {missing[0]}; it may come from an old torch. {_INSTEAD}")
    return parts


def _parse(parts: dict[str, bytes], name: str, path: Path) -> Any:
    try:
        return json.loads(parts[name])
    except ValueError as error:
        raise UserError(f"{path.name} is damaged: {name} is no JSON. {_INSTEAD}") from error


def _refuse_pickled(config: Any, path: Path) -> None:
    entries = config.get("config", {}) if isinstance(config, dict) else None
    if not isinstance(entries, dict):
        raise UserError(f"{path.name} is damaged: its list of weights cannot be read. {_INSTEAD}")
    for name, entry in entries.items():
        if not isinstance(entry, dict) or entry.get("use_pickle") is not False or not _NAME.fullmatch(name):
            raise UserError(
                f"{path.name} stores {name!r} as a pickle, which runs code when it is opened. {_INSTEAD}"
            )


def _refuse_cut(config: dict[str, Any], parts: dict[str, bytes], tensors: dict[str, Any], path: Path) -> None:
    """Refuse weights with fewer bytes than they state: torch takes an empty one for zeros of any shape."""
    for name, entry in config.items():
        tensor = tensors.get(name)
        held = [
            len(parts.get(f"data/{kind}/{entry.get('path_name')}", b"")) for kind in ("weights", "constants")
        ]
        if isinstance(tensor, torch.Tensor) and tensor.untyped_storage().nbytes() > max(held):
            raise UserError(f"{path.name} is damaged: the weight {name!r} is cut short. {_INSTEAD}")


def _refuse_code_in_examples(content: bytes, path: Path) -> None:
    try:
        torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise UserError(
            f"the example inputs in {path.name} hold more than tensors, and opening them would run code."
            f" {_INSTEAD}"
        ) from error


def _plain(value: Any, path: Path, key: str = "") -> Any:
    """A copy of the program's description without anything that torch would evaluate; refuses what cannot be
    left out.
    """
    if isinstance(value, dict):
        for name in value:
            _require(isinstance(name, str) and _NAME.fullmatch(name), f"the name {name!r}", path)
            _require(name not in _OPAQUE or value[name] is None, f"an object ({name})", path)
        return {name: _plain_field(name, item, path) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, path, key) for item in value]
    if isinstance(value, str) and key not in _FREE_TEXT:
        _require(_NAME.fullmatch(value), f"the text {value[:60]!r}", path)
    return value


def _plain_field(name: str, item: Any, path: Path) -> Any:
    if name == "metadata":
        return {}  # traces for people; torch looks up the functions they name
    if name == "guards_code":
        return []  # checks on the input, executed as Python; the importer checks shapes itself
    if name == "target" and isinstance(item, str):
        _require(_TARGETS.fullmatch(item) and not _FILE_READERS.match(item), f"the operator {item!r}", path)
        return item
    if name == "expr_str":
        _require(isinstance(item, str) and _is_arithmetic(item), f"the size {str(item)[:60]!r}", path)
        return item
    if name in ("in_spec", "out_spec") and item:
        _require(
            isinstance(item, str) and _is_plain_tree(item),
            f"an input or output of a special type ({name})",
            path,
        )
        return item
    return _plain(item, path, name)


def _require(condition: Any, what: str, path: Path) -> None:
    if not condition:
        raise UserError(f"{path.name} contains {what}, which is not plain program data. {_INSTEAD}")


def _is_arithmetic(text: str) -> bool:
    """Whether a size is written with numbers, symbols and arithmetic functions only."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError):
        return False
    powers = [node for node in ast.walk(tree) if _is_power(node)]
    if not all(_is_small_power(node) for node in powers):
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or node.func.id not in _ARITHMETIC:
                return False
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and not _NAME.fullmatch(node.value):
                return False
        elif isinstance(node, ast.Name):
            if node.id not in _ARITHMETIC and not re.fullmatch(r"[su]\d+", node.id):
                return False
        elif not isinstance(
            node, (ast.Expression, ast.keyword, ast.Load, ast.BinOp, ast.UnaryOp, *_OPERATORS, ast.unaryop)
        ):
            return False
    return True


def _is_power(node: ast.AST) -> bool:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Pow"
    return is_call or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow))


def _is_small_power(node: ast.AST) -> bool:
    """Whether a size is raised to a small number and is no power itself: sympy works out every digit."""
    parts = [*node.args] if isinstance(node, ast.Call) else [node.left, node.right]  # type: ignore[attr-defined]
    if len(parts) != 2 or any(_is_power(inner) for part in parts for inner in ast.walk(part)):
        return False
    exponent = list(ast.walk(parts[1]))
    if any(isinstance(inner, ast.BinOp) for inner in exponent):
        return False
    numbers = [inner.value for inner in exponent if isinstance(inner, ast.Constant)]
    names = {inner.id for inner in exponent if isinstance(inner, ast.Name)}
    return names <= {"Integer", "Rational"} and all(
        isinstance(number, int) and number <= _LARGEST_EXPONENT for number in numbers
    )


def _is_plain_tree(text: str) -> bool:
    """Whether a tree of inputs is made of tuples, lists and dicts; torch imports the module of any other
    type.
    """

    def plain(node: Any) -> bool:
        return (
            isinstance(node, dict)
            and node.get("type") in _TREES
            and all(plain(child) for child in node.get("children_spec", []))
        )

    try:
        protocol, tree = json.loads(text)
    except (ValueError, TypeError):
        return False
    return isinstance(protocol, int) and plain(tree)
