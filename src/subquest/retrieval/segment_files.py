"""The files beside an index's store: lexical segments and vectors, listed in the store with their checksums."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from ..errors import SearchError
from . import checks

Kind = Literal["lexical", "dense"]


class SegmentRow(NamedTuple):
    name: str
    first: int
    last: int
    documents: int


class SegmentFiles:
    """The list of one index; change it within a transaction."""

    def __init__(self, folder: Path, db: sqlite3.Connection) -> None:
        self._folder, self._db = folder, db

    def listed(self, kind: Kind) -> list[SegmentRow]:
        rows = self._db.execute(
            "SELECT name, first, last, documents FROM segments WHERE kind = ? ORDER BY first", (kind,)
        )
        return [SegmentRow(*row) for row in rows]

    def add(self, kind: Kind, row: SegmentRow) -> None:
        values = (row.name, kind, row.first, row.last, row.documents)
        self._db.execute("INSERT INTO segments VALUES (?, ?, ?, ?, ?)", values)
        self._record_sum(row.name)

    def unlist(self, segments: Sequence[SegmentRow]) -> None:
        names = [(segment.name,) for segment in segments]
        self._db.executemany("DELETE FROM segments WHERE name = ?", names)
        names += [(_companion(segment.name),) for segment in segments]
        self._db.executemany("DELETE FROM sums WHERE name = ?", names)

    def record_sums(self) -> None:
        """Record the checksums of all listed files."""
        for (name,) in self._db.execute("SELECT name FROM segments").fetchall():
            self._record_sum(name)

    def _record_sum(self, name: str) -> None:
        for file in (self._folder / name, self._folder / _companion(name)):
            if file.name == name or file.exists():
                row = (file.name, *checks.file_sum(file)[1])
                self._db.execute("INSERT OR REPLACE INTO sums VALUES (?, ?, ?)", row)

    def delete_unlisted(self) -> None:
        """Delete files that no generation lists; a reader that has one mapped keeps it until it is done."""
        listed = {name for (name,) in self._db.execute("SELECT name FROM segments")}
        for path in self._folder.iterdir():
            name = path.with_suffix(".vec").name if path.suffix == ".ann" else path.name
            if path.suffix in {".lex", ".vec", ".ann", ".tmp"} and name not in listed:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)


def _companion(name: str) -> str:
    return str(Path(name).with_suffix(".ann"))


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[None]:
    """Delete a file that could not be written; nothing refers to it yet."""
    try:
        yield
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise SearchError(f"{path} could not be written: {error}; what was there before is intact") from error
        raise
