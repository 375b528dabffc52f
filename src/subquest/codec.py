"""Frozen dataclasses to and from plain JSON values, without loss and without a dependency.

Converters are compiled once a class from its type hints. Understood: str, int, float, bool, None, `X | None`, Literal,
`tuple[X, ...]`, `Mapping[str, X]`, nested dataclasses and `Any` (kept as it is, so it must be JSON already).
A missing key takes the field's default; an unknown key is an error, because silently dropped data is lost data.
Default-valued fields are left out of the output, which keeps stored traces small.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .errors import DataError

T = TypeVar("T")
Convert = Callable[[Any], Any]


def to_dict(record: Any) -> dict[str, Any]:
    """The record as JSON-ready dictionaries, lists and scalars."""
    hint: Any = type(record)
    found: dict[str, Any] = _encoder(hint)(record)
    return found


def from_dict(cls: type[T], data: Mapping[str, Any]) -> T:
    """The inverse of `to_dict`; raises DataError naming the field that does not fit."""
    hint: Any = cls
    return typing.cast(T, _decoder(hint)(data))


def _same(value: Any) -> Any:
    return value


@functools.cache
def _encoder(hint: Any) -> Convert:
    if dataclasses.is_dataclass(hint):
        return _record_encoder(hint)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        item = _encoder(args[0])
        return list if item is _same else lambda values: [item(v) for v in values]
    if _is_mapping(origin):
        item = _encoder(args[1])
        return dict if item is _same else lambda values: {k: item(v) for k, v in values.items()}
    if _is_union(origin):
        inner = [a for a in args if a is not type(None)]
        item = _encoder(inner[0]) if len(inner) == 1 else _same
        return _same if item is _same else lambda value: None if value is None else item(value)
    return _same


def _record_encoder(cls: Any) -> Convert:
    """A function written for the class, as `dataclasses` writes `__init__`: half the time of a loop over the fields."""
    known: dict[str, Any] = {}
    lines = ["def encode_record(record):", " out = {}"]
    for f, hint in _fields(cls):
        encode, default = _encoder(hint), _default(f)
        known |= {f"encode_{f.name}": encode, f"default_{f.name}": default}
        lines.append(f" value = record.{f.name}")
        condition = "" if default is dataclasses.MISSING else f"if value != default_{f.name}: "
        lines.append(f" {condition}out[{f.name!r}] = {'value' if encode is _same else f'encode_{f.name}(value)'}")
    exec("\n".join([*lines, " return out"]), known)
    return typing.cast(Convert, known["encode_record"])


@functools.cache
def _decoder(hint: Any) -> Convert:
    if dataclasses.is_dataclass(hint):
        return _record_decoder(hint)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        item = _decoder(args[0])
        plain = {args[0]} if args[0] in (str, int, float) else None

        def decode_tuple(values: Any) -> tuple[Any, ...]:
            if not isinstance(values, list | tuple):
                raise DataError(f"expected a list, got {type(values).__name__}")
            if plain and set(map(type, values)) == plain:  # token ids and log-probs: thousands in a trajectory
                return tuple(values)
            return tuple(map(item, values))

        return decode_tuple
    if _is_mapping(origin):
        item = _decoder(args[1])

        def decode_mapping(values: Any) -> dict[str, Any]:
            if not isinstance(values, Mapping):
                raise DataError(f"expected an object, got {type(values).__name__}")
            return {k: item(v) for k, v in values.items()}

        return decode_mapping
    if _is_union(origin):
        inner = [a for a in args if a is not type(None)]
        item = _decoder(inner[0]) if len(inner) == 1 else _same
        return lambda value: None if value is None else item(value)
    if origin is typing.Literal:
        return _literal_decoder(args)
    return _scalar_decoder(hint)


def _record_decoder(cls: Any) -> Convert:
    fields = {f.name: _decoder(h) for f, h in _fields(cls)}
    required = {f.name for f, _ in _fields(cls) if _default(f) is dataclasses.MISSING}

    def decode_record(data: Any) -> Any:
        if not isinstance(data, Mapping):
            raise DataError(f"{cls.__name__}: expected an object, got {type(data).__name__}")
        if unknown := data.keys() - fields.keys():
            raise DataError(f"{cls.__name__}: unknown field {sorted(unknown)[0]!r}")
        if missing := required - data.keys():
            raise DataError(f"{cls.__name__}: missing field {sorted(missing)[0]!r}")
        values = {}
        for name, value in data.items():
            try:
                values[name] = fields[name](value)
            except DataError as error:
                raise DataError(f"{cls.__name__}.{name}: {error}") from None
        return cls(**values)

    return decode_record


def _literal_decoder(choices: tuple[Any, ...]) -> Convert:
    def decode(value: Any) -> Any:
        if value not in choices:
            raise DataError(f"expected one of {', '.join(map(repr, choices))}, got {value!r}")
        return value

    return decode


def _scalar_decoder(hint: Any) -> Convert:
    accepted: dict[Any, tuple[type, ...]] = {str: (str,), int: (int,), float: (float, int), bool: (bool,)}
    if hint not in accepted:
        return _same
    kinds: Any = accepted[hint]

    def decode(value: Any) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and hint is not bool):
            raise DataError(f"expected {hint.__name__}, got {value!r:.80}")
        return float(value) if hint is float else value

    return decode


def _fields(cls: Any) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(cls)
    return [(f, hints[f.name]) for f in dataclasses.fields(cls) if f.init]


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _is_union(origin: Any) -> bool:
    return origin is typing.Union or origin is types.UnionType
