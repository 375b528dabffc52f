"""What a reader yields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import BinaryIO, NamedTuple

Place = Mapping[str, str | int]

NOWHERE: Place = MappingProxyType({})
_GAP = 16
"""Empty cells in a row that are written out; a longer run only says that the sheet is wide."""
CELLS = 1024
"""Cells of a row that are kept apart; those of a wider row are one text."""


class Part(NamedTuple):
    """A piece of a file with one location."""

    text: str
    """Empty for a page without text."""
    place: Place = NOWHERE
    """page, slide, sheet, row or line, where the format has such a thing; counted from 1. `paragraph` is that of its
    first line, counted under each heading; the next one begins after a blank line. What stands above the first is 0."""
    section: tuple[str, ...] = ()
    """The headings above it, outermost first."""
    title: str = ""
    """The title of the whole file, given with its first part."""
    cells: tuple[str, ...] = ()
    """The cells of a row of a table; `text` then shows them as `| cell | cell |`."""
    header: bool = False
    """Whether the row begins a table and is known to name its columns."""
    uncomputed: int = 0
    """Formulas in it, or before it, of which the file holds no value."""

    @property
    def row(self) -> bool:
        return bool(self.cells)

    @property
    def undivided(self) -> bool:
        """Whether it is a row of so many cells that they are one text."""
        return self.cells == (self.text,)


Reader = Callable[[BinaryIO], Iterator[Part]]


def row_of(cells: Sequence[str], place: Place, section: tuple[str, ...] = (), title: str = "") -> Part:
    """A row of a table."""
    kept = [cell.strip() if cell.isprintable() and "  " not in cell else " ".join(cell.split()) for cell in cells]
    while len(kept) > 1 and not kept[-1]:
        kept.pop()
    text = row_text(kept)
    return Part(text, place, section, title, tuple(kept) if len(kept) <= CELLS else (text,))


def row_text(cells: Sequence[str]) -> str:
    """A row as a line; without the empty cells at its end, and a long run of empty ones as `…`."""
    shown: list[str] = []
    empty = 0
    for cell in cells:
        if not cell or not (cell := " ".join(cell.split())):
            empty += 1
            continue
        shown += [""] * empty if empty <= _GAP else ["…"]
        shown.append(cell)
        empty = 0
    return f"| {' | '.join(shown)} |"
