"""Word documents: paragraphs under their headings, tables by row, notes; pages where Word has recorded them.

A DOCX file has no pages until it is laid out. Word records where pages began when it last did so
(`lastRenderedPageBreak`); where there are such marks, parts have their page.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from ..errors import DataError
from .archive import ZipLimits, open_zip
from .office_xml import Start, core_title, events
from .part import Part, Place, row_of

_NOTES = (("word/footnotes.xml", "Footnotes"), ("word/endnotes.xml", "Endnotes"))
_HEADING = re.compile(r"heading ?([1-9])$", re.IGNORECASE)


def read_docx(file: BinaryIO, limits: ZipLimits | None = None) -> Iterator[Part]:
    with open_zip(file, limits) as archive:
        names = set(archive.namelist())
        if "word/document.xml" not in names:
            raise DataError("a damaged docx file: it has no word/document.xml")
        title = core_title(archive)
        paged = _has_pages(archive)
        body = _Body(archive, _levels(archive) if "word/styles.xml" in names else {}, paged)
        for part in body.parts("word/document.xml"):
            yield part._replace(title=title or part.title)
            title = ""
        for name, heading in _NOTES:
            if name in names:
                for part in _Body(archive, {}, paged=False).parts(name):
                    yield part._replace(section=(heading,))


def _has_pages(archive: zipfile.ZipFile) -> bool:
    mark, before = b"lastRenderedPageBreak", b""
    with archive.open("word/document.xml") as stream:
        while chunk := stream.read(1 << 18):
            if mark in before + chunk:
                return True
            before = chunk[-len(mark) :]
    return False


def _levels(archive: zipfile.ZipFile) -> dict[str, int]:
    """The outline level, from 1, of the styles that have one; 0 for the title's."""
    found: dict[str, int] = {}
    style = ""
    with archive.open("word/styles.xml") as stream:
        for event in events(stream, "word/styles.xml"):
            if not isinstance(event, Start):
                continue
            value = event.attributes.get("val", "")
            if event.tag == "style":
                style = event.attributes.get("styleId", "")
            elif event.tag == "name" and (match := _HEADING.match(value)):
                found[style] = int(match[1])
            elif event.tag == "name" and value.lower() == "title":
                found[style] = 0
            elif event.tag == "outlineLvl" and value.isdigit() and int(value) < 9:
                found.setdefault(style, int(value) + 1)
    return found


class _Body:
    """The paragraphs and tables of one XML part."""

    def __init__(self, archive: zipfile.ZipFile, levels: Mapping[str, int], paged: bool) -> None:
        self._archive = archive
        self._levels = levels
        self._page = 1 if paged else 0
        self._headings: list[tuple[int, str]] = []
        self._table_row = 0
        self._number = 0
        """Paragraphs under the last heading."""

    def parts(self, name: str) -> Iterator[Part]:
        text: list[str] = []
        cells: list[str] = []
        tables = paragraphs = skipped = 0
        level: int | None = None
        page = self._page
        inside = False
        with self._archive.open(name) as stream:
            for event in events(stream, name):
                if isinstance(event, str):
                    if inside and not skipped:
                        text.append(event)
                elif isinstance(event, Start):
                    if event.tag == "Fallback":  # the same content again, for older programs
                        skipped += 1
                    elif event.tag == "tbl":
                        tables += 1
                        self._table_row = 0 if tables == 1 else self._table_row
                    elif event.tag == "tr" and tables == 1:
                        cells, text, page = [], [], self._page
                    elif event.tag == "p":
                        paragraphs += 1
                        if not tables and paragraphs == 1:
                            text, level, page = [], None, self._page
                    elif event.tag == "pStyle" and paragraphs == 1:
                        level = self._level(event.attributes.get("val", ""))
                    elif event.tag == "numPr" and paragraphs == 1 and not tables and not text:
                        text.append("- ")
                    elif event.tag == "lastRenderedPageBreak" and self._page:
                        self._page += 1
                        if not tables:  # a paragraph is divided here; a row stays on the page where it began
                            yield from self._paragraph("".join(text).strip(), level, page)
                            text, page = [], self._page
                    elif event.tag in ("tab", "br", "cr"):
                        text.append(" ")
                    elif event.tag == "noBreakHyphen":
                        text.append("-")
                    inside = event.tag == "t"
                else:
                    inside = False
                    if event.tag == "Fallback":
                        skipped -= 1
                    elif event.tag == "tc" and tables == 1:
                        cells.append(" ".join("".join(text).split()))
                        text = []
                    elif event.tag == "tr" and tables == 1:
                        yield from self._row(cells, page)
                    elif event.tag == "tbl":
                        tables -= 1
                    elif event.tag == "p":
                        paragraphs -= 1
                        if tables or paragraphs:
                            text.append("\n" if not tables else " ")
                        else:
                            yield from self._paragraph("".join(text).strip(), level, page)

    def _level(self, style: str) -> int | None:
        if style in self._levels or self._levels:
            return self._levels.get(style)
        match = _HEADING.match(style)
        return int(match[1]) if match else 0 if style.lower() == "title" else None

    def _paragraph(self, text: str, level: int | None, page: int) -> Iterator[Part]:
        if not text:
            return
        if level:
            self._headings = [*((n, t) for n, t in self._headings if n < level), (level, " ".join(text.split()))]
        self._number = 0 if level is not None else self._number + 1
        section = tuple(heading for _, heading in self._headings)
        place = self._place(page) or {"paragraph": self._number}
        yield Part(text, place, section, title=text if level == 0 else "")

    def _row(self, cells: list[str], page: int) -> Iterator[Part]:
        self._table_row += 1
        if any(cells):
            place = {**self._place(page), "row": self._table_row}
            yield row_of(cells, place, tuple(h for _, h in self._headings))

    def _place(self, page: int) -> Place:
        return {"page": page} if page else {}
