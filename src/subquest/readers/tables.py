"""Tables by row: text whose fields are divided by commas, semicolons, tabs or bars.

In a CSV file a quotation mark at the beginning of a field opens one that may hold delimiters and line ends. It may also
be just a quotation mark, in a file without quoting; taken for an opening one it would swallow every row up to the next.
So a quoted field counts as one only if it is closed properly; otherwise its line is read as it is.
"""

from __future__ import annotations

import csv
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import BinaryIO

from ..errors import DataError
from .part import Part, row_of
from .text import lines

FIELD = 16 << 20
"""Characters of one field, and of one line; an unclosed quote must not swallow the file."""
_DELIMITERS = "\t;|,"
"""In this order where several fit: commas occur in numbers and prose too."""
_SAMPLE, _SAMPLE_TEXT = 20, 1 << 16
"""Lines, and characters of them, from which the delimiter is guessed."""


def read_csv(file: BinaryIO) -> Iterator[Part]:
    """The rows with anything in them; the delimiter is guessed from the first lines."""
    for number, row in csv_rows(file):
        if any(cell.strip() for cell in row):
            yield row_of(row, {"line": number})


def csv_rows(file: BinaryIO, delimiter: str = "") -> Iterator[tuple[int, list[str]]]:
    """The first line of each row, and its fields; the delimiter is guessed where none is given."""
    csv.field_size_limit(FIELD)
    source = _Lines(whole_lines(file))
    if not delimiter:
        first = source.ahead(_SAMPLE)
        if first and first[0][:4].lower() == "sep=" and len(first[0].strip()) == 5:  # a line that Excel writes for this
            delimiter = next(source).strip()[4]
        else:
            delimiter = _delimiter(first)
    for line in source:
        begins = source.number
        yield (
            begins,
            next(csv.reader([line], delimiter=delimiter)) if '"' not in line else _row(line, source, delimiter),
        )


class _Lines(Iterator[str]):
    """Lines that can be read ahead and put back."""

    def __init__(self, source: Iterator[str]) -> None:
        self._source = source
        self._waiting: deque[str] = deque()
        self.number = 0
        """Of the last line, from 1."""

    def __next__(self) -> str:
        line = self._waiting.popleft() if self._waiting else next(self._source)
        self.number += 1
        return line

    def ahead(self, count: int) -> list[str]:
        self._waiting += islice(self._source, max(0, count - len(self._waiting)))
        return list(islice(self._waiting, count))

    def put_back(self, given: Sequence[str]) -> None:
        self._waiting.extendleft(reversed(given))
        self.number -= len(given)


def _row(line: str, source: _Lines, delimiter: str) -> list[str]:
    """The row that begins with a line; more lines are read where a quoted field continues in them."""
    taken: list[str] = []
    length = len(line)

    def continued() -> Iterator[str]:
        nonlocal length
        yield line
        for more in source:
            taken.append(more)
            length += len(more)
            if length > FIELD:
                return
            yield more

    try:
        row = next(csv.reader(continued(), delimiter=delimiter, strict=True))
        if not (taken and delimiter == "\t" and any("\t" in field for field in row)):
            return row
    except csv.Error:
        pass
    source.put_back(taken)
    ended = True

    def alone() -> Iterator[str]:
        nonlocal ended
        yield line
        ended = False

    loose = next(csv.reader(alone(), delimiter=delimiter))
    return loose if ended else next(csv.reader([line], delimiter=delimiter, quoting=csv.QUOTE_NONE))


def _delimiter(sample: Sequence[str]) -> str:
    """The delimiter that divides the most rows into the same number of fields, more than one."""
    text = "".join(sample)[:_SAMPLE_TEXT].splitlines(keepends=True)
    best, most = ",", 0.0
    for delimiter in _DELIMITERS:
        widths = Counter(len(row) for row in csv.reader(text, delimiter=delimiter) if row)
        same = max((count for width, count in widths.items() if width > 1), default=0) / max(1, widths.total())
        if same > most:
            best, most = delimiter, same
    return best


def whole_lines(file: BinaryIO) -> Iterator[str]:
    """The lines of a file; a DataError for one that is too long."""
    held: list[str] = []
    length = number = 0
    for piece in lines(file):
        held.append(piece)
        length += len(piece)
        if length > FIELD:
            raise DataError(f"line {number + 1}: longer than {FIELD:,} characters")
        if piece.endswith(("\n", "\r")):
            yield "".join(held) if len(held) > 1 else piece
            held, length = [], 0
            number += 1
    if held:
        yield "".join(held)
