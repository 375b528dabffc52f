"""What a reader yields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import BinaryIO, NamedTuple

Place = Mapping[str, str | int]

NOWHERE: Place = MappingProxyType({})


class Part(NamedTuple):
    """A piece of a file with one location."""

    text: str
    """Empty for a page without text."""
    place: Place = NOWHERE
    """page, slide, sheet, row or line, where the format has such a thing; counted from 1."""
    section: tuple[str, ...] = ()
    """The headings above it, outermost first."""
    title: str = ""
    """The title of the whole file, given with its first part."""
    row: bool = False
    """A row of a table; the first row of a table holds its column names."""


Reader = Callable[[BinaryIO], Iterator[Part]]
