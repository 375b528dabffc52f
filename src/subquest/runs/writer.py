"""The writer: one thread through which a process writes a run.

What arrives while a batch is being written goes into the next batch, which is one transaction.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future
from operator import methodcaller
from pathlib import Path
from typing import Any

from ..codec import to_dict
from ..errors import UsageError
from ..events import Event
from .process_writer import ProcessTransactions
from .rows import Transactions, Write

EVENT_WAIT = 0.1
"""Seconds that live events wait for more when nothing else is to be written."""
MAX_BATCH = 32
"""Writes in a batch, which is in memory as a whole."""
PROCESS_WAIT = 0.02
"""Seconds that any write by another process waits for more: each batch wakes both processes and flushes the disk."""
PROCESS_AHEAD = 1
"""Batches sent to another process before the oldest one is done, so that the process never waits for work."""


class Receipt:
    """A write in progress: `await` it, or call `wait()` where there is no event loop. Then it is on disk."""

    def __init__(self) -> None:
        self.future: Future[None] = Future()
        self.future.set_running_or_notify_cancel()  # a cancelled waiter does not cancel the write
        self.awaited = False

    def __await__(self) -> Generator[Any, None, None]:
        self.awaited = True
        if self.future.done():  # without a turn of the event loop
            self.future.result()
        else:
            yield from asyncio.wrap_future(self.future).__await__()

    def wait(self, timeout: float | None = None) -> None:
        self.awaited = True
        self.future.result(timeout)


class Writer:
    """Owns the writing thread. With `own_process` the transactions happen in another process."""

    def __init__(self, path: Path, *, own_process: bool = False) -> None:
        self._path = path
        self._transactions = ProcessTransactions(path) if own_process else Transactions(path)
        self._wait, self._ahead = (PROCESS_WAIT, PROCESS_AHEAD) if own_process else (0.0, 0)
        self._wake = threading.Condition()
        self._writes: list[tuple[Write, Receipt]] = []
        self._events: dict[str, list[Event]] = {}
        self._closing = False
        self._failed: list[tuple[Receipt, Exception]] = []
        self._thread = threading.Thread(target=self._run, name=f"run-writer {path.name}", daemon=True)
        self._thread.start()

    def put(self, write: Write) -> Receipt:
        receipt = Receipt()
        with self._wake:
            self._check_open()
            self._writes.append((write, receipt))
            self._wake.notify()
        return receipt

    def put_event(self, episode_id: str, event: Event) -> None:
        with self._wake:
            self._check_open()
            first = not self._events
            self._events.setdefault(episode_id, []).append(event)
            if first:
                self._wake.notify()

    def flush(self) -> None:
        """Wait until everything that was put is on disk; raises the first failure that nobody awaited."""
        self.put(methodcaller("questions", ())).wait()
        self._raise_failures()

    def close(self) -> None:
        """Write what is left, fold the log into the file and stop. Raises as `flush` does."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()
        self._raise_failures()

    def _check_open(self) -> None:
        if self._closing:
            raise UsageError(f"the run {self._path} is closed")

    def _raise_failures(self) -> None:
        failed, self._failed = self._failed, []
        for receipt, error in failed:
            if not receipt.awaited:
                raise error

    def _run(self) -> None:
        sent: deque[list[Receipt]] = deque()
        while True:
            with self._wake:
                if not sent:
                    self._wake.wait_for(lambda: self._writes or self._events or self._closing)
                    if not self._writes:
                        self._wake.wait_for(lambda: self._writes or self._closing, EVENT_WAIT)
            if self._wait and 0 < len(self._writes) < MAX_BATCH:
                time.sleep(self._wait)
            batch = self._take_batch()
            if batch:
                self._transactions.send([write for write, _ in batch])
                sent.append([receipt for _, receipt in batch])
            if sent and (not batch or len(sent) > self._ahead):
                self._settle(sent.popleft(), self._transactions.receive())
            elif not batch and self._closing:
                break
        self._transactions.close()

    def _take_batch(self) -> list[tuple[Write, Receipt]]:
        with self._wake:
            writes, self._writes = self._writes[:MAX_BATCH], self._writes[MAX_BATCH:]
            events, self._events = self._events, {}
        live: list[tuple[Write, Receipt]] = [
            (methodcaller("events", episode_id, [to_dict(event) for event in stream]), Receipt())
            for episode_id, stream in events.items()
        ]
        return live + writes

    def _settle(self, receipts: list[Receipt], failures: list[Exception | None]) -> None:
        for receipt, failure in zip(receipts, failures, strict=True):
            if failure is None:
                receipt.future.set_result(None)
            else:
                if not any(not earlier.awaited for earlier, _ in self._failed):
                    self._failed.append((receipt, failure))
                receipt.future.set_exception(failure)
