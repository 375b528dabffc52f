"""The columns of a table: which row names them, and what their cells hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from functools import lru_cache
from statistics import median

from ..english import MONTHS

LOOK = 20
"""Rows from which it is decided which one names the columns."""
_LONGEST_NAME = 80
_LONGEST_MARKED = 200
"""Characters of a name in a row that its format marks as the one with the names; a longer cell is a text."""
_NUMBER = re.compile(r"[-+−]?[£$€¥]?[-+−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[%€£]|(?<=\d)[eE][-+]?\d{1,2})?$")
_COMMA_NUMBER = re.compile(r"[-+−]?(?:[£$€¥] ?)?[-+−]?(?:\d{1,3}(?:\.\d{3})+|0|[1-9]\d*)(?:,\d+)?(?: ?[%€£])?$")
_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}:\d\d")
_DIGIT = re.compile(r"\d")
_YEAR = re.compile(r"(?:19|20)\d\d$")
_MONTHS = {name[:3].lower(): number for number, name in enumerate(MONTHS, 1)}
_MONTH = "|".join((*MONTHS, *_MONTHS))
_WRITTEN_DATE = re.compile(
    rf"(?P<y>\d{{4}})-(?P<m>\d\d)-(?P<d>\d\d)|(?P<d2>\d{{1,2}})\.(?P<m2>\d{{1,2}})\.(?P<y2>\d{{4}})"
    rf"|(?P<d3>\d{{1,2}})(?:st|nd|rd|th)? (?P<m3>{_MONTH})\.?,? (?P<y3>\d{{4}})"
    rf"|(?P<m4>{_MONTH})\.? (?P<d4>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y4>\d{{4}})",
    re.IGNORECASE,
)
_LONGEST_DATE = len("30th September., 2024")
_SIGNS = str.maketrans({"−": "-", **dict.fromkeys("£$€¥%,+", "")})


def number_in(cell: str) -> int | float | None:
    """The number that a cell holds: `1,948`, `-3.5`, `£62`, `81%` as 81. None for text, and for codes such as `007`."""
    if not cell or cell[-1] not in "0123456789%€£" or not _NUMBER.match(cell):
        return None
    plain = cell.translate(_SIGNS)
    digits = plain.lstrip("-")
    if (len(digits) > 1 and digits[0] == "0" and digits[1] != ".") or len(digits) > 18:
        return None
    return float(plain) if "." in plain or "e" in plain.lower() else int(plain)


def is_comma_number(cell: str) -> bool:
    """Whether a cell is a number as much of Europe writes it: `8,81`, `1.234,50`, `12`."""
    return bool(_COMMA_NUMBER.match(cell))


def date_in(cell: str) -> str | None:
    """The date that a cell is, as `2024-05-17`: `17 May 2024`, `May 17, 2024`, `17.05.2024`. None for anything else,
    and where day and month cannot be told apart (`05/04/2024`)."""
    return _date(cell) if cell[-1:].isdigit() and len(cell) <= _LONGEST_DATE else None


@lru_cache(maxsize=8192)
def _date(cell: str) -> str | None:
    match = _WRITTEN_DATE.fullmatch(cell)
    if match is None:
        return None
    year, month, day = (next(v for k, v in match.groupdict().items() if v and k[0] == part) for part in "ymd")
    try:
        return date(int(year), int(month) if month.isdigit() else _MONTHS[month[:3].lower()], int(day)).isoformat()
    except ValueError:
        return None


def same_value(one: str, other: str) -> bool:
    """Whether two cells say the same: the same date, number or words, however they are written."""

    def value(cell: str) -> str | float:
        cell = cell.strip()
        number = number_in(cell)
        return date_in(cell) or (float(number) if number is not None else " ".join(cell.casefold().split()))

    return value(one) == value(other)


def header_of(rows: Sequence[Sequence[str]], *, marked: bool = False) -> int | None:
    """Which of the first rows of a table names its columns; None where none does. `marked`: its format says the first.

    It is the first one that is about as wide as the rows below it, or the one above that if it has a name for every
    column but the first. The rows above it are a title or a note. Column names are short and not numbers, unless they
    are years. They differ from each other, unless a column shows that they are names: numbers, dates or codes below a
    word. The same shows that what stands above them is a title.
    """
    if not rows:
        return None
    if marked:
        return 0 if max(map(len, rows[0])) <= _LONGEST_MARKED else None
    widths = [sum(bool(cell) for cell in row) for row in rows]
    typical = median(widths)
    for at, (row, width) in enumerate(zip(rows, widths, strict=True)):
        if width >= max(1, 0.6 * typical):
            above, below = rows[at - 1] if at else (), rows[at + 1 :]
            unnamed = len(above) == len(row) and [n for n, cell in enumerate(above) if not cell] == [0]
            if unnamed and not _differs(row, below) and _are_names(above, rows[at:]):
                return at - 1
            return at if _are_names(row, below) else None
    return None


def _are_names(row: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    cells = [cell for cell in row if cell]
    if max(map(len, cells)) > _LONGEST_NAME or (len(set(cells)) < len(cells) and not _differs(row, below)):
        return False
    values = [cell for cell in cells if number_in(cell) is not None or _DATE.match(cell)]
    return all(map(_YEAR.match, values)) and any(cell not in values and date_in(cell) is None for cell in cells)


def _differs(row: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether a cell is a word without digits, and all cells below it have digits."""
    columns = ([cells[n] for cells in below if n < len(cells) and cells[n]] for n in range(len(row)))
    return any(
        column and any(map(str.isalpha, cell)) and not _DIGIT.search(cell) and all(map(_DIGIT.search, column))
        for cell, column in zip(row, columns, strict=True)
    )


def named(names: Sequence[str], cells: Sequence[str]) -> str:
    """A row as `Department: Sales; Head: Ana Ruiz`; empty cells are left out."""
    shown = [named_cell(name, cell) for name, cell in zip(names, cells, strict=False) if cell]
    return "; ".join([*shown, *(cell for cell in cells[len(names) :] if cell)])


def named_cell(name: str, cell: str) -> str:
    return f"{name}: {cell}" if name else cell
