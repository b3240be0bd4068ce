"""A stranger's JSON into frozen dataclasses, field by field, by the kinds their annotations state.

Knows JSON and dataclasses. Knows nothing of what a certificate says; a field that is wrong is named.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from engine.types import UserError

T = TypeVar("T")
_GIVE = "Copy the bundle again, or ask for a new export."
_DEEPEST = 50  # our own certificates nest five deep
_NAMES = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    dict: "an object",
    list: "a list",
    NoneType: "null",
}


def parse(content: bytes) -> dict[str, Any]:
    """Return the JSON object that a certificate's bytes hold; raise UserError if they hold none, or one
    nested beyond reason.
    """
    try:
        value = json.loads(content.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise UserError("certificate.json is not UTF-8 text.", _GIVE) from None
    except RecursionError:
        raise UserError("certificate.json is nested too deeply to be a certificate.", _GIVE) from None
    except ValueError as error:
        raise UserError(f"certificate.json is no JSON text ({str(error)[:80]}).", _GIVE) from None
    if not isinstance(value, dict):
        raise UserError(f"certificate.json holds {_NAMES[type(value)]}, not an object.", _GIVE)
    _require_shallow(value)
    return value


def build(kind: type[T], value: Any, where: str = "") -> T:
    """Return `value` as the dataclass `kind`; raise UserError naming the first field that is missing, unknown
    or of another kind than its annotation says.
    """
    if not isinstance(value, dict):
        _fail(where, value, "an object")
    known = {field.name: field for field in fields(cast(Any, kind))}
    for name in value:
        if name not in known:
            raise UserError(f"the certificate has an unknown field {_path(where, name)}.", _GIVE)
    hints = get_type_hints(kind)
    made: dict[str, Any] = {}
    for name, field in known.items():
        if name in value:
            made[name] = _as(hints[name], value[name], _path(where, name))
        elif not _has_default(field):
            raise UserError(f"the certificate has no field {_path(where, name)}.", _GIVE)
    return kind(**made)


def _as(kind: Any, value: Any, where: str) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if is_dataclass(kind):
        return build(cast(type[Any], kind), value, where)
    if origin is tuple:
        if not isinstance(value, list):
            _fail(where, value, "a list")
        return tuple(_as(inner[0], item, f"{where}[{index}]") for index, item in enumerate(value))
    if origin is Mapping:
        if not isinstance(value, dict):
            _fail(where, value, "an object")
        return {key: _as(inner[1], item, _path(where, key)) for key, item in value.items()}
    if inner and is_dataclass(inner[0]):  # such a record, or nothing
        return None if value is None and NoneType in inner else build(cast(type[Any], inner[0]), value, where)
    return _scalar(inner or (kind,), value, where)


def _scalar(kinds: tuple[type, ...], value: Any, where: str) -> Any:
    fits = type(value) in kinds or (type(value) is int and float in kinds)
    if not fits or (isinstance(value, float) and not math.isfinite(value)):
        _fail(where, value, " or ".join(_NAMES[kind] for kind in kinds))
    return value


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _path(where: str, name: str) -> str:
    return f"{where}.{name[:40]}" if where else name[:40]


def _fail(where: str, value: Any, wanted: str) -> None:
    place = f"field {where}" if where else "content"
    raise UserError(f"the certificate's {place} is {_NAMES[type(value)]}; it must be {wanted}.", _GIVE)


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no number that JSON knows")


def _require_shallow(content: dict[str, Any]) -> None:
    level: list[Any] = [content]
    for _ in range(_DEEPEST):
        level = [
            item
            for value in level
            for item in (value.values() if isinstance(value, dict) else value)
            if isinstance(item, (dict, list))
        ]
        if not level:
            return
    raise UserError("certificate.json is nested too deeply to be a certificate.", _GIVE)
