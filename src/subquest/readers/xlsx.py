"""Spreadsheets of Excel (XLSX) by row: a stream over the XML of each sheet, so memory does not grow with its rows.

Libraries read the same files at a third of the speed (openpyxl), or hold a whole sheet with its empty cells (calamine):
a sheet with one stray cell in its last corner has 17 billion of them.
"""

from __future__ import annotations

import datetime
import re
import zipfile
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import IO, BinaryIO, NamedTuple

from ..errors import DataError
from .archive import ZipLimits, open_zip
from .office_xml import Start, core_title, events, feed, make_parser, related
from .part import Part, row_of

_ROWS, _COLUMNS = 1 << 20, 1 << 14
"""Rows and columns of a sheet; a file may claim that its only row is the trillionth."""
_DAY, _SPAN, _PERCENT = "day", "span", "percent"
"""What a number is by its format: a point in time, a length of time, or a share that is shown in percent."""
_BUILT_IN = {
    **dict.fromkeys([*range(14, 23), *range(27, 37), 45, 47, *range(50, 59)], _DAY),
    **dict.fromkeys((9, 10), _PERCENT),
    46: _SPAN,
}
"""Formats that have a number and no code."""
_DIGITS = 12
"""Significant digits of a percentage: programs store 0.155 as 0.15499999999999997 too."""
_NO_DATE = re.compile(r'"[^"]*"|\\.|_.|\[(?!hh?\]|mm?\]|ss?\])[^\]]*\]', re.IGNORECASE)
"""What a format shows as it is: quoted text, a colour, a country."""
_LENGTH = re.compile(r"\[(hh?|mm?|ss?)\]", re.IGNORECASE)
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")


class _Book(NamedTuple):
    sheets: list[tuple[str, str]]
    """Name and member of the archive, in their order."""
    strings: list[str]
    formats: list[str]
    """By style: a date, a length of time, a percentage or, if empty, a plain number."""
    epoch: datetime.datetime


def read_xlsx(file: BinaryIO, limits: ZipLimits | None = None) -> Iterator[Part]:
    """The rows of all sheets that are not empty; formulas as the values they last had. An empty sheet is a part too.

    A formula that was never computed is an empty cell, counted in the `uncomputed` of its row or, if that is empty, of
    the next part.
    """
    with open_zip(file, limits) as archive:
        book = _book(archive)
        title = core_title(archive)
        for name, member in book.sheets:
            empty, uncomputed = True, 0
            with archive.open(member) as stream:
                for number, cells, without_value in _rows(stream, member, book):
                    if number > _ROWS:
                        raise DataError(f"the sheet {name} has more than {_ROWS:,} rows, more than any program writes")
                    uncomputed += without_value
                    if any(cell and not cell.isspace() for cell in cells):
                        part = row_of(cells, {"sheet": name, "row": number}, title=title)
                        yield part._replace(uncomputed=uncomputed) if uncomputed else part
                        title, empty, uncomputed = "", False, 0
            if empty or uncomputed:
                yield Part("", {"sheet": name}, title=title, uncomputed=uncomputed)


def _book(archive: zipfile.ZipFile) -> _Book:
    main = dict(related(archive, "").values()).get("officeDocument", "xl/workbook.xml")
    if main not in archive.NameToInfo:
        raise DataError(f"a damaged xlsx file: it has no {main}")
    references = related(archive, main)
    sheets: list[tuple[str, str]] = []
    epoch = datetime.datetime(1899, 12, 30)
    for event in _starts(archive, main):
        if event.tag == "sheet":
            kind, member = references.get(event.attributes.get("id", ""), ("", ""))
            if kind == "worksheet" and member in archive.NameToInfo:  # others are charts and dialogs
                sheets.append((event.attributes.get("name", ""), member))
        elif event.tag == "workbookPr" and event.attributes.get("date1904", "") in ("1", "true"):
            epoch = datetime.datetime(1904, 1, 1)
    beside = {kind: path for kind, path in references.values() if path in archive.NameToInfo}
    strings = _strings(archive, beside["sharedStrings"]) if "sharedStrings" in beside else []
    return _Book(sheets, strings, _formats(archive, beside["styles"]) if "styles" in beside else [], epoch)


def _starts(archive: zipfile.ZipFile, member: str) -> Iterator[Start]:
    with archive.open(member) as stream:
        yield from (event for event in events(stream, member) if isinstance(event, Start))


def _strings(archive: zipfile.ZipFile, member: str) -> list[str]:
    """Texts that cells refer to by number; how a word is spoken (`rPh`) is left out."""
    found: list[str] = []
    words: list[str] = []
    inside = spoken = False
    with archive.open(member) as stream:
        for event in events(stream, member):
            if isinstance(event, str):
                if inside and not spoken:
                    words.append(event)
                continue
            begins = isinstance(event, Start)
            if event.tag == "t":
                inside = begins
            elif event.tag == "rPh":
                spoken = begins
            elif event.tag == "si" and not begins:
                found.append(_unescaped("".join(words)))
                words.clear()
    return found


def _formats(archive: zipfile.ZipFile, member: str) -> list[str]:
    codes: dict[str, str] = {}
    found: list[str] = []
    styles = False
    for event in _starts(archive, member):
        if event.tag == "numFmt":
            codes[event.attributes.get("numFmtId", "")] = event.attributes.get("formatCode", "")
        elif event.tag in ("cellXfs", "cellStyleXfs", "cellStyles", "dxfs"):
            styles = event.tag == "cellXfs"
        elif event.tag == "xf" and styles:
            number = event.attributes.get("numFmtId", "0")
            found.append(_kind(codes[number]) if number in codes else _BUILT_IN.get(int(number), ""))
    return found


def _kind(code: str) -> str:
    """Whether a format shows numbers as dates (`dd/mm/yyyy`), lengths of time (`[h]:mm`), in percent or as they are."""
    shown = _NO_DATE.sub("", code.partition(";")[0])
    if _LENGTH.search(shown):
        return _SPAN
    if "%" in shown:
        return _PERCENT
    return _DAY if shown.lower() != "general" and re.search("[dmhys]", shown, re.IGNORECASE) else ""


def _rows(stream: IO[bytes], member: str, book: _Book) -> Iterator[tuple[int, list[str], int]]:
    """Number and cells of each row as it comes, and how many formulas in it have no value.

    Handlers run thirty times a row: they compare names and little else.
    """
    done: list[tuple[int, list[str], int]] = []
    cells: list[str] = []
    text: list[str] = []
    row, column, kind, style, value, spoken = 0, -1, "", "", "", False
    formula, uncomputed = False, 0
    a_cell, a_value, a_text, a_row, a_reading, a_formula = _names("worksheet")

    def root(name: str, attributes: Mapping[str, str]) -> None:
        nonlocal a_cell, a_value, a_text, a_row, a_reading, a_formula
        a_cell, a_value, a_text, a_row, a_reading, a_formula = _names(name)
        parser.StartElementHandler = start

    def start(name: str, attributes: Mapping[str, str]) -> None:
        nonlocal row, column, kind, style, value, spoken, cells, formula, uncomputed
        if name == a_cell:
            place = attributes.get("r")
            column = _column(place.rstrip("0123456789")) if place else column + 1
            kind, style, value, formula = attributes.get("t", "n"), attributes.get("s", ""), "", False
        elif name in (a_value, a_text):
            text.clear()
        elif name == a_row:
            row = int(attributes.get("r", row + 1))
            cells, column, uncomputed = [], -1, 0
        elif name == a_reading:
            spoken = True
        elif name == a_formula:
            formula = True

    def end(name: str) -> None:
        nonlocal value, spoken, uncomputed
        if name == a_value or (name == a_text and not spoken):
            value += "".join(text)
        elif name == a_cell:
            if value:
                if column >= len(cells):
                    cells.extend([""] * (column + 1 - len(cells)))
                cells[column] = _shown(value, kind, style, book)
            elif formula and kind != "str":  # a computed text may be empty
                uncomputed += 1
        elif name == a_row:
            done.append((row, cells, uncomputed))
        elif name == a_reading:
            spoken = False

    parser = make_parser(member, namespaces=False)
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = root, end, text.append
    return feed(parser, stream, member, done)


def _names(root: str) -> list[str]:
    """The names of a cell, its value, its text, a row, how a text is read aloud and a formula, with the prefix of the
    root."""
    prefix = root.removesuffix("worksheet")
    return [prefix + name for name in ("c", "v", "t", "row", "rPh", "f")]


@lru_cache(maxsize=_COLUMNS)
def _column(letters: str) -> int:
    """0 for A, 27 for AB."""
    number = 0
    for letter in letters[:8].upper():
        number = number * 26 + ord(letter) - 64
    if not 0 < number <= _COLUMNS:
        raise DataError(f"a damaged xlsx file: there is no column {letters[:20]}")
    return number - 1


def _shown(value: str, kind: str, style: str, book: _Book) -> str:
    """A cell as text."""
    if kind == "n":
        form = book.formats[int(style)] if style and book.formats else ""
        return _number(value, form, book.epoch)
    if kind == "s":
        return book.strings[int(value)]
    if kind == "b":
        return "False" if value == "0" else "True"
    if kind == "d":
        return value.replace("T", " ").removesuffix(" 00:00:00")
    return _unescaped(value) if kind in ("str", "inlineStr") else value


def _number(value: str, form: str, epoch: datetime.datetime) -> str:
    try:
        if form == _PERCENT:
            return _percent(value)
        if form:
            return _time(float(value), form, epoch)
        if value.isdigit():
            return value
        number = float(value)
    except (ValueError, OverflowError):  # a year beyond 9999
        return value
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else str(number)


def _percent(value: str) -> str:
    """The share with a percent sign, as exactly as it is stored: `15.5%`, where a format may show `16%`."""
    return f"{Decimal(f'{100 * Decimal(repr(float(value))):.{_DIGITS}g}').normalize():f}%"


@lru_cache(maxsize=4096)
def _time(days: float, form: str, epoch: datetime.datetime) -> str:
    length = datetime.timedelta(milliseconds=round(days * 86_400_000))
    if form == _SPAN:
        return str(length)
    if 0 <= days < 1 and not length.days:
        return str((epoch + length).time())
    if 0 < days < 60 and epoch.year == 1899:  # Excel knows a 29 February 1900
        length += datetime.timedelta(days=1)
    found = epoch + length
    return str(found if found.time() != datetime.time() else found.date())


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text) if "_x" in text else text
