"""What a record is, how it becomes plain values and back, and how given values are checked against a declaration.

Records are frozen structs of msgspec: they are declared once, by their type hints, and created, compared, copied and
converted in C. Settings and options may also be plain dataclasses, so a user's own system needs no library; what is
nested in one should be a record, because msgspec ignores unknown keys of nested dataclasses.

    class Usage(Record): ...                                        a declaration
    to_dict(usage), from_dict(Usage, data)                          a record to JSON values and back
    checked(Recipe, table, "recipe.toml")                           values of a user as a record; what is wrong is named
    changed(preset, {"alpha": 0.4}, "the reward 'decor'")           a preset with some of its settings changed

Rules of stored JSON: fields with their default value are left out, which keeps traces small; a missing key takes the
field's default; an unknown key is an error, because silently dropped data is lost data.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
import threading
import typing
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta, inspect

from .errors import DataError, UsageError, suggest

T = TypeVar("T")
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
NonNegative = Annotated[float, Meta(ge=0)]
AboveZero = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]


class _DataclassFields:
    """Describes a struct to `dataclasses`: `replace`, `fields` and `asdict` work on records as on dataclasses."""

    def __get__(self, record: Any, cls: type[msgspec.Struct]) -> dict[str, dataclasses.Field[Any]]:
        return _dataclass_fields(cls)


@typing.dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Record(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of all records."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]] = typing.cast(Any, _DataclassFields())


def utf8(text: str) -> str:
    """The text with lone surrogates replaced, which JSON can name but no file or database can hold."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def to_dict(record: Any) -> dict[str, Any]:
    """The record, or dataclass, as JSON-ready dictionaries, sequences and scalars."""
    if isinstance(record, Record):
        with contextlib.suppress(TypeError):  # it holds a value that is not JSON: kept for the JSON writer to refuse
            return typing.cast("dict[str, Any]", msgspec.to_builtins(record))
    return without_defaults(record)


def from_dict(cls: type[T], data: Any) -> T:
    """The inverse of `to_dict`; raises DataError naming the field that does not fit."""
    return checked(cls, data, cls.__name__, error=DataError)


def without_defaults(record: Any) -> dict[str, Any]:
    """Like `to_dict`, but leaves out every value that equals its default; slower, for digests and comparisons.

    `to_dict` leaves out values that are the default object itself, so a float that was computed to be 0.0 stays in.
    """
    out = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if value != (field.default if field.default_factory is dataclasses.MISSING else field.default_factory()):
            out[field.name] = _plain(value)
    return out


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return without_defaults(value)
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def checked(kind: type[T], values: Any, what: str, *, error: type[UsageError] = UsageError, text: bool = False) -> T:
    """The values as a record or dataclass; where they do not fit, an error that begins with `what` and names the key,
    what it must be and what was given. With `text`, numbers and flags may be written as text."""
    if not issubclass(kind, msgspec.Struct) and isinstance(values, Mapping):
        given = _checked_fields(kind, values, what, error)
        for field in dataclasses.fields(typing.cast(Any, kind)):
            if field.name not in given and field.default is field.default_factory is dataclasses.MISSING:
                raise error(f"{what}: missing key {field.name!r}")
        return kind(**given)
    return typing.cast(T, _convert(kind, values, what, "", error, strict=not text))


def changed(record: T, changes: Mapping[str, Any], what: str, *, error: type[UsageError] = UsageError) -> T:
    """The record or dataclass with some fields changed, each checked against its declaration."""
    given: Any = record
    return typing.cast(T, dataclasses.replace(given, **_checked_fields(type(record), changes, what, error)))


def _checked_fields(kind: Any, values: Mapping[str, Any], what: str, error: type[UsageError]) -> dict[str, Any]:
    hints = _hints(kind)
    for key in values:
        if key not in hints:
            raise error(f"{what}: unknown key {key!r}; {suggest(key, hints)}")
    return {key: _convert(hints[key], value, what, key, error) for key, value in values.items()}


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields; Any where msgspec cannot check them or only a type checker can find them."""
    known = dict.fromkeys((field.name for field in dataclasses.fields(kind)), Any)
    with contextlib.suppress(NameError):
        hints = typing.get_type_hints(kind, include_extras=True)
        known |= {name: hints[name] for name in known if _can_check(hints[name])}
    return known


def _can_check(hint: Any) -> bool:
    try:
        return not isinstance(inspect.type_info(hint), inspect.CustomType)
    except TypeError:
        return False


def _convert(kind: Any, values: Any, what: str, key: str, error: type[UsageError], *, strict: bool = True) -> Any:
    _prepare(kind)
    try:
        return msgspec.convert(values, kind, strict=strict)
    except msgspec.ValidationError as failure:
        raise error(_explain(str(failure), kind, values, what, key)) from None
    except UnicodeEncodeError:
        raise error(f"{what}: a key is not valid text") from None


_preparing = threading.Lock()


@functools.cache
def _prepare(kind: Any) -> None:
    """Let msgspec read a declaration before it is used. It does so at the first use, and other threads that use the
    declaration meanwhile see it half read and crash the process (msgspec 0.22)."""
    with _preparing, contextlib.suppress(TypeError):  # `convert` will say what is wrong with it
        msgspec.json.Decoder(kind)


_FAILURE = re.compile(r"(?P<problem>.*?)( - at (?P<key>`key` in )?`\$(?P<path>.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[\.\.\.\]")


def _explain(failure: str, kind: Any, value: Any, what: str, key: str) -> str:
    """Our message for one of msgspec's: where the value is, what it must be, and what it is."""
    found = _FAILURE.fullmatch(failure)
    assert found is not None
    node = inspect.type_info(kind)
    for name, position in _STEP.findall(found["path"] or ""):
        node = _inner(node, name, int(position or 0))
        if name:
            key += f".{name}" if key else name
            value = value[name]
        elif position:
            key += f"[{int(position) + 1}]"
            value = value[int(position)]
        else:
            key = f"each value of {key}"
    place = f"{what}: {key}" if key else what
    problem: str = found["problem"]
    if unknown := re.search(r"unknown field `(.*)`", problem):
        known = [field.name for part in _parts(node) for field in getattr(part, "fields", ())]
        return f"{place}: unknown key {unknown[1]!r}; {suggest(unknown[1], known)}"
    if missing := re.search(r"missing required field `(.*)`", problem):
        return f"{place}: missing key {missing[1]!r}"
    if problem.startswith(("Expected", "Invalid enum value")):
        need = "an object with text as keys" if found["key"] else _need(node)
        return f"{place} must be {need}, not {value!r:.80}"
    return f"{place}: {problem}"  # from a record's own check


def _parts(node: inspect.Type) -> list[inspect.Type]:
    """The types of a union without None, each without its description; any other type alone."""
    if isinstance(node, inspect.Metadata):
        return _parts(node.type)
    if isinstance(node, inspect.UnionType):
        return [inner for part in node.types for inner in _parts(part)]
    return [] if isinstance(node, inspect.NoneType) else [node]


def _inner(node: inspect.Type, name: str, position: int) -> inspect.Type:
    """The type of a field, of an item or of a mapping's values."""
    for part in _parts(node):
        if name:
            for field in getattr(part, "fields", ()):
                if field.name == name:
                    return typing.cast(inspect.Type, field.type)
        elif isinstance(part, inspect.TupleType):
            return part.item_types[position]
        elif inner := getattr(part, "item_type", None) or getattr(part, "value_type", None):
            return typing.cast(inspect.Type, inner)
    return inspect.AnyType()


def _need(node: inspect.Type) -> str:
    """A type in words: `a whole number from 1`."""
    return " or ".join(map(_words, _parts(node)))


def _words(node: inspect.Type) -> str:
    match node:
        case inspect.LiteralType(values=values):
            return f"one of {', '.join(str(value) for value in values if value != '')}"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType() | inspect.FloatType():
            return ("a whole number" if isinstance(node, inspect.IntType) else "a number") + _range(node)
        case inspect.StrType(min_length=least):
            return "text that is not empty" if least else "text"
        case inspect.TupleType(item_types=types):
            return f"a list of {len(types)}, each {_need(types[0])}"
        case inspect.ListType() | inspect.VarTupleType():
            return "a list" + (f" of at most {node.max_length:,}" if node.max_length else "")
        case inspect.DictType() | inspect.StructType() | inspect.DataclassType():
            return "an object"
    return "something else"


def _range(node: inspect.IntType | inspect.FloatType) -> str:
    """Bounds in words: ` from 1 to 10`, ` above 0`."""
    bounds = (("from", node.ge), ("above", node.gt), ("to", node.le), ("to below", node.lt))
    return "".join(f" {word} {_number(bound)}" for word, bound in bounds if bound is not None)


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else str(value)


@functools.cache
def _dataclass_fields(cls: type[msgspec.Struct]) -> dict[str, dataclasses.Field[Any]]:
    declared = []
    for f in msgspec.structs.fields(cls):
        if f.default_factory is not msgspec.NODEFAULT:
            declared.append((f.name, f.type, dataclasses.field(default_factory=f.default_factory)))
        else:
            default = dataclasses.MISSING if f.default is msgspec.NODEFAULT else f.default
            declared.append((f.name, f.type, dataclasses.field(default=default)))
    made: Any = dataclasses.make_dataclass(cls.__name__, declared)
    return typing.cast("dict[str, dataclasses.Field[Any]]", made.__dataclass_fields__)
