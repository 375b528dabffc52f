"""A thread's own connection to an index's store: SQLite's connections are not shared between threads."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from pathlib import Path

from ..errors import UsageError
from . import store


class Connections:
    """The connections of all threads that read an index."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        self._open: weakref.WeakSet[_Connection] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._closed = False

    def mine(self) -> sqlite3.Connection:
        """This thread's connection."""
        held: _Connection | None = getattr(self._local, "held", None)
        if self._closed:
            raise UsageError(f"{self._path} is closed")
        if held is None:
            held = self._local.held = _Connection(store.connect(self._path))
            with self._lock:
                self._open.add(held)
        return held.db

    def close(self) -> None:
        """Closing twice is harmless."""
        with self._lock:
            self._closed = True
            for connection in list(self._open):
                connection.close()


class _Connection:
    """A thread's connection: closed with the index, or when the thread ends and lets go of it."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

    def close(self) -> None:
        self.db.close()

    __del__ = close
