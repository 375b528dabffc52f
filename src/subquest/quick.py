"""Frozen records, made in less than half the time.

An episode makes hundreds of records, and a frozen dataclass sets each field by a call of `object.__setattr__`: a fifth
of all that our code does in an episode. While a `quick` record is being made it is an object of a twin class with the
same slots that is not frozen; then it becomes what it is. Everything else about it stays as `dataclass` made it.

    @quick
    @dataclass(frozen=True, slots=True)
    class Event: ...

It pays from five fields on.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, TypeVar

T = TypeVar("T")

_MISSING: Any = object()
_set_class: Any = object.__dict__["__class__"].__set__
_changes_class = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
"""Without the interpreter lock, a change of class would stop every thread."""


def quick(cls: type[T]) -> type[T]:
    """The class with an `__init__` that does the same sooner. A subclass is made the usual way."""
    if not _changes_class:
        return cls
    record: Any = cls
    fields = dataclasses.fields(record)
    twin = type(f"{cls.__name__} in the making", (), {"__slots__": tuple(f.name for f in fields)})
    usual = record.__init__
    known = {"set_class": _set_class, "frozen": cls, "twin": twin, "usual": usual, "missing": _MISSING}
    parameters, made = [], []
    for f in fields:
        parameters.append(f.name)
        if f.default is not dataclasses.MISSING:
            known[f"default_{f.name}"] = f.default
            parameters[-1] += f"=default_{f.name}"
        elif f.default_factory is not dataclasses.MISSING:
            known[f"make_{f.name}"] = f.default_factory
            parameters[-1] += "=missing"
            made.append(f" if {f.name} is missing: {f.name} = make_{f.name}()")
    names = ", ".join(f.name for f in fields)
    lines = [
        f"def __init__(self, {', '.join(parameters)}):",
        *made,
        f" if self.__class__ is not frozen: return usual(self, {names})",
        " set_class(self, twin)",
        *(f" self.{f.name} = {f.name}" for f in fields),
        " set_class(self, frozen)",
        *([" self.__post_init__()"] if hasattr(cls, "__post_init__") else []),
    ]
    exec("\n".join(lines), known)
    record.__init__ = known["__init__"]
    record.__init__.__qualname__ = usual.__qualname__
    record.__init__.__annotations__ = usual.__annotations__
    return cls
