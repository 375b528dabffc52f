"""The writer: one thread through which a process writes a run, with group commit.

A commit costs a disk flush however much it holds, so everything that arrives during one flush is written by the next,
in one transaction. A write that fails takes nothing else down with it: each stands behind a savepoint of its own.
Two processes may write one run; SQLite's lock puts their transactions one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sqlite3
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from ..errors import DataError, OutsideError, UsageError
from ..events import Event
from .rows import Rows
from .schema import connect

EVENT_LINGER = 0.1
"""Seconds that live events wait for company when nothing else is to be written."""

Write = Callable[[Rows], None]


class Receipt:
    """A write under way: `await` it, or `wait()` for it where there is no event loop. Then it is on the disk."""

    def __init__(self) -> None:
        self.future: Future[None] = Future()
        self.future.set_running_or_notify_cancel()  # a cancelled waiter does not cancel the write
        self.seen = False

    def __await__(self) -> Generator[Any, None, None]:
        self.seen = True
        return asyncio.wrap_future(self.future).__await__()

    def wait(self, timeout: float | None = None) -> None:
        self.seen = True
        self.future.result(timeout)


class Writer:
    """Owns the writing connection and its thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = connect(path, write=True)
        self._rows = Rows(self._connection)
        self._wake = threading.Condition()
        self._writes: list[tuple[Write, Receipt]] = []
        self._events: dict[str, list[Event]] = {}
        self._closing = False
        self._failed: list[tuple[Receipt | None, Exception]] = []
        self._thread = threading.Thread(target=self._run, name=f"run-writer {path.name}", daemon=True)
        self._thread.start()

    def put(self, write: Write) -> Receipt:
        receipt = Receipt()
        with self._wake:
            self._must_be_open()
            self._writes.append((write, receipt))
            self._wake.notify()
        return receipt

    def put_event(self, episode_id: str, event: Event) -> None:
        with self._wake:
            self._must_be_open()
            first = not self._events
            self._events.setdefault(episode_id, []).append(event)
            if first:
                self._wake.notify()

    def flush(self) -> None:
        """Wait until all that was put is on the disk; raises the first failure that nobody waited for."""
        self.put(lambda rows: None).wait()
        self._raise_unseen()

    def close(self) -> None:
        """Write what is left, fold the log into the file and stop."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()
        self._raise_unseen()

    def _must_be_open(self) -> None:
        if self._closing:
            raise UsageError(f"the run {self._path} is closed")

    def _raise_unseen(self) -> None:
        failed, self._failed = self._failed, []
        for receipt, error in failed:
            if receipt is None or not receipt.seen:
                raise error

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._writes or self._events or self._closing)
                if not self._writes:
                    self._wake.wait_for(lambda: self._writes or self._closing, EVENT_LINGER)
                writes, self._writes = self._writes, []
                events, self._events = self._events, {}
                closing = self._closing
            if writes or events:
                self._commit(writes, events)
            elif closing:
                break
        with contextlib.suppress(sqlite3.Error):  # a reader holds the log: the next writer folds it in
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()

    def _commit(self, writes: list[tuple[Write, Receipt]], events: dict[str, list[Event]]) -> None:
        batch: list[tuple[Write, Receipt | None]] = [
            (functools.partial(_write_events, episode_id, told), None) for episode_id, told in events.items()
        ]
        batch += writes
        done: list[Receipt] = []
        execute = self._connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            self._rows.pieces.begin()
            for write, receipt in batch:
                execute("SAVEPOINT one")
                try:
                    write(self._rows)
                except Exception as error:
                    if not self._connection.in_transaction:  # a full disk rolls the whole transaction back
                        raise
                    execute("ROLLBACK TO one")
                    self._fail(receipt, error)
                else:
                    if receipt is not None:
                        done.append(receipt)
                execute("RELEASE one")
                self._rows.pieces.settle()
            self._rows.pieces.finish()
            execute("COMMIT")
        except Exception as error:
            if self._connection.in_transaction:
                execute("ROLLBACK")
            self._rows.pieces.forget()
            for _, receipt in batch:
                if receipt is None or not receipt.future.done():
                    self._fail(receipt, error)
            return
        for receipt in done:
            receipt.future.set_result(None)

    def _fail(self, receipt: Receipt | None, error: Exception) -> None:
        if isinstance(error, sqlite3.Error | OSError):
            error = OutsideError(f"cannot write to the run {self._path}: {error}")
        elif isinstance(error, TypeError | ValueError):
            error = DataError(f"a record for the run {self._path} holds a value that JSON cannot: {error}")
        self._failed.append((receipt, error))
        if receipt is not None:
            receipt.future.set_exception(error)


def _write_events(episode_id: str, events: list[Event], rows: Rows) -> None:
    rows.events(episode_id, events)
