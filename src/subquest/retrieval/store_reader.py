"""Reading an index's store from many threads: a connection for each, and the documents behind numbers and ids."""

from __future__ import annotations

import ctypes
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..record import Document, Hit
from . import store
from .bm25 import Scored
from .settings import Entry

if TYPE_CHECKING:
    from .settings import Row

_PAGE = 1000
"""Rows read at once; between pages other threads and writers have their turn."""
_NUMBERS = 500
"""Documents fetched by one statement."""


class StoreReader:
    """Reads an index's store; SQLite's connections are not shared between threads, nor with a forked process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._closed = False
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._open: dict[threading.Thread, sqlite3.Connection] = {}

    @property
    def db(self) -> sqlite3.Connection:
        """This thread's connection."""
        if self._closed:
            raise UsageError(f"{self._path} is closed")
        if self._process != os.getpid():
            # Closing a connection takes locks that another thread may have held when this process was forked, so the
            # connections of the parent are never freed here.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._open))
            self._forget()
        found = self._open.get(threading.current_thread())
        if found is None:
            found = store.connect(self._path)
            with self._lock:
                for thread in [thread for thread in self._open if not thread.is_alive()]:
                    self._open.pop(thread).close()
                self._open[threading.current_thread()] = found
        return found

    def close(self) -> None:
        """Closing twice is harmless."""
        with self._lock:
            self._closed = True
            while self._open and self._process == os.getpid():
                self._open.popitem()[1].close()

    def get(self, identifier: str, published: int) -> Document | None:
        """The published document with this id, None where there is none."""
        row = self.db.execute(
            "SELECT id, title, text, meta FROM documents WHERE id = ? AND number <= ?", (identifier, published)
        ).fetchone()
        return None if row is None else store.to_document(row)

    def hits(self, ranked: Sequence[Sequence[Scored]]) -> list[list[Hit]] | None:
        """The documents behind the numbers; None when one was removed in the meantime."""
        wanted = sorted({scored.number for row in ranked for scored in row})
        found = {row[0]: store.to_document(row[1:]) for row in self._rows("number, id, title, text, meta", wanted)}
        if len(found) < len(wanted):
            return None
        return [[Hit(found[scored.number], scored.score) for scored in row] for row in ranked]

    def titles(self, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
        """The numbers with their titles; without those that were removed in the meantime."""
        return self._rows("number, title", numbers)

    def articles(self, numbers: Sequence[int]) -> Iterator[tuple[int, tuple[str, str]]]:
        """The numbers with their titles and texts; without those that were removed in the meantime."""
        return ((number, (title, text)) for number, title, text in self._rows("number, title, text", numbers))

    def documents(self, published: int) -> Iterator[Document]:
        """All documents in the order they were added, read in bounded memory."""
        for row in self._pages("SELECT number, id, title, text, meta FROM documents", published):
            yield store.to_document(row[1:])

    def entries(self, published: int) -> Iterator[Entry]:
        """All documents with their vectors, in the order they were added."""
        statement = (
            "SELECT number, id, title, text, meta, (SELECT vector FROM vectors AS v WHERE v.number = d.number) "
            "FROM documents AS d"
        )
        for row in self._pages(statement, published):
            yield Entry(store.to_document(row[1:5]), None if row[5] is None else _vector(row[5]))

    def _rows(self, columns: str, numbers: Sequence[int]) -> Iterator[Any]:
        for start in range(0, len(numbers), _NUMBERS):
            chunk = numbers[start : start + _NUMBERS]
            marks = ",".join("?" * len(chunk))
            yield from self.db.execute(f"SELECT {columns} FROM documents WHERE number IN ({marks})", chunk)

    def _pages(self, statement: str, published: int) -> Iterator[tuple[Any, ...]]:
        last = 0
        page = f"{statement} WHERE number > ? AND number <= ? ORDER BY number LIMIT {_PAGE}"
        while rows := self.db.execute(page, (last, published)).fetchall():
            last = rows[-1][0]
            yield from rows


def _vector(stored: bytes) -> Row:
    import numpy as np

    return np.frombuffer(stored, np.float16).astype(np.float32)
