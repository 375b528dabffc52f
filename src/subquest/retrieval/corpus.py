"""Corpora: documents from files that hold many, and from folders of plain text.

    .jsonl   one object a line: ours `{"id","title","text",...}` or FlashRAG's `{"id","contents"}`, whose first line is
             the title, mostly in double quotes; other fields become metadata
             (JSON lines that are plain records are a table: `record_columns`)
    .tsv     DPR's `id<TAB>text<TAB>title`, with or without a header line
    .txt .md plain text and Markdown, cut into passages of about 100 words
    .gz      any of these, compressed

`read` yields documents and never holds a file as a whole. It is for corpora; folders of PDFs, web pages and office
files go through `ingest`, which remembers what it has read.
"""

from __future__ import annotations

import glob
import gzip
import io
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from ..errors import DataError, UsageError
from ..input_file import parse_json
from ..readers.records import columns_of_lines
from ..readers.tables import csv_rows
from ..readers.text import ERRORS, encoding_of, lines
from ..record import Document
from .passages import Passages

Complain = Callable[[str], None]
"""Called with the message about a file that could not be read; the others are read."""

Wrong = Callable[[DataError], None]
"""Called with what is wrong with a line; the lines after it are read unless it raises."""

MAX_LINE = 64 << 20
"""Bytes of one line of a JSONL corpus."""

_TITLE = 300
"""Characters of a title; a longer first line is text, unless it is in quotes."""

_OF_CORPORA = frozenset({"text", "contents"})
_OF_ANY_DOCUMENT = frozenset({"id", "_id", "title", "meta"})
_OF_QUESTIONS = frozenset({"answers", "golden_answers"})
"""A set of questions with their answers is nothing to search in."""

_SUFFIXES = (".jsonl", ".tsv", ".txt", ".md")


def _raise(error: DataError) -> None:
    raise error


def read(sources: Sequence[str | Path], *, complain: Complain | None = None) -> Iterator[Document]:
    """The documents of files, folders (recursively, links to folders not followed) and glob patterns.

    Text passages are named after the path as it was given, or, in a folder, after the folder's name and the path in it.
    """
    for source in sources:
        for path, name in _files(Path(source)):
            try:
                yield from read_file(path, name=name)
            except (DataError, OSError, EOFError) as error:
                if complain is None:
                    raise
                complain(f"{path}: {error}" if str(path) not in str(error) else str(error))


def kind(path: Path) -> str:
    """The suffix that says how a file is read, without .gz; empty for kinds that are not read here."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return suffixes[-1] if suffixes and suffixes[-1] in _SUFFIXES else ""


def read_file(path: Path, *, name: str = "") -> Iterator[Document]:
    """The documents of one file; `name` is the prefix of the ids of text passages."""
    found = kind(path)
    if not found:
        raise UsageError(f"{path}: cannot read this kind of file; give {', '.join(_SUFFIXES)}, each also as .gz")
    with _open(path) as file:
        if found == ".jsonl":
            yield from read_jsonl(file, str(path))
        elif found == ".tsv":
            yield from read_tsv(file, str(path))
        else:
            yield from Passages(name or path.name).of_lines(lines(file), marks=found == ".md")


def text_passages(name: str, text: str, **meta: Any) -> Iterator[Document]:
    """A text as passages named after it: `name#1`, `name#2`, ... with their place in it."""
    yield from Passages(name, **meta).of_lines(text.splitlines(keepends=True))


def from_object(record: Any, where: str) -> Document:
    """A document from one object of a JSONL corpus; `where` names the line in errors."""
    if not isinstance(record, dict):
        raise DataError(f"{where}: expected an object, got {type(record).__name__}")
    fields = dict(record)
    identifier = fields.pop("id", fields.pop("_id", None))
    if identifier is None:
        raise DataError(f"{where}: the document has no id")
    if not isinstance(identifier, str | int) or isinstance(identifier, bool):
        raise DataError(f"{where}: the id must be a string or a number, not {type(identifier).__name__}")
    given, text, contents = fields.pop("title", None), fields.pop("text", None), fields.pop("contents", None)
    title = "" if given is None else str(given) if isinstance(given, int | float) else given
    if text is None and isinstance(contents, str):
        title, text = _split_contents(contents, title)
    if not isinstance(text, str):
        raise DataError(f"{where}: document {identifier!r} has no text (give `text`, or `contents`)")
    if not isinstance(title, str):
        raise DataError(f"{where}: the title of document {identifier!r} must be a string, not {type(title).__name__}")
    meta = fields.pop("meta", None)
    return Document(str(identifier), title, text, {**fields, **meta} if isinstance(meta, dict) else fields)


def _split_contents(contents: str, title: Any) -> tuple[Any, str]:
    """Title and text of FlashRAG's `contents`: the first line is the title, unless that is given or it is too long."""
    first, line_end, rest = contents.partition("\n")
    plain = first.strip()
    quoted = len(plain) > 1 and plain[0] == plain[-1] == '"'
    if quoted:
        plain = plain[1:-1]
    if not line_end or (len(plain) > _TITLE and not quoted) or (title and plain != title):
        return title, contents
    return plain, rest


def read_jsonl(file: BinaryIO, where: str, wrong: Wrong = _raise) -> Iterator[Document]:
    """The documents of a JSONL corpus; `wrong` is called for malformed lines, and may raise."""
    for number, line in _lines(file):
        if not line.strip():
            continue
        place = f"{where}, line {number}"
        try:
            if len(line) > MAX_LINE:
                raise DataError(f"{place}: longer than {MAX_LINE:,} bytes")
            yield from_object(_parsed(line, place), place)
        except DataError as error:
            wrong(error)


def record_columns(file: BinaryIO) -> tuple[str, ...]:
    """The columns of JSON lines that are plain records (`{"city": "Kelm", "mayor": "Bo Lind"}`) and no corpus.

    All lines that are JSON must be records, and none may name a field with the text of a document: a corpus of which
    some lines are broken stays one. Empty for a corpus, for questions, and for what cannot be told: lines that name
    nothing but an id and a title may be documents whose texts are missing.
    """
    columns = columns_of_lines(file, _OF_CORPORA | _OF_QUESTIONS)
    return columns if not _OF_ANY_DOCUMENT.issuperset(columns) else ()


def read_tsv(file: BinaryIO, where: str, wrong: Wrong = _raise) -> Iterator[Document]:
    """The documents of a table with the columns id, text and title (DPR's), or with columns of these names."""
    columns: dict[str, int] = {}
    for number, row in csv_rows(file, "\t" if where.removesuffix(".gz").endswith(".tsv") else ""):
        if not any(row):
            continue
        named = corpus_columns(row) if not columns else {}
        columns = columns or named or {"id": 0, "text": 1, "title": 2}
        if not named:
            place = f"{where}, line {number}"
            try:
                yield _from_row(row, columns, place)
            except DataError as error:
                wrong(error)


def corpus_columns(row: Sequence[str]) -> dict[str, int]:
    """The positions of the columns of a corpus, if this is a header that names an id and a text."""
    names = {name.strip().removeprefix("\ufeff").lower(): i for i, name in enumerate(row)}
    return names if {"id", "text"} <= names.keys() else {}


def _from_row(row: Sequence[str], columns: Mapping[str, int], where: str) -> Document:
    if len(row) <= max(columns["id"], columns["text"]):
        raise DataError(f"{where}: expected id, text and title, separated by tabs")
    fields = {name: row[i] for name, i in columns.items() if i < len(row)}
    identifier, text = fields.pop("id"), fields.pop("text")
    return Document(identifier, fields.pop("title", ""), text, {name: value for name, value in fields.items() if value})


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Number and content of each line, in UTF-8; one that is too long is cut just after the limit."""
    encoding = encoding_of(file.read(4))
    file.seek(0)
    if encoding in ("utf-8", "utf-8-sig"):
        yield from _numbered(lambda: file.readline(MAX_LINE + 1))
        return
    wrapper = io.TextIOWrapper(file, encoding, errors="replace", newline="\n")  # such as PowerShell's UTF-16
    try:
        yield from _numbered(lambda: wrapper.readline(MAX_LINE + 1).encode())
    finally:
        wrapper.detach()


def _numbered(readline: Callable[[], bytes]) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := readline():
        number += 1
        yield number, line
        while len(line) > MAX_LINE and not line.endswith(b"\n"):
            line = readline()


def _parsed(line: bytes, where: str) -> Any:
    return parse_json(line.decode(errors=ERRORS).removeprefix("\ufeff"), where)


def beside_corpus(names: Collection[str]) -> frozenset[str]:
    """The files of one folder that no search may find, because they belong to the corpus of a world.

    A world's folder has `corpus.jsonl` with its `questions.jsonl` and `world.json`; the other JSON files beside
    it (questions, gold plans, facts, in any format) would give the answers away.
    """
    if "corpus.jsonl" not in names or not {"questions.jsonl", "world.json"} & set(names):
        return frozenset()
    return frozenset(n for n in names if n.removesuffix(".gz").endswith((".jsonl", ".json"))) - {"corpus.jsonl"}


def _open(path: Path) -> BinaryIO:
    if path.suffix.lower() == ".gz":
        return cast("BinaryIO", gzip.open(path, "rb"))
    return open(path, "rb")


def _files(source: Path) -> Iterator[tuple[Path, str]]:
    """Each file and its name; in folders only kinds that are read here, in a stable order."""
    if source.is_file():
        yield source, str(source)
    elif source.is_dir():
        for folder, names, files in os.walk(source):
            names.sort()
            excluded = beside_corpus(files)
            for path in (Path(folder) / name for name in sorted(files)):
                if kind(path) and path.name not in excluded and path.is_file():
                    yield path, str(source.resolve().name / path.relative_to(source))
    elif re.search(r"[*?\[]", str(source)):
        matches = [Path(match) for match in sorted(glob.glob(str(source), recursive=True))]
        if not matches:
            raise UsageError(f"no file matches the pattern {source}")
        beside = {folder: beside_corpus(os.listdir(folder)) for folder in {match.parent for match in matches}}
        yield from ((m, str(m)) for m in matches if m.is_file() and m.name not in beside[m.parent])
    else:
        raise UsageError(f"{source} does not exist")


__all__ = [
    "beside_corpus",
    "from_object",
    "kind",
    "read",
    "read_file",
    "read_jsonl",
    "read_tsv",
    "record_columns",
    "text_passages",
]
