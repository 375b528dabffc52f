"""The ledger: one writing connection, and how many writes become one transaction.

A commit costs a disk flush however much it holds, so writes come in batches. A write that fails takes nothing else down
with it: each stands behind a savepoint of its own. Two processes may write one run; SQLite's lock puts their
transactions one after the other.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import DataError, OutsideError
from .rows import Rows
from .schema import connect

Write = Callable[[Rows], object]
"""Something to be written. As `operator.methodcaller("episode", ...)` it can travel to another process."""


class Ledger:
    """Owns the writing connection; to be used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = connect(path, write=True)
        self._rows = Rows(self._connection)

    def commit(self, writes: Sequence[Write]) -> list[Exception | None]:
        """Write a batch; gives for each write what went wrong, or None where it is on the disk."""
        failures: list[Exception | None] = []
        execute = self._connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            self._rows.pieces.begin()
            for write in writes:
                execute("SAVEPOINT one")
                try:
                    write(self._rows)
                except Exception as error:
                    if not self._connection.in_transaction:  # a full disk rolls the whole transaction back
                        raise
                    execute("ROLLBACK TO one")
                    failures.append(self._in_words(error))
                else:
                    failures.append(None)
                execute("RELEASE one")
                self._rows.pieces.settle()
            self._rows.pieces.finish()
            execute("COMMIT")
        except Exception as error:
            if self._connection.in_transaction:
                execute("ROLLBACK")
            self._rows.pieces.forget()
            everything = self._in_words(error)
            return [(failures[at] if at < len(failures) else None) or everything for at in range(len(writes))]
        return failures

    def close(self) -> None:
        """Fold the log into the file and let go of it."""
        with contextlib.suppress(sqlite3.Error):  # a reader holds the log: the next writer folds it in
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()

    def _in_words(self, error: Exception) -> Exception:
        if isinstance(error, sqlite3.Error | OSError):
            full = "; what was written before is safe: free some space and run again" if "full" in str(error) else ""
            return OutsideError(f"cannot write to the run {self._path}: {error}{full}")
        if isinstance(error, TypeError | ValueError):
            return DataError(f"a record for the run {self._path} holds a value that JSON cannot: {error}")
        return error
