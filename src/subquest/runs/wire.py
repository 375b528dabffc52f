"""Records as plain tuples, for the way to the process that writes them.

`codec.to_dict` names every field of every record; whoever produces episodes would spend more on the names than on the
values. So only the values travel, in the order of the fields, and the other side names them:

    Event(3, "turn", 0.05, "1.1", {...})   ->   (3, "turn", 0.05, "1.1", {...})   ->   {"seq": 3, "kind": "turn", ...}
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple


class _Way(NamedTuple):
    there: Any
    """A record, or records, to values; None where the value travels as it is."""
    back: Any
    """Those values to what `codec.to_dict` gives; None where they are that already."""


def values_of(record: Any) -> Sequence[Any]:
    """The values of a record, those of the records in it included."""
    found: Sequence[Any] = _record(type(record)).there(record)
    return found


def named(cls: type[Any], values: Sequence[Any]) -> dict[str, Any]:
    """What `codec.to_dict` gives for the record of that class that had these values."""
    found: dict[str, Any] = _record(cls).back(values)
    return found


def _record(cls: Any) -> _Way:
    return _compiled(cls)


@functools.cache
def _compiled(cls: Any) -> _Way:
    hints = typing.get_type_hints(cls)
    fields = dataclasses.fields(cls)
    values: Callable[[Any], Any] = attrgetter(*(f.name for f in fields))
    ways = [_way(hints[f.name]) for f in fields]
    inner = [(at, way.there) for at, way in enumerate(ways) if way.there]
    plan = [(f.name, _default(f, way), way.back) for f, way in zip(fields, ways, strict=True)]

    def there(record: Any) -> list[Any]:
        found = list(values(record))
        for at, flatten in inner:
            found[at] = flatten(found[at])
        return found

    def back(found: Any) -> dict[str, Any]:
        return {
            name: value if name_inner is None else name_inner(value)
            for (name, default, name_inner), value in zip(plan, found, strict=True)
            if value != default
        }

    return _Way(there if inner else values, back)


def _way(hint: Any) -> _Way:
    """How a field travels; understood is what `codec` understands."""
    if dataclasses.is_dataclass(hint):
        return _record(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType or origin is typing.Union:
        there, back = _way(next(a for a in arguments if a is not type(None)))
        return _Way(there and _unless_none(there), back and _unless_none(back))
    if origin is tuple:
        item: Any = arguments[0]
        if not dataclasses.is_dataclass(item):
            return _Way(None, list)
        each_there, each_back = _record(item)
        return _Way(lambda records: list(map(each_there, records)), lambda rows: list(map(each_back, rows)))
    return _Way(None, None)


def _unless_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _default(field: Any, way: _Way) -> Any:
    """What the field holds on the way where it has its default."""
    factory = field.default_factory
    default = field.default if factory is dataclasses.MISSING else factory()
    return way.there(default) if way.there and default is not dataclasses.MISSING else default
