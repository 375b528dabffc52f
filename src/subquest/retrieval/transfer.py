"""Moving an index: to a file and back, and from one place to another.

The portable file is JSON lines, `.gz` compressed or not. The first line is `{"subquest_index": 1, "settings": {...}}`;
each other line is a passage `{"id", "title", "text", "meta", "vector"}`, its vector in half precision as base64. The
settings say how text became terms and vectors, so that an index made from the file gives the same results. A corpus
without that first line can be read too; it gets default settings and no vectors.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, cast

import msgspec

from ..codec import utf8
from ..errors import DataError, UsageError
from ..input_file import parse_json
from ..record import Document
from .corpus import from_object, kind
from .settings import Entry, Settings
from .stored_document import cleaned
from .vectors import to_half
from .writer import Changes, Progress

if TYPE_CHECKING:
    from .settings import Row

FORMAT = 1
MARK = "subquest_index"


class Source(Protocol):
    """Anything that passages can be copied from."""

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> Settings: ...

    def entries(self) -> Iterator[Entry]:
        """All passages in a stable order, read in bounded memory."""
        ...


class Store(Source, Protocol):
    """Any index that passages can be copied from and to."""

    def load(self, entries: Iterable[Entry], *, progress: Progress | None = None) -> Changes:
        """Add passages; existing ones are skipped, so a killed copy resumes."""
        ...

    def __len__(self) -> int: ...

    def close(self) -> None: ...


def copy(source: Source, target: Store, *, progress: Progress | None = None) -> Changes:
    """Copy all passages of one index into another, with vectors; a second run skips what exists."""
    theirs, ours = source.settings, target.settings
    if theirs.encoder and ours.encoder and theirs.encoder != ours.encoder:
        raise UsageError(
            f"{target.name} has vectors of {ours.encoder.model}, {source.name} has vectors of {theirs.encoder.model}; "
            "choose another target"
        )
    return target.load(source.entries(), progress=progress)


def write(source: Source, out: IO[str], *, plain: bool = False, progress: Progress | None = None) -> int:
    """Write an index as lines; returns how many passages. `plain` leaves out settings and vectors: a corpus."""
    if not plain:
        out.write(json.dumps({MARK: FORMAT, "settings": source.settings.to_record()}) + "\n")
    count = 0
    for document, vector in source.entries():
        record: dict[str, Any] = {"id": document.id, "title": document.title, "text": document.text}
        if document.meta:
            record["meta"] = dict(document.meta)
        if vector is not None and not plain:
            record["vector"] = base64.b64encode(vector.astype("<f2").tobytes()).decode()
        out.write(utf8(json.dumps(record, ensure_ascii=False)) + "\n")
        count += 1
        if progress:
            progress(1)
    return count


def check_name(path: Path) -> None:
    """Raise UsageError unless a file is named as an exported index is, so that it can be imported."""
    if kind(path) != ".jsonl":
        raise UsageError(f"{path}: an exported index is a .jsonl or .jsonl.gz file")


class _Passage(msgspec.Struct):
    """A line of an exported index; other fields are ignored."""

    id: str
    title: str
    text: str
    meta: dict[str, Any] | None = None
    vector: str | None = None


class PortableFile:
    """An exported index (or a corpus) as a file that can be copied from."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise UsageError(f"{path}: no such file")
        check_name(self.path)
        with self._open() as file:
            first = file.readline()
        self._headed = first.startswith(b'{"' + MARK.encode())
        self.settings = self._settings(first) if self._headed else Settings()

    @property
    def name(self) -> str:
        return str(self.path)

    def entries(self) -> Iterator[Entry]:
        """The passages in the order of the file; a DataError names a broken line."""
        with self._open() as file:
            for number, line in enumerate(file, start=1):
                if (self._headed and number == 1) or not line.strip():
                    continue
                yield self._entry(line, f"{self.path}, line {number}")

    def _open(self) -> IO[bytes]:
        if self.path.suffix.lower() == ".gz":
            return cast("IO[bytes]", gzip.open(self.path, "rb"))
        return open(self.path, "rb")

    def _settings(self, line: bytes) -> Settings:
        where = f"{self.path}, line 1"
        record = parse_json(line, where)
        if record.get(MARK) != FORMAT:
            raise DataError(f"{where}: format {record.get(MARK)}; this version reads format {FORMAT}")
        return Settings.from_record(record.get("settings"), where)

    def _entry(self, line: bytes, where: str) -> Entry:
        record = parse_json(line.decode(errors="replace"), where)
        if not self._headed:
            return Entry(from_object(record, where))
        try:
            passage = msgspec.convert(record, _Passage)
            document = cleaned(Document(passage.id, passage.title, passage.text, passage.meta or {}))
            return Entry(document, None if passage.vector is None else self._vector(passage.vector, document.id))
        except (UsageError, ValueError, msgspec.ValidationError, binascii.Error) as error:
            raise DataError(f"{where}: not a passage of an exported index ({error})") from None

    def _vector(self, encoded: str, identifier: str) -> Row:
        import numpy as np

        row = np.frombuffer(base64.b64decode(encoded, validate=True), "<f2").astype(np.float32)
        to_half(row, identifier)
        if len(row) != self.settings.width:
            raise ValueError(f"a vector of {len(row)} numbers in a file of vectors of {self.settings.width}")
        return row
