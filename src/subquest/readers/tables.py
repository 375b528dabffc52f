"""Spreadsheets and comma-separated tables, by row."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from ..errors import DataError, MissingDependency
from .archive import ZipLimits, open_zip
from .delimited import csv_rows
from .part import Part

_GAP = 16
"""Empty cells in a row that are written out; more of them say nothing but that the sheet is wide."""


_ROWS = 1 << 20
"""Rows of a sheet; a file may claim that its only row is the trillionth."""


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


def read_xlsx(file: BinaryIO, limits: ZipLimits | None = None) -> Iterator[Part]:
    """The rows of all sheets that are not empty; formulas as the values they last had. An empty sheet is a part too."""
    try:
        import openpyxl
    except ImportError:
        raise MissingDependency("the XLSX reader", "web-tools") from None
    with open_zip(file, limits) as archive:
        for member in archive.infolist():
            if member.filename.endswith((".xml", ".rels")):
                with archive.open(member) as stream:
                    if b"<!DOCTYPE" in stream.read(4096):
                        raise DataError(f"{member.filename} declares entities: refused")
    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and extensions, which have no text
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        title = str(book.properties.title or "") if book.properties else ""
        try:
            for sheet in book.worksheets:
                sheet.reset_dimensions()  # what a file says about its size may be wrong, or a trap
                empty = True
                for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
                    if number > _ROWS:
                        raise DataError(
                            f"the sheet {sheet.title} has more than {_ROWS:,} rows, which no program writes"
                        )
                    cells = ["" if value is None else _cell(value) for value in row]
                    if any(cell and not cell.isspace() for cell in cells):
                        place = {"sheet": sheet.title, "row": number}
                        yield Part(row_text(cells), place, title=title, row=True)
                        title, empty = "", False
                if empty:
                    yield Part("", {"sheet": sheet.title}, title=title)
        finally:
            book.close()


def read_csv(file: BinaryIO) -> Iterator[Part]:
    """The rows with anything in them; fields are divided by whatever the first lines are divided by."""
    for number, row in csv_rows(file):
        if any(cell.strip() for cell in row):
            yield Part(row_text(row), {"line": number}, row=True)


def _cell(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return str(value.date())
    return str(value)
