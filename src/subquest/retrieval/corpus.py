"""Corpora: documents from files that hold many, and from folders of plain text.

    .jsonl   one object a line: ours `{"id","title","text",...}` or FlashRAG's `{"id","contents"}`, whose first line is
             the title in double quotes; other fields become metadata
    .tsv     DPR's `id<TAB>text<TAB>title`, with or without a header line
    .txt .md plain text and Markdown, cut into passages of about 100 words
    .gz      any of these, compressed

`read` yields documents and never holds a file as a whole, except for a single text or Markdown file.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

from ..errors import DataError, UsageError
from ..record import Document
from .passages import Passage, cut

Complain = Callable[[str], None]
"""Told about a file that could not be read; the rest goes on."""

_SUFFIXES = (".jsonl", ".tsv", ".txt", ".md")


def read(sources: Sequence[str | Path], *, complain: Complain | None = None) -> Iterator[Document]:
    """The documents of files, folders (searched through, links to folders not followed) and glob patterns.

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
    """The suffix that says how a file is read, without .gz; empty for what is not understood here."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return suffixes[-1] if suffixes and suffixes[-1] in _SUFFIXES else ""


def read_file(path: Path, *, name: str = "") -> Iterator[Document]:
    """The documents of one file; `name` is what text passages are called after."""
    found = kind(path)
    if not found:
        raise UsageError(f"{path}: cannot read this kind of file; give {', '.join(_SUFFIXES)}, each also as .gz")
    with _open(path) as file:
        if found == ".jsonl":
            yield from _read_jsonl(path, file)
        elif found == ".tsv":
            yield from _read_tsv(path, file)
        else:
            yield from text_passages(name or path.name, file.read().decode(errors="replace"))


def text_passages(name: str, text: str, **meta: Any) -> Iterator[Document]:
    """A text as passages named after it: `name#1`, `name#2`, ... with their place in it."""
    title = name
    for i, (passage, start, heading) in enumerate(cut(text), start=1):
        title = heading or title
        yield Document(f"{name}#{i}", title, passage, {"file": name, "start": start, **meta})


def from_object(record: Any, where: str) -> Document:
    """A document from one object of a JSONL corpus; `where` names the line in errors."""
    if not isinstance(record, dict):
        raise DataError(f"{where}: expected an object, got {type(record).__name__}")
    fields = dict(record)
    identifier = fields.pop("id", fields.pop("_id", None))
    if identifier is None:
        raise DataError(f"{where}: the document has no id")
    if not isinstance(identifier, str | int):
        raise DataError(f"{where}: the id must be a text or a number, not {type(identifier).__name__}")
    if "contents" in fields and "text" not in fields:
        title, _, text = str(fields.pop("contents")).partition("\n")
        title = fields.pop("title", None) or title.strip().removeprefix('"').removesuffix('"')
    else:
        title, text = fields.pop("title", "") or "", fields.pop("text", None)
        fields.pop("contents", None)
    if not isinstance(title, str) or not isinstance(text, str):
        raise DataError(f"{where}: document {identifier!r} has no text (give `text`, or `contents`)")
    meta = fields.pop("meta", None)
    return Document(str(identifier), title, text, {**fields, **meta} if isinstance(meta, dict) else fields)


def _read_jsonl(path: Path, file: IO[bytes]) -> Iterator[Document]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line.decode(errors="replace").removeprefix("\ufeff"))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}, line {number}: not JSON ({error})") from None
        yield from_object(record, f"{path}, line {number}")


def _read_tsv(path: Path, file: IO[bytes]) -> Iterator[Document]:
    csv.field_size_limit(1 << 30)
    lines = csv.reader(io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline=""), delimiter="\t")
    for row in lines:
        if lines.line_num == 1 and row[:2] == ["id", "text"]:
            continue
        if len(row) < 2:
            raise DataError(f"{path}, line {lines.line_num}: expected id, text and title, separated by tabs")
        yield Document(row[0], row[2] if len(row) > 2 else "", row[1])


def _open(path: Path) -> IO[bytes]:
    if path.suffix.lower() == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return open(path, "rb")


def _files(source: Path) -> Iterator[tuple[Path, str]]:
    """Each file and its name; in folders only kinds that are understood, in a stable order."""
    if source.is_file():
        yield source, str(source)
    elif source.is_dir():
        for folder, names, files in os.walk(source):
            names.sort()
            for path in (Path(folder) / name for name in sorted(files)):
                if kind(path) and path.is_file():
                    yield path, str(source.resolve().name / path.relative_to(source))
    elif re.search(r"[*?\[]", str(source)):
        matches = [Path(match) for match in sorted(glob.glob(str(source), recursive=True))]
        if not matches:
            raise UsageError(f"no file fits the pattern {source}")
        yield from ((match, str(match)) for match in matches if match.is_file())
    else:
        raise UsageError(f"{source} is not there")


__all__ = ["Passage", "from_object", "kind", "read", "read_file", "text_passages"]
