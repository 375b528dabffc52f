"""Files as text: PDF, DOCX, XLSX, CSV, PPTX, HTML, e-mail, Markdown, JSON and ZIP, by page, sheet or slide.

The reading itself is in `readers`; here a file becomes one text for a model, within a model's limits. Images, audio and
video are read in `media`.
"""

from __future__ import annotations

import io
import lzma
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from pathlib import Path

from ..errors import DataError, MissingDependency, ToolError
from ..readers import MEDIA, Part, sniff
from ..readers.archive import ZipLimits, open_zip
from ..readers.reader_pool import Pool
from ..readers.tables import read_csv
from ..readers.text import decode, read_json_text
from .html_pages import from_html

MAX_FILE = 64 << 20
MAX_TEXT = 2_000_000
"""Characters of one file that are read."""
LIMITS = ZipLimits(members=200, total=64 << 20, ratio=200, office_members=4000)
ROWS = 2000
"""Rows of one table that are read as text; the rest is for code."""
_DAMAGED = (
    ToolError,
    RuntimeError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    OSError,
    EOFError,
)
"""What reading a member of an archive can raise, depending on its compression."""


@dataclass(frozen=True, slots=True)
class FileText:
    """A file's content as text, in its natural parts."""

    kind: str
    parts: tuple[tuple[str, str], ...]
    """Name of the part (page 2, sheet Sales, slide 3; empty for the whole) and its text."""
    title: str = ""

    @property
    def text(self) -> str:
        return "\n\n".join(f"[{name}]\n{text}" if name else text for name, text in self.parts).strip()


def read_file(path: Path) -> FileText:
    """Any file but media as text. Raises ToolError with the reason where it cannot be read."""
    try:
        size = path.stat().st_size
        if size > MAX_FILE:
            raise ToolError(f"{path.name} has {size:,} bytes; at most {MAX_FILE:,} are read")
        content = path.read_bytes()
    except OSError as error:
        raise ToolError(f"{path} cannot be read: {error.strerror}") from None
    return from_bytes(content, sniff(content, path.name), path.name)


def from_bytes(content: bytes, kind: str, name: str = "") -> FileText:
    """The content of a file of a known kind as text."""
    readers: dict[str, Callable[[bytes], Iterator[tuple[str, str]]]] = {
        "pdf": _pdf, "docx": _docx, "xlsx": _xlsx, "pptx": _pptx, "zip": _zip, "csv": _csv, "json": _json,
        "html": _html, "mail": _mail, "text": _text, "rtf": _text,
        "odt": partial(_docx, kind="odt"), "ods": partial(_xlsx, kind="ods"), "odp": partial(_pptx, kind="odp"),
    }  # fmt: skip
    if kind not in readers:
        raise ToolError(f"{name or 'the file'} is {kind}, which cannot be read as text")
    parts: list[tuple[str, str]] = []
    try:
        room = MAX_TEXT
        for label, text in readers[kind](content):
            parts.append((label, text[:room]))
            room -= len(text)
            if room <= 0:
                parts.append(("", "… the rest is left out …"))
                break
    except (MissingDependency, ToolError):
        raise
    except DataError as error:
        if not any(text.strip() for _, text in parts):
            raise ToolError(f"{name or 'the file'} cannot be read: {error}") from None
        parts.append(("", f"… not all of it could be read: {error} …"))
    except Exception as error:  # readers of broken files can raise anything
        raise ToolError(f"{name or 'the file'} is a damaged {kind} file: {error or type(error).__name__}") from None
    return FileText(kind, tuple(parts))


def _parts(content: bytes, kind: str) -> Iterator[Part]:
    """Parts, read by a separate process: a file that crashes its reader, or slows it down, does no other harm."""
    with tempfile.TemporaryFile() as file, Pool() as pool:
        file.write(content)
        file.flush()
        yield from pool.parts(pool.start(file, kind))


def _office(content: bytes, kind: str) -> Iterator[Part]:
    open_zip(io.BytesIO(content), LIMITS).close()
    return _parts(content, kind)


def _pdf(content: bytes) -> Iterator[tuple[str, str]]:
    page: list[Part] = []
    wrong = None
    try:
        for part in _parts(content, "pdf"):
            if page and part.place["page"] != page[0].place["page"]:
                yield _page(page)
                page = []
            page.append(part)
    except DataError as error:  # what was read before is kept
        wrong = error
    if page:
        yield _page(page)
    if wrong is not None:
        raise wrong


def _page(parts: Sequence[Part]) -> tuple[str, str]:
    text = "\n".join(part.text.strip() for part in parts)
    return f"page {parts[0].place['page']}", text or "(no text on this page; it may be a scan)"


def _docx(content: bytes, kind: str = "docx") -> Iterator[tuple[str, str]]:
    lines: list[str] = []
    room, wrong = MAX_TEXT, None
    try:
        for part in _office(content, kind):
            lines.append(part.text.rstrip("\n"))
            room -= len(part.text)
            if room <= 0:
                break
    except DataError as error:  # what was read before is kept
        wrong = error
    yield "", "\n".join(lines)
    if wrong is not None:
        raise wrong


def _pptx(content: bytes, kind: str = "pptx") -> Iterator[tuple[str, str]]:
    for part in _office(content, kind):
        yield f"slide {part.place['slide']}", part.text.rstrip("\n")


def _xlsx(content: bytes, kind: str = "xlsx") -> Iterator[tuple[str, str]]:
    for sheet, rows in groupby(_office(content, kind), lambda part: part.place["sheet"]):
        yield f"sheet {sheet}", _table(rows)


def _csv(content: bytes) -> Iterator[tuple[str, str]]:
    yield "", _table(read_csv(io.BytesIO(content)))


def _table(rows: Iterator[Part]) -> str:
    lines = [part.text for part in islice(rows, ROWS)]
    if next(rows, None) is not None:
        lines.append(f"… more than {ROWS} rows; read the file with code …")
    return "\n".join(lines)


def _json(content: bytes) -> Iterator[tuple[str, str]]:
    yield from (("", part.text) for part in read_json_text(io.BytesIO(content)))


def _html(content: bytes) -> Iterator[tuple[str, str]]:
    yield "", from_html(content, "http://file.invalid/").text


def _mail(content: bytes) -> Iterator[tuple[str, str]]:
    for section, parts in groupby(_parts(content, "mail"), lambda part: part.section[:1]):
        yield "".join(section), "\n".join(part.text.strip() for part in parts)


def _text(content: bytes) -> Iterator[tuple[str, str]]:
    yield "", decode(content)


def _zip(content: bytes) -> Iterator[tuple[str, str]]:
    """The names of all members, then the text of those that can be read; archives inside archives are only named."""
    with open_zip(io.BytesIO(content), LIMITS) as archive:
        yield "", "\n".join(f"{m.filename} ({m.file_size:,} bytes)" for m in archive.infolist())
        for member in archive.infolist():
            if member.is_dir():
                continue
            try:
                inner = archive.read(member)
                kind = sniff(inner, member.filename)
                if kind not in MEDIA and kind not in ("zip", "binary", "gzip", "ole"):
                    yield member.filename, from_bytes(inner, kind, member.filename).text
            except _DAMAGED as error:
                yield member.filename, f"(it cannot be read: {error})"  # damaged, or locked by a password


__all__ = ["MAX_FILE", "MEDIA", "FileText", "from_bytes", "read_file", "sniff"]
