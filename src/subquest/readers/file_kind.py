"""The kind of a file: by its first bytes; its name only decides between kinds that look alike."""

from __future__ import annotations

import io
import re
import zipfile
from typing import BinaryIO

from ..errors import DataError
from .archive import DAMAGED, directory_within

MEDIA = frozenset({"image", "audio", "video"})
_MAGIC = (
    (b"%PDF-", "pdf"), (b"\x89PNG\r\n\x1a\n", "image"), (b"\xff\xd8\xff", "image"), (b"II*\x00", "image"),
    (b"MM\x00*", "image"), (b"\xff\xfb", "audio"), (b"\xff\xf3", "audio"), (b"\x1aE\xdf\xa3", "video"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"), (b"\x1f\x8b", "gzip"), (b"{\\rtf", "rtf"),
)  # fmt: skip
_WORDS = (
    (b"GIF8", "image"), (b"BM", "image"), (b"ID3", "audio"), (b"fLaC", "audio"), (b"OggS", "audio"),
    (b"RIFF", "binary"),
)  # fmt: skip
"""Beginnings that a text may have as well (*BMW is ...*): they count only with bytes that no text has."""
_RIFF = {b"WAVE": "audio", b"AVI ": "video", b"WEBP": "image"}
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_SUFFIXES = {
    "csv": "csv", "tsv": "csv", "json": "json", "jsonl": "text", "html": "html", "htm": "html", "xhtml": "html",
    "md": "text", "markdown": "text", "txt": "text", "xml": "text", "py": "text", "log": "text",
    "eml": "mail",
}  # fmt: skip
_OPEN_DOCUMENT = {
    b"application/vnd.oasis.opendocument.text": "odt",
    b"application/vnd.oasis.opendocument.spreadsheet": "ods",
    b"application/vnd.oasis.opendocument.presentation": "odp",
}
"""By what stands in the member `mimetype`; templates have `-template` behind it."""
_HEAD = 2048


def sniff(content: bytes, name: str = "", content_type: str = "") -> str:
    """The kind of a file by its content.

    pdf, docx, xlsx, pptx, odt, ods, odp, zip, tar, gzip, ole, rtf, html, mail, csv, json, text, image, audio, video or
    binary.
    """
    return sniff_file(io.BytesIO(content), name, content_type)


def sniff_file(file: BinaryIO, name: str = "", content_type: str = "") -> str:
    """The kind of an open file, which is rewound."""
    head = file.read(_HEAD)
    file.seek(0)
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head[:4] == b"RIFF" and head[8:12] in _RIFF:
        return _RIFF[head[8:12]]
    if _CONTROL.search(head) and (kind := next((kind for word, kind in _WORDS if head.startswith(word)), "")):
        return kind
    if head[4:8] == b"ftyp" and head[0] == 0:
        return "audio" if head[8:11] == b"M4A" else "image" if head[8:12] in (b"avif", b"heic") else "video"
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _office_kind(file)
    if head[257:262] == b"ustar":
        return "tar"
    suffix = _SUFFIXES.get(name.split("?")[0].rpartition(".")[2].lower(), "")
    if b"%PDF-" in head[:1024] and not suffix:  # PDF readers accept bytes before it
        return "pdf"
    if b"\x00" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "binary"
    begin = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if begin.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "html"
    declared = content_type.partition(";")[0].strip().lower()
    if declared in ("text/html", "application/xhtml+xml"):
        return "html"
    if declared in ("text/csv", "application/json"):
        return declared.rpartition("/")[2]
    return suffix or ("html" if begin.startswith((b"<p", b"<div", b"<h1")) else "text")


def _office_kind(file: BinaryIO) -> str:
    try:
        directory_within(file)
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            if kind := opendocument_kind(archive):
                return kind
    except (zipfile.BadZipFile, DataError, RuntimeError, ValueError, *DAMAGED):  # such as a name that is not UTF-8
        return "zip"
    finally:
        file.seek(0)
    for prefix, kind in (("word/", "docx"), ("xl/", "xlsx"), ("ppt/", "pptx")):
        if any(name.startswith(prefix) for name in names):
            return kind
    return "zip"


def opendocument_kind(archive: zipfile.ZipFile) -> str:
    """odt, ods or odp; empty for another archive."""
    if not {"mimetype", "content.xml"} <= archive.NameToInfo.keys():
        return ""
    with archive.open("mimetype") as stream:
        return _OPEN_DOCUMENT.get(stream.read(100).strip().removesuffix(b"-template"), "")
