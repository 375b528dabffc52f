"""Passages: from the parts of a file to the documents that an index holds, each with its location.

A passage of `docs/report.pdf` is a document called `docs/report.pdf#7`. Its title is the file's title, the sheet and
the headings above it; its metadata say where to look: `file`, `member` (of an archive), `page`, `slide`, `sheet` and
`row`, `line`, `paragraph`, `section`, and `start`, the place of its first character in that page, sheet or file;
`line_steps` where lines (or paragraphs) of the file begin in it, so that a quote is cited with its own line. Those of a
Markdown page also hold the fields of its front matter, which is no passage.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import PurePosixPath
from typing import Any

from ..citation import FIELDS, STEPS, SUPERSEDED, line_steps
from ..errors import DataError
from ..readers import Part
from ..readers.markdown import FENCE, FILL, Line, table_lines, unmarked
from ..readers.part import row_of
from ..record import Document
from .splitter import Passage, Size, Splitter, joined_lines, unwrapped
from .table_passages import LeftOut, Rows, RowSink, TableRows

_COUNTED = ("row", "line", "paragraph")
"""Fields that differ from row to row; a passage of several rows has the first and the last."""

_FRONT_LINES = 60
_FRONT_FIELD = re.compile(r"([\w.-]+)[ \t]*:(?:[ \t]+(.*))?$")
_FRONT_BLOCK = re.compile(r"[>|][+-]?\d?$")
"""A value that follows in the next lines."""

_SHY = "\xad"
"""The soft hyphen: where a word may be divided. It is invisible, and the word could not be found with it."""


class Passages:
    """Makes the passages of one file, numbered from 1."""

    def __init__(
        self,
        name: str,
        size: Size | None = None,
        rows: RowSink | None = None,
        left_out: LeftOut | None = None,
        **meta: Any,
    ) -> None:
        """`rows` keeps whole tables, `left_out` counts what of them is not kept."""
        self._name = name
        self._rows = rows
        self._left_out = left_out or LeftOut()
        self._size = size or Size()
        self._meta = {"file": name, **meta}
        self._title = PurePosixPath(name).name or name
        self._titled = True
        self._number = 0
        self.empty_pages = 0
        """Pages on which no text was found."""
        self.pages = 0

    def of_lines(self, lines: Iterable[str], *, markdown: bool = True, marks: bool = False) -> Iterator[Document]:
        """The passages of plain text or Markdown; its title is that of the front matter, else the first heading of the
        first level. `markdown`: headings, tables and wrapped lines are understood. `marks`: other markup is removed."""
        splitter = Splitter(self._size, markdown=markdown)
        table: TableRows | None = None
        if markdown:
            front = _FrontMatter()
            lines = front.blanked(lines)
            self._title, self._titled = front.title or self._title, bool(front.title)
            self._meta = {**front.fields, **self._meta}

        def documents(passages: Iterable[Passage]) -> Iterator[Document]:
            for passage in passages:
                text, begins = passage.text, [(0, passage.line)]
                if markdown:
                    text, begins = _readable(text, passage.line, marks=marks)
                if text:
                    place = {"line": begins[0][1], "start": passage.start}
                    yield self._made(text, passage.section, place, begins)

        for line in table_lines(lines, marks=marks) if markdown else map(Line, lines):
            if line.cells is None:
                yield from self._finish_table(table, splitter.section)
                table = None
                if line.level:
                    words = line.text.splitlines()[0].strip()
                    yield from documents(splitter.heading(line.level, words, line.text))
                else:
                    yield from documents(splitter.line(line.text))
                continue
            if table is None:
                yield from documents(splitter.skip(""))
                table = TableRows(self._size, self._rows, self._left_out, headed=True)
            row = row_of(line.cells, {"line": splitter.next_line}, tuple(map(unmarked, splitter.section)))
            yield from documents(splitter.skip(line.text))
            for rows in table.row(row) if line.cells else ():
                yield self._of_rows(rows, splitter.section)
        yield from self._finish_table(table, splitter.section)
        yield from documents(splitter.end())

    def of_parts(self, parts: Iterable[Part]) -> Iterator[Document]:
        """The passages of the parts that a reader yields; none spans two pages, slides, sheets or sections.

        A DataError of the reader is raised after the passages of the parts before it.
        """
        failures: list[DataError] = []
        prose: Splitter | None = None
        table: TableRows | None = None
        where: tuple[Any, ...] = ()
        headed = False
        paragraphs = _Paragraphs()
        for part in _without_headings(_until_failure(parts, failures)):
            self._title = part.title or self._title
            self._left_out.uncomputed += part.uncomputed
            if "page" in part.place:
                self._count_page(part)
            place = {field: value for field, value in part.place.items() if field not in _COUNTED}
            fresh = part.header or (part.row and part.place.get("row", 0) == 1 and not headed)
            headed = part.header
            here = (place, part.section, part.row)
            if here != where or fresh:
                yield from self._finish(prose, table, where, paragraphs)
                prose = table = None
                where, paragraphs = here, _Paragraphs()
            if part.row:
                table = table or TableRows(self._size, self._rows, self._left_out, headed=part.header)
                for rows in table.row(part):
                    yield self._of_rows(rows, part.section)
            elif part.text.strip():
                prose = prose or Splitter(self._size, markdown=False)
                paragraphs.begin(int(number) if (number := part.place.get("paragraph")) is not None else None)
                for line in part.text.splitlines(keepends=True):
                    paragraphs.line(line)
                    for passage in prose.line(line):
                        yield self._of_page(passage, place, part.section, paragraphs)
        yield from self._finish(prose, table, where, paragraphs)
        if failures:
            raise failures[0]

    def _count_page(self, part: Part) -> None:
        self.pages = max(self.pages, int(part.place["page"]))
        if not part.text.strip():
            self.empty_pages += 1

    def _finish(
        self, prose: Splitter | None, table: TableRows | None, where: tuple[Any, ...], paragraphs: _Paragraphs
    ) -> Iterator[Document]:
        if prose is not None:
            for passage in prose.end():
                yield self._of_page(passage, where[0], where[1], paragraphs)
        yield from self._finish_table(table, where[1] if where else ())

    def _finish_table(self, table: TableRows | None, section: tuple[str, ...]) -> Iterator[Document]:
        if table is not None:
            for rows in table.end():
                yield self._of_rows(rows, section)

    def _of_page(
        self, passage: Passage, place: Mapping[str, Any], section: tuple[str, ...], paragraphs: _Paragraphs
    ) -> Document:
        place = {**place, "start": passage.start}
        if not paragraphs.known:
            return self._made(unwrapped(passage.text), section, place)
        text, lines = _readable(passage.text, passage.line, marks=False)
        begins = [(at, paragraphs.at(line)) for at, line in lines]
        return self._made(text, section, {**place, "paragraph": begins[0][1]}, begins)

    def _of_rows(self, rows: Rows, section: tuple[str, ...]) -> Document:
        text, first, last, caption, begins = rows
        place: dict[str, Any] = dict(first.place)
        for field in _COUNTED:
            if field in last.place and last.place[field] != first.place.get(field):
                place[f"{field}_end"] = last.place[field]
        return self._made(text, (*section, caption) if caption else section, place, begins)

    def _made(
        self, text: str, section: tuple[str, ...], place: Mapping[str, Any], begins: Sequence[tuple[int, int]] = ()
    ) -> Document:
        """`begins`: where lines or rows of the file begin in the text, with their numbers."""
        self._number += 1
        if _SHY in text:
            begins = [(at - text.count(_SHY, 0, at), line) for at, line in begins]
            text = text.replace(_SHY, "")
        section = tuple(map(unmarked, section))
        if not self._titled:  # by the first heading
            self._title, self._titled = (section or (self._title,))[0], True
        headings = section[1:] if section[:1] == (self._title,) else section
        meta = {**self._meta, **place}
        if section:
            meta["section"] = " > ".join(section)
        steps = line_steps(text, begins)
        if steps or (begins and "\n" in text and not any(f"{field}_end" in place for field in _COUNTED)):
            meta[STEPS] = steps
        newer = f" (superseded by {meta[SUPERSEDED]})" if SUPERSEDED in meta else ""
        sheet = (str(place["sheet"]),) if "sheet" in place else ()
        title = " > ".join((self._title, *sheet, *headings)) + newer
        return Document(f"{self._name}#{self._number}", title.replace(_SHY, ""), text, meta)


class _Paragraphs:
    """Which paragraph the lines of a text belong to that comes line by line, as a `Splitter` counts them."""

    def __init__(self) -> None:
        self._begins: deque[tuple[int, int]] = deque()
        self._line = 1
        self._given: int | None = None
        self._blank = False

    @property
    def known(self) -> bool:
        return self._given is not None

    def begin(self, number: int | None) -> None:
        """A part begins; one that is sent in pieces has the same number again."""
        if number is not None and number != self._given:
            self._begins.append((self._line, number))
            self._given, self._blank = number, False

    def line(self, line: str) -> None:
        if not self.known:
            return
        if self._blank and line.strip():
            self._begins.append((self._line, self._begins[-1][1] + 1))
        self._blank = not line.strip()
        self._line += line.count("\n")

    def at(self, line: int) -> int:
        """The paragraph of a line; lines are asked for in order."""
        while len(self._begins) > 1 and self._begins[1][0] <= line:
            self._begins.popleft()
        return self._begins[0][1]


def _readable(text: str, line: int, *, marks: bool) -> tuple[str, list[tuple[int, int]]]:
    """The text of a passage that begins on a line, as it is read, and where lines of the file begin in it.

    Wrapped lines are joined. `marks`: fillers and fences are removed.
    """
    if "\n" not in text:
        return unmarked(text) if marks else text, [(0, line)]
    pieces = joined_lines(text)
    numbers: Iterable[int] = range(line, line + len(pieces))
    if len(pieces) != text.count("\n") + 1:  # a page break ends a line of the text, and none of the file
        numbers = accumulate((one.endswith("\n") for one in text.splitlines(keepends=True)), initial=line)
    fences = marks and ("```" in text or "~~~" in text)
    out: list[str] = []
    begins: list[tuple[int, int]] = []
    length = 0
    for (gap, words), number in zip(pieces, numbers, strict=False):
        if marks:
            words = words.replace(FILL, "")
            if not (out or words) or (fences and FENCE.match(words)):
                continue
        if out:
            out.append(gap)
            length += len(gap)
        begins.append((length, number))
        out.append(words)
        length += len(words)
    return "".join(out).rstrip("\n") if marks else "".join(out), begins


def _until_failure(parts: Iterable[Part], failures: list[DataError]) -> Iterator[Part]:
    try:
        yield from parts
    except DataError as error:
        failures.append(error)


def _without_headings(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts without those that only repeat the heading they stand under, unless nothing else stands there."""
    heading: Part | None = None
    for part in parts:
        if heading is not None:
            if part.section[: len(heading.section)] == heading.section:
                part = part._replace(title=part.title or heading.title)
            else:
                yield heading
        heading = part if part.section and part.text.strip() == part.section[-1] and not part.row else None
        if heading is None:
            yield part
    if heading is not None:
        yield heading


class _FrontMatter:
    """The fields above a page of a wiki or a static site, between two lines of dashes."""

    def __init__(self) -> None:
        self.title = ""
        self.fields: dict[str, Any] = {}
        """The other fields, lists as lists; those of several lines as one text."""

    def blanked(self, lines: Iterable[str]) -> Iterator[str]:
        """Read it, if there is one. Returns the lines, its own ones blank, so that all others keep their position."""
        rest, held = iter(lines), list[str]()
        for line in rest:
            held.append(line)
            bare = line.strip()
            if len(held) > 1 and bare in ("---", "..."):
                if self._read(held[1:-1]):
                    held = [re.sub(r"[^\r\n]", " ", one) for one in held]
                break
            if (len(held) == 1 and bare != "---") or len(held) > _FRONT_LINES:
                break
        return chain(held, rest)

    def _read(self, lines: Iterable[str]) -> bool:
        """Read the fields; False where a line is not a field: then the dashes are two rules around prose."""
        fields: dict[str, tuple[str, list[str]]] = {}
        name = ""
        for line in lines:
            bare = line.strip()
            if not bare or bare.startswith("#"):
                continue
            if found := _FRONT_FIELD.match(line.rstrip()):
                name, value = found[1], (found[2] or "").strip()
                fields[name] = "" if _FRONT_BLOCK.match(value) else value, []
            elif name and (line[0] in " \t" or bare.startswith("- ")):
                fields[name][1].append(bare)
            else:
                return False
        for name, (value, more) in fields.items():
            if name.casefold() == "title":
                self.title = _plain(" ".join([value, *more]))
            elif name == SUPERSEDED:  # what it names is a text, which may or may not be a file that is here
                self.fields["replaced_by"] = _front_value(value, more)
            elif name not in (*FIELDS, STEPS, "start") and (value or more):
                self.fields[name] = _front_value(value, more)
        return True


def _front_value(value: str, more: list[str]) -> str | list[str]:
    if not value and all(item.startswith("- ") for item in more):
        return [_plain(item[2:]) for item in more]
    if value.startswith("[") and value.endswith("]"):
        return [_plain(item) for item in value[1:-1].split(",") if item.strip()]
    return _plain(" ".join([value, *more]))


def _plain(value: str) -> str:
    return value.strip().strip("\"'")
