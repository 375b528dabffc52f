"""Reading an index's store from many threads: a connection for each, and the documents behind numbers and ids."""

from __future__ import annotations

import ctypes
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DamagedIndex, UsageError
from ..record import Document, Hit
from . import store
from .bm25 import Scored
from .checks import document_checks, title_check, vector_check
from .settings import Entry
from .stored_document import to_document

if TYPE_CHECKING:
    from .settings import Row

_PAGE = 1000
"""Rows read at once; between pages other threads and writers have their turn."""
_NUMBERS = 500
"""Documents fetched by one statement."""

_CHECKED = "FROM documents AS d LEFT JOIN document_checks AS c ON c.number = d.number"
_DOCUMENT = f"SELECT d.number, d.id, d.title, d.text, d.meta, c.content {_CHECKED}"
_TITLE = f"SELECT d.number, d.id, d.title, d.meta, c.title {_CHECKED}"
_ENTRY = (
    f"SELECT d.number, d.id, d.title, d.text, d.meta, c.content, v.vector, w.vector {_CHECKED} "
    "LEFT JOIN vectors AS v ON v.number = d.number LEFT JOIN vector_checks AS w ON w.number = d.number"
)


class StoreReader:
    """Reads an index's store; SQLite's connections are not shared between threads, nor with a forked process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._closed = False
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Condition()
        self._open: dict[threading.Thread, sqlite3.Connection] = {}
        self._searches = 0

    @property
    def db(self) -> sqlite3.Connection:
        """This thread's connection."""
        if self._closed:
            raise UsageError(f"{self._path} is closed")
        self._notice_fork()
        found = self._open.get(threading.current_thread())
        if found is None:
            found = store.connect(self._path)
            with self._lock:
                for thread in [thread for thread in self._open if not thread.is_alive()]:
                    self._open.pop(thread).close()
                self._open[threading.current_thread()] = found
        return found

    def _notice_fork(self) -> None:
        if self._process != os.getpid():
            # Closing a connection takes locks that another thread may have held when this process was forked, so the
            # connections of the parent are never freed here.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._open))
            self._forget()

    @contextmanager
    def searching(self) -> Iterator[None]:
        """A search, which `close` waits for: to close a connection that another thread reads crashes the process."""
        self._notice_fork()
        with self._lock:
            self._searches += 1
        try:
            yield
        finally:
            with self._lock:
                self._searches -= 1
                self._lock.notify_all()

    def close(self) -> None:
        """Waits for searches that run in other threads; later ones are refused. Closing twice is harmless."""
        self._notice_fork()
        with self._lock:
            self._lock.wait_for(lambda: not self._searches)
            self._closed = True
            while self._open:
                self._open.popitem()[1].close()

    def get(self, identifier: str, published: int) -> Document | None:
        """The published document with this id, None where there is none."""
        row = self.db.execute(f"{_DOCUMENT} WHERE d.id = ? AND d.number <= ?", (identifier, published)).fetchone()
        return None if row is None else self._document(row)

    def hits(self, ranked: Sequence[Sequence[Scored]]) -> list[list[Hit]] | None:
        """The documents behind the numbers; None when one was removed in the meantime."""
        wanted = sorted({scored.number for row in ranked for scored in row})
        found = {row[0]: self._document(row) for row in self._rows(_DOCUMENT, wanted)}
        if len(found) < len(wanted):
            return None
        return [[Hit(found[scored.number], scored.score) for scored in row] for row in ranked]

    def titles(self, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
        """The numbers with their titles; without those that were removed in the meantime."""
        for *row, check in self._rows(_TITLE, numbers):
            if check is not None and check != title_check(*row):
                raise self._damaged(row[1])
            yield row[0], row[2]

    def check_meta(self, published: int) -> None:
        """Raise DamagedIndex unless the metadata of all documents are what was written."""
        for *row, check in self._pages(_TITLE, published):
            if check is not None and check != title_check(*row):
                raise self._damaged(row[1])

    def articles(self, numbers: Sequence[int]) -> Iterator[tuple[int, tuple[str, str]]]:
        """The numbers with their titles and texts; without those that were removed in the meantime."""
        documents = ((row[0], self._document(row)) for row in self._rows(_DOCUMENT, numbers))
        return ((number, (document.title, document.text)) for number, document in documents)

    def documents(self, published: int) -> Iterator[Document]:
        """All documents in the order they were added, read in bounded memory."""
        for row in self._pages(_DOCUMENT, published):
            yield self._document(row)

    def entries(self, published: int) -> Iterator[Entry]:
        """All documents with their vectors, in the order they were added."""
        for *row, vector, check in self._pages(_ENTRY, published):
            document = self._document(tuple(row))
            if check is not None and (not isinstance(vector, bytes) or check != vector_check(row[0], vector)):
                raise self._damaged(document.id)
            yield Entry(document, None if vector is None else _vector(vector))

    def _document(self, row: tuple[Any, ...]) -> Document:
        """A document from the columns of _DOCUMENT; DamagedIndex where it is not what was written."""
        check = row[5]
        if check is not None and check != document_checks(*row[:5])[1]:
            raise self._damaged(row[1])
        try:
            return to_document(row[1:5])
        except (TypeError, ValueError):
            raise self._damaged(row[1]) from None

    def _damaged(self, identifier: object) -> DamagedIndex:
        return store.damaged(self._path, f"document {identifier!r} is not what was written")

    def _rows(self, statement: str, numbers: Sequence[int]) -> Iterator[Any]:
        for start in range(0, len(numbers), _NUMBERS):
            chunk = numbers[start : start + _NUMBERS]
            marks = ",".join("?" * len(chunk))
            yield from self.db.execute(f"{statement} WHERE d.number IN ({marks})", chunk).fetchall()

    def _pages(self, statement: str, published: int) -> Iterator[tuple[Any, ...]]:
        last = 0
        page = f"{statement} WHERE d.number > ? AND d.number <= ? ORDER BY d.number LIMIT {_PAGE}"
        with store.reading(self._path):
            while rows := self.db.execute(page, (last, published)).fetchall():
                last = rows[-1][0]
                yield from rows


def _vector(stored: bytes) -> Row:
    import numpy as np

    return np.frombuffer(stored, np.float16).astype(np.float32)
