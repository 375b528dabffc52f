"""The documents of one file: a corpus by line, text as a stream, everything else through a reader process."""

from __future__ import annotations

import contextlib
import os
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, cast

from ...citation import SUPERSEDED
from ...errors import DataError, SubquestError, UsageError
from ...input_file import parse_json
from ...readers import MEDIA, sniff, sniff_file
from ...readers.archive import DAMAGED, GzipReader, ZipLimits, open_zip, refuse_growth, unpack_to_memory
from ...readers.reader_pool import Job, Pool
from ...readers.records import read_json, read_json_lines
from ...readers.tables import csv_rows, read_csv
from ...readers.text import is_unguessed, lines
from ...record import Document
from ..corpus import Wrong, beside_corpus, corpus_columns, read_jsonl, read_tsv, record_columns
from ..passages import Passages
from ..splitter import Size
from ..table_passages import LeftOut
from .sources import PICTURES, SUFFIXES, suffix_of
from .table_writer import TableWriter

ISOLATED = frozenset({"pdf", "docx", "pptx", "xlsx", "odt", "ods", "odp", "html", "mail"})
"""Kinds that are read in a process of their own."""
_STREAMED = frozenset({"jsonl", "ndjson", "tsv", "csv", "txt", "text", "md", "markdown", "rst", "log"})
_DEPTH = 3
"""Archives inside archives."""
MARKDOWN = ("md", "markdown")
_PLAIN = frozenset({"log", "csv", "tsv", "yaml", "yml"})
_OLE = "an old Office file (such as .doc or .xls); save it as DOCX, XLSX, PPTX or PDF"
_RTF = "an RTF file; save it as DOCX, ODT or PDF"
_IMAGE = "an image, perhaps a scan; read it with --ocr"
_LOCKED = "it is encrypted; it can be read after its password is removed"
_PACKAGE = "EncryptedPackage".encode("utf-16-le")
"""The name of the stream that holds a DOCX, XLSX or PPTX with a password, in the directory of an OLE file."""
_LOOKED_AT = 1 << 20
"""Bytes at the beginning and at the end of an OLE file in which its directory is looked for."""


class Stopped(DataError):
    """Something is wrong, and reading stops."""


@dataclass(slots=True)
class Contents:
    """What was found out about a file while it was read."""

    passages: int = 0
    pages: int = 0
    empty_pages: int = 0
    wrong: int = 0
    """Lines and members that could not be read."""
    first_wrong: str = ""
    left_out: LeftOut = field(default_factory=LeftOut)
    unguessed: bool = False
    """Text in another script was read as western letters, because encodings cannot be guessed here."""


@dataclass(frozen=True, slots=True)
class FileReader:
    """Reads files into documents."""

    size: Size
    pool: Pool
    ocr: bool
    wrong: Callable[[str, str], None]
    """Called with the name and the reason of lines and archive members that cannot be read; may raise."""
    tables: TableWriter
    passed_over: Counter[str] = field(default_factory=Counter)
    """Members of archives of kinds that are not read, by suffix."""

    def kind(self, file: BinaryIO, name: str) -> str:
        """What the file is, by its content first."""
        kind = sniff_file(file, name.removesuffix(".gz"))
        return "ocr" if kind == "image" and self.ocr else kind

    def start(self, file: BinaryIO, name: str) -> Job | None:
        """Start reading a file that needs a process of its own; None for others."""
        kind = self.kind(file, name)
        if kind == "ocr":
            return self.pool.start(file, "image")
        return self.pool.start(file, kind) if kind in ISOLATED else None

    def documents(
        self, file: BinaryIO, name: str, contents: Contents, job: Job | None, newer: str = ""
    ) -> Iterator[Document]:
        """The documents of a file. Raises DataError with the reason where it cannot be read.

        `newer` is the file that supersedes it.
        """
        budget = _Budget()
        meta = {SUPERSEDED: newer} if newer else {}
        try:
            for document in self._read(file, name, meta, contents, job, budget):
                contents.passages += 1
                yield document
        except DAMAGED as error:
            raise DataError(f"damaged: {error}") from None
        except OSError as error:
            raise DataError(error.strerror or str(error)) from None
        except SubquestError:
            raise
        except Exception as error:  # readers of broken files can raise anything; the other files are still read
            raise DataError(f"damaged: {str(error) or type(error).__name__}") from error

    def _read(
        self, file: BinaryIO, name: str, meta: dict[str, Any], contents: Contents, job: Job | None, budget: _Budget
    ) -> Iterator[Document]:
        kind = "" if job is not None else self.kind(file, name)
        passages = self._passages(name, meta, contents)
        if job is not None or kind in ISOLATED or kind == "ocr":
            job = job or self.pool.start(file, "image" if kind == "ocr" else kind)
            yield from passages.of_parts(self.pool.parts(job))
            contents.pages += passages.pages
            contents.empty_pages += passages.empty_pages
        elif kind == "gzip":
            with budget.unpacking():
                yield from self._packed(cast("BinaryIO", GzipReader(file)), name, meta, contents, budget)
        elif kind == "zip":
            yield from self._members(file, name, meta, contents, budget)
        elif kind == "tar":
            yield from self._tar_members(file, name, meta, contents, budget)
        elif kind == "ole":
            raise DataError(_LOCKED if _is_locked(file) else _OLE)
        elif kind == "rtf":
            raise DataError(_RTF)
        elif kind in MEDIA or kind == "binary":
            raise DataError(_IMAGE if kind == "image" else f"it is {kind}, not text")
        elif kind == "json":
            contents.unguessed |= is_unguessed(file)
            yield from passages.of_parts(read_json(file))
        else:
            yield from self._streamed(file, name, passages, contents)

    def _passages(self, name: str, meta: dict[str, Any], contents: Contents) -> Passages:
        self.tables.within(meta)
        return Passages(name, self.size, self.tables, contents.left_out, **meta)

    def _streamed(self, file: BinaryIO, name: str, passages: Passages, contents: Contents) -> Iterator[Document]:
        wrong, suffix = self._wrong(name, contents), suffix_of(name)
        columns = record_columns(file) if suffix in ("jsonl", "ndjson") else ()
        if suffix in ("jsonl", "ndjson") and not columns:
            yield from read_jsonl(file, name, wrong)
            return
        contents.unguessed |= is_unguessed(file)
        if columns:
            yield from passages.of_parts(read_json_lines(file, columns, partial(_not_json, name, wrong)))
            return
        if suffix in ("tsv", "csv"):
            if is_corpus(file, suffix):
                yield from read_tsv(file, name, wrong)
            else:
                yield from passages.of_parts(read_csv(file))
        else:
            yield from passages.of_lines(lines(file), markdown=suffix not in _PLAIN, marks=suffix in MARKDOWN)

    def _wrong(self, name: str, contents: Contents) -> Wrong:
        def record(error: DataError) -> None:
            reason = str(error).removeprefix(name).lstrip(",: ")
            contents.wrong += 1
            contents.first_wrong = contents.first_wrong or reason
            self.wrong(name, reason)

        return record

    def _members(
        self, file: BinaryIO, name: str, meta: dict[str, Any], contents: Contents, budget: _Budget
    ) -> Iterator[Document]:
        if budget.depth >= _DEPTH:
            raise DataError(f"archives inside archives are read to a depth of {_DEPTH}")
        with open_zip(file, budget.limits, whole=False) as archive, budget.within(archive):
            seen: dict[str, int] = {}
            excluded = _excluded(archive)
            for member in archive.infolist():
                if member.is_dir() or member.filename in excluded:
                    continue
                with self._inside(name, member.filename, meta, seen, contents) as (inside, own):
                    if own is None:
                        continue
                    refuse_growth(member, budget.limits.ratio)
                    with archive.open(member) as stream:
                        yield from self._member(cast("BinaryIO", stream), inside, own, contents, budget)

    def _tar_members(
        self, file: BinaryIO, name: str, meta: dict[str, Any], contents: Contents, budget: _Budget
    ) -> Iterator[Document]:
        """Members one after the other as they come, so an archive may be larger than the memory."""
        if budget.depth >= _DEPTH:
            raise DataError(f"archives inside archives are read to a depth of {_DEPTH}")
        budget.depth += 1
        seen: dict[str, int] = {}
        with tarfile.open(fileobj=file, mode="r:") as archive:
            for member in archive:
                if len(seen) > budget.limits.members:
                    raise DataError(f"the archive has more than {budget.limits.members:,} members")
                stream = archive.extractfile(member) if member.isfile() else None
                if stream is None:
                    continue
                with self._inside(name, member.name, meta, seen, contents) as (inside, own):
                    if own is not None:
                        yield from self._member(cast("BinaryIO", stream), inside, own, contents, budget)
        budget.depth -= 1

    @contextlib.contextmanager
    def _inside(
        self, name: str, member: str, meta: dict[str, Any], seen: dict[str, int], contents: Contents
    ) -> Iterator[tuple[str, dict[str, Any] | None]]:
        """The name and the metadata of a member, None for a hidden one; what is wrong with it is reported."""
        if _hidden(member):
            self.passed_over["hidden"] += 1
            yield "", None
            return
        plain = member.encode("utf-8", "backslashreplace").decode()
        seen[plain] = times = seen.get(plain, 0) + 1
        inside = f"{name}/{plain}" if times == 1 else f"{name}/{plain} ({times})"
        own = {**meta, "file": meta.get("file", name)}
        own["member"] = f"{meta['member']}/{plain}" if "member" in meta else plain
        try:
            yield inside, own
        except Stopped:
            raise
        except UsageError as error:
            self._wrong(inside, contents)(DataError(f"{inside}: {error}"))
        except SubquestError:
            raise
        except Exception as error:
            why = str(error) or type(error).__name__
            self._wrong(inside, contents)(DataError(f"{inside}: damaged or encrypted: {why}"))

    def _member(
        self, stream: BinaryIO, inside: str, own: dict[str, Any], contents: Contents, budget: _Budget
    ) -> Iterator[Document]:
        plain = own["member"].rpartition("/")[2]
        if self._without_text(stream, plain):
            self.passed_over[f".{suffix_of(plain)}" if suffix_of(plain) else "no suffix"] += 1
            return
        yield from self._packed(stream, inside, own, contents, budget)

    def _without_text(self, stream: BinaryIO, name: str) -> bool:
        """Whether a member is of a kind that is not read, by its name and its first bytes."""
        if suffix_of(name) in SUFFIXES or (self.ocr and suffix_of(name) in PICTURES):
            return False
        head = stream.read(2048)
        stream.seek(0)
        return sniff(head, name) in (*MEDIA, "binary")

    def _packed(
        self, stream: BinaryIO, name: str, meta: dict[str, Any], contents: Contents, budget: _Budget
    ) -> Iterator[Document]:
        """The documents of a compressed stream: lines as they come, everything else unpacked into memory first."""
        head = stream.read(2048)
        stream.seek(0)
        kind = sniff(head, name.removesuffix(".gz"))
        if kind == "tar":
            yield from self._tar_members(stream, name, meta, contents, budget)
            return
        if suffix_of(name) in _STREAMED and kind in ("text", "csv"):
            yield from self._streamed(stream, name, self._passages(name, meta, contents), contents)
            return
        with unpack_to_memory(stream, os.path.basename(name)) as inner:
            yield from self._read(inner, name, meta, contents, None, budget)


def _excluded(archive: zipfile.ZipFile) -> set[str]:
    """Members beside the corpus of a world, in the same folder of the archive."""
    folders: dict[str, list[str]] = {}
    for name in archive.namelist():
        folder, slash, plain = name.rpartition("/")
        folders.setdefault(folder + slash, []).append(plain)
    return {folder + plain for folder, names in folders.items() for plain in beside_corpus(names)}


class _Budget:
    """What may still be unpacked of an archive and all archives in it."""

    def __init__(self) -> None:
        self.limits = ZipLimits()
        self.depth = 0
        self._unpacking = False

    @contextlib.contextmanager
    def unpacking(self) -> Iterator[None]:
        if self._unpacking:
            raise DataError("compressed more than once")
        self._unpacking = True
        try:
            yield
        finally:
            self._unpacking = False

    @contextlib.contextmanager
    def within(self, archive: zipfile.ZipFile) -> Iterator[None]:
        members = archive.infolist()
        left = self.limits.total - sum(member.file_size for member in members)
        self.limits = ZipLimits(max(0, self.limits.members - len(members)), left, self.limits.ratio)
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


def is_corpus(file: BinaryIO, suffix: str) -> bool:
    """Whether a table holds passages: columns called id and text, or, in a TSV file, DPR's number, text and title."""
    row = next((row for _, row in csv_rows(file, "\t" if suffix == "tsv" else "") if any(row)), [])
    file.seek(0)
    dpr = suffix == "tsv" and len(row) == 3 and row[0].strip().isdigit() and len(row[1]) > len(row[2])
    return dpr or bool(corpus_columns(row))


def _not_json(name: str, wrong: Wrong, number: int, line: str) -> None:
    """Say what is wrong with a line of a file of records."""
    place = f"{name}, line {number}"
    try:
        parse_json(line, place)
    except DataError as error:
        wrong(error)
    else:
        wrong(DataError(f"{place}: expected an object, got null"))


def _hidden(name: str) -> bool:
    return any(part.startswith((".", "~$", "__MACOSX")) for part in name.split("/"))


def _is_locked(file: BinaryIO) -> bool:
    """Whether an OLE file is an Office document with a password."""
    for whence, start in ((os.SEEK_SET, 0), (os.SEEK_END, -min(_LOOKED_AT, file.seek(0, os.SEEK_END)))):
        file.seek(start, whence)
        if _PACKAGE in file.read(_LOOKED_AT):
            return True
    return False
