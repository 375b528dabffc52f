"""Files as text: PDF, DOCX, XLSX, CSV, PPTX, HTML, Markdown, JSON and ZIP, by page, sheet or slide.

What a file is, is read from its first bytes; its name only decides between kinds that look alike. Images, audio and
video are recognised here and read in `media`.
"""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ..errors import MissingDependency, ToolError

MEDIA = frozenset({"image", "audio", "video"})
MAX_FILE = 64 << 20
MAX_TEXT = 2_000_000
"""Characters of one file that are read."""
ZIP_FILES, ZIP_BYTES, ZIP_RATIO = 200, 64 << 20, 200
"""Limits of an archive: members, bytes in all, growth of one member."""
ROWS = 2000
"""Rows of one table that are read as text; code reads the rest."""
_MAGIC = (
    (b"%PDF-", "pdf"), (b"\x89PNG\r\n\x1a\n", "image"), (b"\xff\xd8\xff", "image"), (b"GIF8", "image"),
    (b"BM", "image"), (b"II*\x00", "image"), (b"MM\x00*", "image"), (b"ID3", "audio"), (b"fLaC", "audio"),
    (b"OggS", "audio"), (b"\xff\xfb", "audio"), (b"\xff\xf3", "audio"), (b"\x1aE\xdf\xa3", "video"),
)  # fmt: skip
_SUFFIXES = {
    "csv": "csv", "tsv": "csv", "json": "json", "jsonl": "text", "html": "html", "htm": "html", "xhtml": "html",
    "md": "text", "markdown": "text", "txt": "text", "xml": "text", "py": "text", "log": "text",
}  # fmt: skip


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


def sniff(content: bytes, name: str = "", content_type: str = "") -> str:
    """pdf, docx, xlsx, pptx, zip, html, csv, json, text, image, audio, video or binary."""
    head = content[:2048]
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head[:4] == b"RIFF":
        return {b"WAVE": "audio", b"AVI ": "video", b"WEBP": "image"}.get(head[8:12], "binary")
    if head[4:8] == b"ftyp":
        return "audio" if head[8:11] == b"M4A" else "image" if head[8:12] in (b"avif", b"heic") else "video"
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _office_kind(content)
    if b"\x00" in head:
        return "binary"
    begin = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if begin.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "html"
    declared = content_type.partition(";")[0].strip().lower()
    suffix = _SUFFIXES.get(name.split("?")[0].rpartition(".")[2].lower(), "")
    if declared in ("text/html", "application/xhtml+xml"):
        return "html"
    if declared in ("text/csv", "application/json"):
        return declared.rpartition("/")[2]
    return suffix or ("html" if begin.startswith((b"<p", b"<div", b"<h1")) else "text")


def read_file(path: Path) -> FileText:
    """Any file but a medium as text. Raises ToolError with the reason where it cannot be read."""
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
    readers = {
        "pdf": _pdf, "docx": _docx, "xlsx": _xlsx, "pptx": _pptx, "zip": _zip, "csv": _csv, "json": _json,
        "html": _html, "text": _text,
    }  # fmt: skip
    if kind not in readers:
        raise ToolError(f"{name or 'the file'} is {kind}, which cannot be read as text")
    try:
        parts, title = [], ""
        room = MAX_TEXT
        for label, text in readers[kind](content):
            parts.append((label, text[:room]))
            room -= len(text)
            if room <= 0:
                parts.append(("", "… the rest is left out …"))
                break
    except (MissingDependency, ToolError):
        raise
    except Exception as error:  # readers of broken files raise what they like
        raise ToolError(f"{name or 'the file'} is a damaged {kind} file: {error or type(error).__name__}") from None
    return FileText(kind, tuple(parts), title)


def _pdf(content: bytes) -> Iterator[tuple[str, str]]:
    try:
        import pypdfium2
    except ImportError:
        raise MissingDependency("the PDF reader", "web-tools") from None
    document = pypdfium2.PdfDocument(content)
    try:
        for number, page in enumerate(document, 1):
            text = page.get_textpage().get_text_bounded().replace("\r\n", "\n")
            yield f"page {number}", text.strip() or "(no text on this page; it may be a scan)"
    finally:
        document.close()


def _docx(content: bytes) -> Iterator[tuple[str, str]]:
    with _archive(content) as archive:
        body = _xml(archive, "word/document.xml").find("{*}body")
        blocks: list[str] = []
        for element in body if body is not None else ():
            if element.tag.endswith("}tbl"):
                for row in element.iter(_tag(element, "tr")):
                    cells = [" ".join(_words(cell).split()) for cell in row.iter(_tag(element, "tc"))]
                    blocks.append(f"| {' | '.join(cells)} |")
            elif text := _words(element).strip():
                blocks.append(text)
        yield "", "\n".join(blocks)


def _pptx(content: bytes) -> Iterator[tuple[str, str]]:
    with _archive(content) as archive:
        slides = [m for m in archive.namelist() if re.fullmatch(r"ppt/slides/slide\d+\.xml", m)]
        for name in sorted(slides, key=lambda n: int(re.findall(r"\d+", n)[-1])):
            number = re.findall(r"\d+", name)[-1]
            paragraphs = (_words(p).strip() for p in _xml(archive, name).iter() if p.tag.endswith("}p"))
            yield f"slide {number}", "\n".join(p for p in paragraphs if p)


def _xlsx(content: bytes) -> Iterator[tuple[str, str]]:
    try:
        import openpyxl
    except ImportError:
        raise MissingDependency("the XLSX reader", "web-tools") from None
    _archive(content).close()
    book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    try:
        for sheet in book.worksheets:
            rows = (["" if cell is None else str(cell) for cell in row] for row in sheet.iter_rows(values_only=True))
            yield f"sheet {sheet.title}", _table(rows)
    finally:
        book.close()


def _csv(content: bytes) -> Iterator[tuple[str, str]]:
    text = _decoded(content)
    try:
        dialect: Any = csv.Sniffer().sniff(text[:4096], ",;\t|")
    except csv.Error:
        dialect = csv.excel
    yield "", _table(csv.reader(io.StringIO(text), dialect))


def _json(content: bytes) -> Iterator[tuple[str, str]]:
    text = _decoded(content)
    try:
        yield "", json.dumps(json.loads(text), ensure_ascii=False, indent=1)
    except (ValueError, RecursionError):
        yield "", text


def _html(content: bytes) -> Iterator[tuple[str, str]]:
    from .pages import from_html

    yield "", from_html(content, "http://file.invalid/").text


def _text(content: bytes) -> Iterator[tuple[str, str]]:
    yield "", _decoded(content)


def _zip(content: bytes) -> Iterator[tuple[str, str]]:
    """The names of all members, then the text of those that can be read; archives inside archives are only named."""
    with _archive(content) as archive:
        yield "", "\n".join(f"{m.filename} ({m.file_size:,} bytes)" for m in archive.infolist())
        for member in archive.infolist():
            if member.is_dir():
                continue
            inner = archive.read(member)
            kind = sniff(inner, member.filename)
            if kind not in MEDIA and kind not in ("zip", "binary"):
                yield member.filename, from_bytes(inner, kind, member.filename).text


def _archive(content: bytes) -> zipfile.ZipFile:
    """A ZIP archive within our limits."""
    archive = zipfile.ZipFile(io.BytesIO(content))
    members = archive.infolist()
    if len(members) > ZIP_FILES * (20 if any(m.filename.startswith(("xl/", "ppt/", "word/")) for m in members) else 1):
        raise ToolError(f"the archive has {len(members):,} members; at most {ZIP_FILES} are read")
    if sum(m.file_size for m in members) > ZIP_BYTES:
        raise ToolError(f"the archive holds more than {ZIP_BYTES:,} bytes")
    for member in members:
        if member.file_size > 1 << 20 and member.file_size > ZIP_RATIO * max(member.compress_size, 1):
            raise ToolError(f"{member.filename} in the archive grows more than {ZIP_RATIO} times: refused")
    return archive


def _office_kind(content: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        return "zip"
    for prefix, kind in (("word/", "docx"), ("xl/", "xlsx"), ("ppt/", "pptx")):
        if any(name.startswith(prefix) for name in names):
            return kind
    return "zip"


def _xml(archive: zipfile.ZipFile, name: str) -> ElementTree.Element:
    data = archive.read(name)
    if b"<!DOCTYPE" in data[:4096] or b"<!ENTITY" in data:
        raise ToolError(f"{name} declares entities: refused")
    return ElementTree.fromstring(data)


def _tag(element: ElementTree.Element, name: str) -> str:
    return element.tag.rpartition("}")[0] + "}" + name


def _words(element: ElementTree.Element) -> str:
    """The text of a Word or PowerPoint paragraph; a tab or break is a blank."""
    out = []
    for node in element.iter():
        if node.tag.endswith("}t"):
            out.append(node.text or "")
        elif node.tag.endswith(("}tab", "}br", "}cr")):
            out.append(" ")
        elif node.tag.endswith("}p") and out:
            out.append("\n")
    return "".join(out)


def _table(rows: Any) -> str:
    lines = []
    for number, row in enumerate(rows):
        if number >= ROWS:
            lines.append(f"… more than {ROWS} rows; read the file with code …")
            break
        if any(cell.strip() for cell in row):
            lines.append(f"| {' | '.join(' '.join(cell.split()) for cell in row)} |")
    return "\n".join(lines)


def _decoded(content: bytes) -> str:
    for encoding in ("utf-8-sig", "utf-16") if content[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig",):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1")
