"""OpenDocument files, as LibreOffice writes them: texts (ODT), spreadsheets (ODS) and presentations (ODP).

All three hold paragraphs and tables in `content.xml`. Pages are not recorded.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from typing import BinaryIO

from ..errors import DataError
from .archive import ZipLimits, open_zip
from .file_kind import opendocument_kind
from .office_xml import End, Start, core_title, events
from .part import Part, Place, row_of, row_text

_CONTENT = "content.xml"
_SKIPPED = frozenset({"tracked-changes", "annotation", "note-citation", "forms"})
"""What was deleted, what readers remarked, and marks of notes."""
_MANIFEST = 1 << 20
"""Bytes of the list of members in which an encrypted one is looked for."""
_REPEATED = 1000
"""How often a cell, a row or a blank with content may be repeated; a file may claim a billion."""


def read_opendocument(file: BinaryIO, limits: ZipLimits | None = None) -> Iterator[Part]:
    """Paragraphs under their headings, rows of tables with their sheet, or a part for each slide."""
    with open_zip(file, limits) as archive:
        if _is_encrypted(archive):
            raise DataError("it is encrypted; it can be read after its password is removed")
        kind, title = opendocument_kind(archive), core_title(archive, "meta.xml")
        with archive.open(_CONTENT) as stream:
            parts = _Content(kind).parts(events(stream, _CONTENT))
            for part in _by_slide(parts) if kind == "odp" else parts:
                yield part._replace(title=title)
                title = ""


def _is_encrypted(archive: zipfile.ZipFile) -> bool:
    name = "META-INF/manifest.xml"
    if name not in archive.NameToInfo:
        return False
    with archive.open(name) as stream:
        return b"encryption-data" in stream.read(_MANIFEST)


def _by_slide(parts: Iterator[Part]) -> Iterator[Part]:
    """The paragraphs and rows of each slide as one part, under the first of them."""
    lines: list[str] = []
    place: Place = {}
    for part in parts:
        if part.place != place and place:
            yield Part("\n".join(lines), place, tuple(lines[:1]))
            lines = []
        place = part.place
        lines += [part.text] if part.text else []
    if place:
        yield Part("\n".join(lines), place, tuple(lines[:1]))


class _Content:
    """Walks through `content.xml`."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._headings: list[tuple[int, str]] = []
        self._tables = self._lists = self._slide = self._row = 0
        self._sheet = ""
        self._number = 0
        """Paragraphs under the last heading."""
        self._cells: list[str] = []

    def parts(self, found: Iterator[Start | End | str]) -> Iterator[Part]:
        text: list[str] = []
        paragraphs = skipped = 0
        opened: list[Start] = []
        for event in found:
            if isinstance(event, str):
                if paragraphs and not skipped:
                    text.append(event)
                continue
            if isinstance(event, Start):
                opened.append(event)
                skipped += event.tag in _SKIPPED
                if skipped:
                    continue
                self._begin(event)
                if event.tag in ("p", "h"):
                    paragraphs += 1
                elif event.tag in ("tab", "line-break"):
                    text.append(" ")
                elif event.tag == "note-body":
                    text.append(" (")
                elif event.tag == "s":
                    text.append(" " * min(_number(event, "c"), _REPEATED))
                if event.tag == "page":
                    yield Part("", self._place())
                continue
            begun = opened.pop()
            if skipped:
                skipped -= event.tag in _SKIPPED
                continue
            if event.tag in ("p", "h"):
                paragraphs -= 1
                if paragraphs or self._tables:
                    text.append(" ")  # the paragraph of a note, or of a cell
                else:
                    yield from self._paragraph("".join(text), begun)
                    text = []
            elif event.tag == "note-body":
                text.append(")")
            elif event.tag in ("table-cell", "covered-table-cell") and self._tables == 1:
                cell = _value(begun) or " ".join("".join(text).split())
                self._cells += [cell] * min(_number(begun, "number-columns-repeated"), _REPEATED)
                text = []
            elif event.tag == "table-row" and self._tables == 1:
                yield from self._rows(_number(begun, "number-rows-repeated"))
            elif event.tag == "table":
                self._tables -= 1
            elif event.tag == "list":
                self._lists -= 1

    def _begin(self, event: Start) -> None:
        if event.tag == "table":
            self._tables += 1
            if self._tables == 1:
                self._sheet, self._row = event.attributes.get("name", ""), 0
        elif event.tag == "table-row" and self._tables == 1:
            self._cells = []
        elif event.tag == "list":
            self._lists += 1
        elif event.tag == "page":
            self._slide += 1

    def _paragraph(self, text: str, begun: Start) -> Iterator[Part]:
        words = " ".join(text.split()).replace(" )", ")")
        if not words:
            return
        if begun.tag == "h":
            level = _number(begun, "outline-level")
            self._headings = [*((n, t) for n, t in self._headings if n < level), (level, words)]
        self._number = 0 if begun.tag == "h" else self._number + 1
        place = {"paragraph": self._number} if self._kind == "odt" else self._place()
        listed = "- " if self._lists and begun.tag == "p" and self._kind == "odt" else ""
        yield Part(listed + words, place, self._section)

    def _rows(self, repeated: int) -> Iterator[Part]:
        for number in range(self._row + 1, self._row + 1 + min(repeated, _REPEATED)):
            if any(self._cells):
                row = {} if self._kind == "odp" else {"row": number}
                part = row_of(self._cells, {**self._place(), **row}, self._section)
                yield part if row else Part(row_text(self._cells), part.place)
        self._row += repeated

    def _place(self) -> Place:
        if self._kind == "odp":
            return {"slide": self._slide} if self._slide else {}
        return {"sheet": self._sheet} if self._kind == "ods" and self._sheet else {}

    @property
    def _section(self) -> tuple[str, ...]:
        return tuple(heading for _, heading in self._headings)


def _value(cell: Start) -> str:
    """A number or a date as it is, not as it is shown; empty for other cells."""
    values = cell.attributes
    if values.get("value-type") in ("float", "currency"):
        return values.get("value", "")
    return values.get("date-value", "").removesuffix("T00:00:00")


def _number(event: Start, name: str) -> int:
    """A count that an element gives; 1 without it."""
    given = event.attributes.get(name, "1")
    return max(int(given), 1) if given.isdecimal() and len(given) < 10 else 1
