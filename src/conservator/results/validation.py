"""Conversion between dataclasses and plain values, as in JSON, with validation."""

import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from conservator.errors import ConservatorError

Value = TypeVar("Value")


def to_plain(value: Any) -> Any:
    """Return a dataclass as plain values; optional fields that are None by default are left out."""
    if is_dataclass(value):
        items = ((item, getattr(value, item.name)) for item in fields(value))
        return {
            item.name: to_plain(content) for item, content in items if content is not None or item.default is MISSING
        }
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: to_plain(item) for name, item in value.items()}
    return value


def from_plain(kind: type[Value], value: Any, path: str) -> Value:
    """Return plain values as a dataclass.

    Args:
        kind: The dataclass, or the type of one of its fields: a number, a string, a tuple, a mapping or a union.
        value: The plain values.
        path: Name of the value in error messages.

    Raises:
        ConservatorError: a value is missing, unknown or of another type.
    """
    return _convert(kind, value, path)  # type: ignore[no-any-return]


def _convert(kind: Any, value: Any, path: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _convert_dataclass(kind, value, path)
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        (kind,) = (argument for argument in arguments if argument is not NoneType)
        return _convert(kind, value, path)
    if origin is tuple and isinstance(value, list | tuple):
        if arguments[-1] is not Ellipsis and len(value) != len(arguments):
            raise ConservatorError(f"{path} must have {len(arguments)} values, got {len(value)}")
        kinds = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else arguments
        return tuple(
            _convert(item, part, f"{path}[{index}]")
            for index, (item, part) in enumerate(zip(kinds, value, strict=True))
        )
    if origin is dict and isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {name: _convert(arguments[1], item, f"{path}.{name}") for name, item in value.items()}
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is float and is_number and abs(value) <= sys.float_info.max:  # also excludes NaN and infinity
        return float(value)
    if kind in (int, str, bool) and type(value) is kind:
        return value
    raise ConservatorError(f"{path} must be {getattr(kind, '__name__', kind)}, got {str(value)[:40]!r}")


def _convert_dataclass(kind: Any, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise ConservatorError(f"{path} must be an object, got {str(value)[:40]!r}")
    hints, declared = get_type_hints(kind), fields(kind)
    unknown = value.keys() - {item.name for item in declared}
    missing = [item.name for item in declared if item.default is MISSING and item.name not in value]
    if unknown or missing:
        problem = f"has no {missing[0]!r}" if missing else f"has an unknown entry {min(unknown)!r}"
        raise ConservatorError(f"{path} {problem}")
    return kind(**{name: _convert(hints[name], item, f"{path}.{name}") for name, item in value.items()})
