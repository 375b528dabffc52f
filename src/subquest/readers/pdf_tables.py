"""Tables on a page of a PDF, which has none: only words at places.

Words that stand apart from each other on one line are cells. Lines below each other whose cells stand below each other
are a table, if there are at least three of them and their cells are short: long ones are prose in columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

_FEWEST_ROWS = 3
_MOST_BOXES = 2000
"""A page with more boxes of text is a drawing."""
_PROSE = 40
"""Characters of a cell, on average, from which on it is prose."""


class Box(NamedTuple):
    left: float
    bottom: float
    right: float
    top: float


class PageTable(NamedTuple):
    top: float
    bottom: float
    rows: tuple[tuple[str, ...], ...]


def tables_of(page: Any) -> list[PageTable]:
    """The tables of a page (a text page of pypdfium2), from top to bottom."""
    count = page.count_rects()
    if not 2 * _FEWEST_ROWS <= count <= _MOST_BOXES:
        return []
    found = []
    for lines in _grids(_lines([Box(*page.get_rect(n)) for n in range(count)])):
        columns = _columns(lines)
        rows = [_row(page, line, columns) for line in lines]
        rows = _joined(rows, lines)
        filled = [cell for row in rows for cell in row if cell]
        if len(rows) >= _FEWEST_ROWS and sum(map(len, filled)) <= _PROSE * len(filled):
            top, bottom = max(box.top for box in lines[0]), min(box.bottom for box in lines[-1])
            found.append(PageTable(top, bottom, tuple(map(tuple, rows))))
    return found


def _lines(boxes: Sequence[Box]) -> Iterator[list[Box]]:
    """Boxes beside each other, from left to right; those that nearly touch are one."""
    line: list[Box] = []
    for box in sorted(boxes, key=lambda b: (-(b.top + b.bottom), b.left)):
        middle = (box.top + box.bottom) / 2
        if line and not min(b.bottom for b in line) < middle < max(b.top for b in line):
            yield _cells(line)
            line = []
        line.append(box)
    if line:
        yield _cells(line)


def _cells(line: Sequence[Box]) -> list[Box]:
    cells: list[Box] = []
    for box in sorted(line):
        if cells and box.left - cells[-1].right < max(6.0, 0.8 * (box.top - box.bottom)):
            last = cells[-1]
            cells[-1] = Box(last.left, min(last.bottom, box.bottom), max(last.right, box.right), max(last.top, box.top))
        else:
            cells.append(box)
    return cells


def _grids(lines: Iterator[list[Box]]) -> Iterator[list[list[Box]]]:
    """Lines below each other whose cells stand below each other."""
    grid: list[list[Box]] = []
    for line in lines:
        if grid and _continues(grid, line):
            grid.append(line)
            continue
        if len(grid) >= _FEWEST_ROWS:
            yield grid
        grid = [line] if len(line) > 1 else []
    if len(grid) >= _FEWEST_ROWS:
        yield grid


def _continues(grid: Sequence[Sequence[Box]], line: Sequence[Box]) -> bool:
    above, columns = grid[-1], _columns(grid)
    height = max(box.top - box.bottom for box in above)
    if min(box.bottom for box in above) - max(box.top for box in line) > 2.5 * height:
        return False
    at = [_column_of(box, columns) for box in line]
    if None in at or len(set(at)) < len(at):
        return False
    return len(line) > 1 or at[0] != 0  # one cell below another column goes on where the row above ends


def _columns(grid: Sequence[Sequence[Box]]) -> list[tuple[float, float]]:
    """The left and right ends of the columns: those of the widest line, and what stands below them."""
    first = max(grid, key=len)
    columns = [(box.left, box.right) for box in first]
    for line in grid:
        for box in line:
            at = _column_of(box, columns)
            if at is not None:
                columns[at] = min(columns[at][0], box.left), max(columns[at][1], box.right)
    return columns


def _column_of(box: Box, columns: Sequence[tuple[float, float]]) -> int | None:
    """The only column that a box stands in."""
    over = [n for n, (left, right) in enumerate(columns) if box.left < right + 3 and box.right > left - 3]
    return over[0] if len(over) == 1 else None


def _row(page: Any, line: Sequence[Box], columns: Sequence[tuple[float, float]]) -> list[str]:
    cells = [""] * len(columns)
    for box in line:
        at = _column_of(box, columns)
        text = " ".join(str(page.get_text_bounded(box.left, box.bottom, box.right, box.top)).split())
        cells[at if at is not None else 0] = text
    return cells


def _joined(rows: Sequence[Sequence[str]], lines: Sequence[Sequence[Box]]) -> list[list[str]]:
    """The rows; a line without a first cell continues the row above it, if it stands as close as lines of one text."""
    joined: list[list[str]] = []
    for at, row in enumerate(rows):
        height = max(box.top - box.bottom for box in lines[at])
        close = at and min(b.bottom for b in lines[at - 1]) - max(b.top for b in lines[at]) < height
        if joined and not row[0] and close:
            joined[-1] = [" ".join(filter(None, pair)) for pair in zip(joined[-1], row, strict=True)]
        else:
            joined.append(list(row))
    return joined
