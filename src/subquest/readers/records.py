"""Records: tables that are written as JSON.

    [{"name": "Ana", "office": "Old Quay"}, ...]      one table
    {"staff": [{...}, ...], "rooms": [{...}, ...]}    a table for each list; what stands beside them is text
    {"name": "Ana", "office": "Old Quay"}             JSON lines: one record a line

A record is an object of plain values, of lists of these, and of objects of both, whose names are joined: the city of an
`address` is in the column `address.city`. A list with anything else in it is no table.

Files are read twice, value by value: first to find the columns, then for the rows. So memory grows with the longest
value, not with the file.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple, TextIO

from ..codec import utf8
from ..errors import DataError
from .archive import DAMAGED
from .part import CELLS, Part, row_of
from .tables import FIELD, whole_lines
from .text import opened, read_json_text

_CHUNK = 1 << 16
_LONGEST_NAME = 200
"""Characters of a column's name; a longer one is a text."""
_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)
"""Numbers stay as they are written."""


class _NotRecords(Exception):
    """Not a table, or not JSON."""


def read_json(file: BinaryIO) -> Iterator[Part]:
    """The rows of records, each table after a row of its columns' names; any other JSON document as text.

    A row is cited with the line on which its record begins or, where several begin on one line, with its number.
    """
    try:
        tables = {table.key: table for table in _tables(file)}
    except _NotRecords:
        tables = {}
    file.seek(0)
    if tables:
        yield from _rows(file, tables)
    else:
        yield from read_json_text(file)


def columns_of_lines(file: BinaryIO, refused: Collection[str]) -> tuple[str, ...]:
    """The columns of a file of JSON lines; empty unless all lines that are JSON are records without a refused field.

    Of a damaged file, the columns of the lines before the damage, which is told once these are read.
    """
    names: dict[str, None] = {}
    try:
        for _, line in _lines(file):
            record = _parsed(line)
            if record is None:
                continue
            if isinstance(record, dict) and not record.keys().isdisjoint(refused):
                return ()
            names |= dict.fromkeys(_cells_of(record))
            if len(names) > CELLS:
                return ()
    except (DataError, _NotRecords):
        return ()
    except (zipfile.BadZipFile, *DAMAGED):
        pass
    finally:
        file.seek(0)
    return tuple(names)


def read_json_lines(file: BinaryIO, names: Sequence[str], wrong: Callable[[int, str], None]) -> Iterator[Part]:
    """The records of a file of JSON lines as rows; `wrong` is called with lines that are not JSON, and their number."""
    yield _header(names, {}, ())
    for number, line in _lines(file):
        record = _parsed(line)
        if record is None:
            wrong(number, line)
        else:
            yield from _row(_cells_of(record), names, {"line": number}, ())


def _lines(file: BinaryIO) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(whole_lines(file), 1) if line.strip())


def _parsed(line: str) -> Any:
    """The JSON value in a line; None for null and for what is not JSON."""
    try:
        return _DECODER.decode(line.strip())
    except (ValueError, RecursionError):
        return None


def _rows(file: BinaryIO, tables: Mapping[str | None, _Table]) -> Iterator[Part]:
    beside: dict[str, Any] = {}
    for item in _items(file, tables):
        table = tables.get(item.key)
        if table is None:
            beside[str(item.key)] = _as_written(item.text)
            continue
        section = () if table.key is None else (table.key,)
        if item.number == 1:
            yield _header([*table.names], {"line": table.first_line} if table.by_line else {}, section)
        place = {"line": item.line} if table.by_line else {"row": item.number}
        yield from _row(_cells_of(item.value), [*table.names], place, section)
    if beside:
        yield Part(json.dumps(beside, ensure_ascii=False, indent=1))


def _header(names: Sequence[str], place: Mapping[str, int], section: tuple[str, ...]) -> Part:
    return row_of(names, place, section)._replace(header=True)


def _row(
    cells: Mapping[str, str], names: Sequence[str], place: Mapping[str, int], section: tuple[str, ...]
) -> Iterator[Part]:
    if any(map(str.strip, cells.values())):
        yield row_of([cells.get(name, "") for name in names], place, section)


def _as_written(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # a number of thousands of digits
        return text


def _cells_of(record: Any) -> dict[str, str]:
    """The cells of a record by the names of their columns. Raises _NotRecords for what is none."""
    if not isinstance(record, dict) or not record:
        raise _NotRecords
    cells: dict[str, str] = {}
    for name, value in record.items():
        inner = {f"{name}.{own}": more for own, more in value.items()} if isinstance(value, dict) else {name: value}
        for column, one in inner.items():
            if column in cells or not column.strip() or len(column) > _LONGEST_NAME:
                raise _NotRecords
            values = one if isinstance(one, list) else [one]
            cells[utf8(column)] = ", ".join(filter(None, map(_plain, values)))
    return cells


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return utf8(value)
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    raise _NotRecords


@dataclass(slots=True)
class _Table:
    """A list of records, as far as it was read."""

    key: str | None
    """The name of the list in the object that the file is; None where the file is the list."""
    first_line: int
    names: dict[str, None] = field(default_factory=dict)
    last_line: int = 0
    by_line: bool = True
    """Whether no two records begin on one line."""
    length: int = 0
    whole: bool = True
    """Whether all of it are records so far."""

    def add(self, item: _Item) -> None:
        self.length += len(item.text)
        self.by_line = self.by_line and item.line > self.last_line
        self.last_line = item.line
        if self.whole:
            try:
                self.names |= dict.fromkeys(_cells_of(item.value))
            except _NotRecords:
                self.whole = False
            self.whole = self.whole and len(self.names) <= CELLS
        if not self.whole and self.key is None:
            raise _NotRecords


def _tables(file: BinaryIO) -> list[_Table]:
    """The tables of a JSON document. Raises _NotRecords for what is not JSON, or has long texts beside its tables."""
    tables: dict[str | None, _Table] = {}
    beside = 0
    for item in _items(file, None):
        if item.number:
            tables.setdefault(item.key, _Table(item.key, item.line)).add(item)
        else:
            beside += len(item.text)
    beside += sum(table.length for table in tables.values() if not table.whole)
    if beside > FIELD:
        raise _NotRecords
    return [table for table in tables.values() if table.whole]


class _Item(NamedTuple):
    """An element of a list, or another value of the object that the file is."""

    key: str | None
    value: Any
    text: str
    """As it is written."""
    line: int
    number: int = 0
    """Of an element in its list, from 1."""


def _items(file: BinaryIO, lists: Collection[str | None] | None) -> Iterator[_Item]:
    """The elements of the list that a file is, or the values of the object; of these, too, the elements of `lists`, or
    of all that are lists. Raises _NotRecords for anything else."""
    with opened(file) as text:
        source = _Source(text)
        if source.next_sign() == "[":
            yield from _elements(source, None)
        elif source.skip("{"):
            yield from _values(source, lists)
        else:
            raise _NotRecords
        if source.next_sign():
            raise _NotRecords


def _values(source: _Source, lists: Collection[str | None] | None) -> Iterator[_Item]:
    keys: set[str] = set()
    more = not source.skip("}")
    while more:
        key, _, _ = source.value()
        if not isinstance(key, str) or key in keys or not source.skip(":"):
            raise _NotRecords
        keys.add(key)
        if source.next_sign() == "[" and (lists is None or key in lists):
            yield from _elements(source, key)
        else:
            yield _Item(key, *source.value())
        more = source.goes_on("}")


def _elements(source: _Source, key: str | None) -> Iterator[_Item]:
    source.skip("[")
    number, more = 0, not source.skip("]")
    while more:
        number += 1
        yield _Item(key, *source.value(), number)
        more = source.goes_on("]")


class _Source:
    """A JSON text that is read in stretches."""

    def __init__(self, text: TextIO) -> None:
        self._file = text
        self._text = ""
        self._at = 0
        self._line = 1

    def next_sign(self) -> str:
        """The next character that is not blank; empty at the end."""
        while True:
            self._advance(_BLANK.match(self._text, self._at).end())  # type: ignore[union-attr]
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def skip(self, sign: str) -> bool:
        """Pass a sign, if it comes next."""
        found = self.next_sign() == sign
        self._at += found
        return found

    def goes_on(self, end: str) -> bool:
        """Pass the comma before the next value or the sign that ends them; says which."""
        if self.skip(","):
            return True
        if not self.skip(end):
            raise _NotRecords
        return False

    def value(self) -> tuple[Any, str, int]:
        """The next value, how it is written, and its line."""
        self.next_sign()
        line = self._line
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError:
                raise _NotRecords from None
            except ValueError:  # broken, or cut
                if self._more():
                    continue
                raise _NotRecords from None
            if end < len(self._text) or not self._more():  # a number may go on
                text = self._text[self._at : end]
                self._advance(end)
                return value, text, line

    def _advance(self, to: int) -> None:
        self._line += self._text.count("\n", self._at, to)
        self._at = to

    def _more(self) -> bool:
        """Read on; False at the end. What is held at least doubles, so a long value is not parsed often."""
        held = self._text[self._at :]
        if len(held) > FIELD:
            raise _NotRecords
        read = self._file.read(max(_CHUNK, len(held)))
        self._text, self._at = held + read, 0
        return bool(read)
