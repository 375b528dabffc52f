"""Rows of a table as passages in which every cell stands beside the name of its column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple, Protocol

from ..readers import Part
from ..readers.columns import LOOK, header_of, named, named_cell
from .splitter import Size, Splitter

MOST = 10_000
"""Passages of one table whose rows are kept elsewhere too; search does not find the rows after them. A row that is cut
counts once, however many passages it makes."""
_CAPTION = 100
"""Characters of the rows above the column names that are a title; longer ones are notes. Also those of a row's first
cell that are repeated where the row is cut."""


@dataclass(slots=True)
class LeftOut:
    """What of the tables of a file cannot be found, or not be queried."""

    rows: int = 0
    """Rows of long tables that are in no passage; the table holds them."""
    columns: int = 0
    """Columns of wide tables that are in passages alone."""
    uncomputed: int = 0
    """Formulas of which the file holds no value."""
    undivided: int = 0
    """Rows of so many cells that they are read as one text, without the names of their columns."""


class RowSink(Protocol):
    """Keeps whole tables, so that a question can be answered over all rows (`tables`)."""

    def begin(self, names: Sequence[str], place: Mapping[str, str | int], section: Sequence[str]) -> int:
        """Returns how many of the columns it does not keep."""

    def row(self, number: int, cells: Sequence[str]) -> None: ...
    def end(self) -> None: ...


class Rows(NamedTuple):
    """A passage of rows."""

    text: str
    first: Part
    last: Part
    caption: str = ""
    """What the table is called, by a row above its column names."""
    begins: tuple[tuple[int, int], ...] = ()
    """Where each row begins in the text, and its number in the file."""


class TableRows:
    """Combines rows into passages. The first rows wait until it is clear which one names the columns."""

    def __init__(
        self, size: Size, sink: RowSink | None = None, left_out: LeftOut | None = None, *, headed: bool = False
    ) -> None:
        """`left_out` is counted up; `headed`: the first row is marked as the one that names the columns."""
        self._size = size
        self._left_out = left_out or LeftOut()
        self._headed = headed
        self._sink = sink
        self._waiting: list[Part] | None = []
        self._names: tuple[str, ...] = ()
        self._caption = ""
        self._held: list[tuple[Part, str]] = []
        self._weight = 0
        self._given = 0

    def row(self, part: Part) -> Iterator[Rows]:
        if self._waiting is None:
            yield from self._add(part)
            return
        self._waiting.append(part)
        if len(self._waiting) == LOOK:
            yield from self._begin()

    def end(self) -> Iterator[Rows]:
        yield from self._begin()
        yield from self._flush()
        if self._sink is not None:
            self._sink.end()

    def _begin(self) -> Iterator[Rows]:
        rows, self._waiting = self._waiting or [], None
        if not rows:
            return
        found = header_of([part.cells for part in rows], marked=self._headed)
        at = -1 if found is None else found
        for part in rows[: max(at, 0)]:  # a title, a note
            yield from self._hold(part, " ".join(cell for cell in part.cells if cell))
        yield from self._flush()
        if at >= 0:
            self._names = rows[at].cells
            self._caption = _title_in(rows[:at])
            if self._sink is not None:
                section = rows[at].section
                section = (*section, self._caption) if self._caption else section
                self._left_out.columns += self._sink.begin(self._names, rows[at].place, section)
            if at + 1 == len(rows):
                yield from self._hold(rows[at], rows[at].text)
        for part in rows[at + 1 :]:
            yield from self._add(part)

    def _add(self, part: Part) -> Iterator[Rows]:
        self._left_out.undivided += part.undivided
        if not self._names or part.undivided:
            yield from self._hold(part, part.text)
            return
        if self._sink is not None:
            self._sink.row(int(part.place.get("row", part.place.get("line", 0))), part.cells)
            if self._given >= MOST:
                self._left_out.rows += 1
                return
        yield from self._hold(part, named(self._names, part.cells), self._names)

    def _hold(self, part: Part, text: str, names: Sequence[str] = ()) -> Iterator[Rows]:
        count = self._size.count(text)
        if self._held and self._weight + count > self._size.aim * 1.25:
            yield from self._flush()
        if count > 2 * self._size.aim:
            yield from self._wide(part, names)
            return
        self._held.append((part, text))
        self._weight += count
        if self._weight >= self._size.aim:
            yield from self._flush()

    def _flush(self) -> Iterator[Rows]:
        if self._held:
            self._given += 1
            text = "\n".join(text for _, text in self._held)
            yield Rows(text, self._held[0][0], self._held[-1][0], self._caption, tuple(self._begins()))
        self._held, self._weight = [], 0

    def _begins(self) -> Iterator[tuple[int, int]]:
        at = 0
        for part, text in self._held:
            if (number := part.place.get("row", part.place.get("line"))) is not None:
                yield at, int(number)
            at += len(text) + 1

    def _wide(self, part: Part, names: Sequence[str]) -> Iterator[Rows]:
        """A row that is longer than a passage, cut between its cells. Its parts begin with its first cell, its name."""
        (name, cell), *others = [pair for pair in zip_longest(names, part.cells, fillvalue="") if pair[1]]
        parts = [[piece] for piece in self._pieces(name, cell)]
        first = named_cell(name, _beginning(cell))
        if others and len(parts) > 1:
            parts.append([first])
        weight = self._size.count(parts[-1][0])
        for piece in (piece for other in others for piece in self._pieces(*other)):
            count = self._size.count(piece)
            full = weight >= self._size.aim or weight + count > self._size.aim * 1.25
            if full and parts[-1] != [first]:
                parts.append([first])
                weight = self._size.count(first)
            parts[-1].append(piece)
            weight += count
        self._given += 1
        for cells in parts:
            yield Rows(("; " if names else " | ").join(cells), part, part, self._caption)

    def _pieces(self, name: str, cell: str) -> Iterator[str]:
        """A cell after the name of its column; one that is longer than a passage in several pieces."""
        whole = named_cell(name, cell)
        if self._size.count(whole) <= 2 * self._size.aim:
            yield whole
            return
        splitter = Splitter(self._size, markdown=False)
        for passage in [*splitter.line(cell), *splitter.end()]:
            yield named_cell(name, passage.text)


def _beginning(cell: str) -> str:
    return cell if len(cell) <= _CAPTION else f"{cell[:_CAPTION].rsplit(maxsplit=1)[0]} …"


def _title_in(rows: Sequence[Part]) -> str:
    """The first row with a single short cell; empty where there is none."""
    cells = next((filled for part in rows if len(filled := [c for c in part.cells if c]) == 1), [""])
    return cells[0] if len(cells[0]) <= _CAPTION else ""
