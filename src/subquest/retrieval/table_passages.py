"""Rows of a table as passages in which every cell stands beside the name of its column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from ..readers import Part
from ..readers.columns import LOOK, header_of, named
from .splitter import Size, Splitter

MOST = 10_000
"""Passages of one table whose rows are kept elsewhere too; search does not find the rows after them."""
_CAPTION = 100
"""Characters of the rows above the column names that are a title; longer ones are notes."""


class RowSink(Protocol):
    """Keeps whole tables, so that a question can be answered over all rows (`tables`)."""

    def begin(self, names: Sequence[str], place: Mapping[str, str | int], section: Sequence[str]) -> None: ...
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

    def __init__(self, size: Size, sink: RowSink | None = None, *, headed: bool = False) -> None:
        """`headed`: the first row is known to name the columns."""
        self._size = size
        self._headed = headed
        self._sink = sink
        self._waiting: list[Part] | None = []
        self._names: tuple[str, ...] = ()
        self._caption = ""
        self._held: list[tuple[Part, str]] = []
        self._weight = 0
        self._given = 0
        self.unfound = 0
        """Rows that are in no passage."""

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
        at = 0 if self._headed else header_of([part.cells for part in rows])
        if at is None or self._size.count(rows[at].text) > self._size.aim:
            at = -1
        for part in rows[: max(at, 0)]:  # a title, a note
            yield from self._hold(part, " ".join(cell for cell in part.cells if cell))
        yield from self._flush()
        if at >= 0:
            self._names = rows[at].cells
            self._caption = _title_in(rows[:at])
            if self._sink is not None:
                section = rows[at].section
                self._sink.begin(self._names, rows[at].place, (*section, self._caption) if self._caption else section)
            if at + 1 == len(rows):
                yield Rows(rows[at].text, rows[at], rows[at], self._caption)
        for part in rows[at + 1 :]:
            yield from self._add(part)

    def _add(self, part: Part) -> Iterator[Rows]:
        if not self._names:
            yield from self._hold(part, part.text)
            return
        if self._sink is not None:
            self._sink.row(int(part.place.get("row", part.place.get("line", 0))), part.cells)
            if self._given >= MOST:
                self.unfound += 1
                return
        yield from self._hold(part, named(self._names, part.cells))

    def _hold(self, part: Part, text: str) -> Iterator[Rows]:
        count = self._size.count(text)
        if self._held and self._weight + count > self._size.aim * 1.25:
            yield from self._flush()
        if count > 2 * self._size.aim:
            yield from self._wide(part, text)
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

    def _wide(self, part: Part, text: str) -> Iterator[Rows]:
        """A row that is longer than a passage."""
        splitter = Splitter(self._size, markdown=False)
        for passage in [*splitter.line(text), *splitter.end()]:
            self._given += 1
            yield Rows(passage.text, part, part, self._caption)


def _title_in(rows: Sequence[Part]) -> str:
    """The first row with a single short cell; empty where there is none."""
    cells = next((filled for part in rows if len(filled := [c for c in part.cells if c]) == 1), [""])
    return cells[0] if len(cells[0]) <= _CAPTION else ""
