"""The files that an index was made from (recorded by `ingest.ledger`)."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..codec import utf8
from . import store

KEPT = "files"
"""Folder in an index for files that are kept with it."""
_COLUMNS = "SELECT number, name, path, source, hash, empty_pages, note, wrong FROM files"


class IndexedFile(NamedTuple):
    """A file, as it was read."""

    name: str
    """The prefix of its passages' ids."""
    path: str
    source: str
    """The folder, pattern or file through which it was found."""
    hash: str
    """SHA-256 of its content; empty if it was not read to its end."""
    passages: int
    pages: int
    """0 if it has none, or where some have no text: `note` then tells their number."""
    empty_pages: int
    """Pages without text."""
    note: str
    """What a user should know about it."""
    wrong: str
    """What could not be read."""

    @property
    def reachable(self) -> bool:
        """Whether the file is still where it was read."""
        return os.path.isfile(self.path)


class Files:
    """Looks up files by their names."""

    def __init__(self, path: Path, connection: Callable[[], sqlite3.Connection]) -> None:
        self._path = path
        self._connection = connection

    def count(self, text: str = "") -> int:
        """How many files have the text in their names."""
        with store.reading(self._path):
            db = self._connection()
            if not store.has_ledger(db):
                return 0
            row = db.execute("SELECT count(*) FROM files WHERE instr(lower(name), ?)", (text.lower(),)).fetchone()
            return int(row[0])

    def listed(self, text: str = "", *, offset: int = 0, limit: int = 100) -> list[IndexedFile]:
        """Files with the text in their names, by name."""
        condition = "WHERE instr(lower(name), ?) ORDER BY name LIMIT ? OFFSET ?"
        return self._files(condition, (text.lower(), limit, offset))

    def get(self, name: str) -> IndexedFile | None:
        return next(iter(self._files("WHERE name = ?", (utf8(name),))), None)

    def at(self, path: str) -> IndexedFile | None:
        """The file that was read at a path."""
        return next(iter(self._files("WHERE path = ?", (utf8(path),))), None)

    def _files(self, condition: str, values: tuple[Any, ...]) -> list[IndexedFile]:
        with store.reading(self._path):
            db = self._connection()
            rows = db.execute(f"{_COLUMNS} {condition}", values).fetchall() if store.has_ledger(db) else []
            return [self._file(db, *row) for row in rows]

    def _file(
        self,
        db: sqlite3.Connection,
        number: int,
        name: str,
        path: str,
        source: str,
        hash_: str | None,
        empty_pages: int | None,
        note: str | None,
        wrong: str | None,
    ) -> IndexedFile:
        passages, last = db.execute(
            "SELECT coalesce(sum(last - first + 1), 0), max(last) FROM origins WHERE file = ?", (number,)
        ).fetchone()
        kept = self._path / KEPT / name
        if not os.path.exists(path) and kept.is_file():  # the index was moved, and the file with it
            path, source = str(kept), str(kept.parent)
        pages = 0 if empty_pages else _page(db, last)
        return IndexedFile(name, path, source, hash_ or "", passages, pages, empty_pages or 0, note or "", wrong or "")


def _page(db: sqlite3.Connection, number: int | None) -> int:
    """The page of a document; that of a file's last one is the number of its pages."""
    row = db.execute("SELECT meta FROM documents WHERE number = ?", (number,)).fetchone()
    meta = json.loads(row[0]) if row and row[0] else {}
    place = meta.get("page", meta.get("slide", 0)) if isinstance(meta, dict) else 0
    return place if isinstance(place, int) else 0
