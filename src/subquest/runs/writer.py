"""The writer: one thread through which a process writes a run.

Everything that arrives while a batch is being written goes into the next one, in one transaction (see `ledger`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from operator import methodcaller
from pathlib import Path

from ..codec import to_dict
from ..errors import UsageError
from ..events import Event
from ..record import Episode
from .ledger import Ledger, Write
from .receipt import Failures, Receipt

EVENT_LINGER = 0.1
"""Seconds that live events wait for company when nothing else is to be written."""


class Writer:
    """Owns the ledger and its thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ledger = Ledger(path)
        self._wake = threading.Condition()
        self._writes: list[tuple[Write, Receipt]] = []
        self._events: dict[str, list[Event]] = {}
        self._closing = False
        self._failures = Failures()
        self._thread = threading.Thread(target=self._run, name=f"run-writer {path.name}", daemon=True)
        self._thread.start()

    def put_episode(self, episode: Episode, attempt: int, scores: Mapping[str, float] | None) -> Receipt:
        return self.put(methodcaller("episode", to_dict(episode), attempt, None, scores))

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
        self._failures.raise_unseen()

    def close(self) -> None:
        """Write what is left, fold the log into the file and stop."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()
        self._failures.raise_unseen()

    def _must_be_open(self) -> None:
        if self._closing:
            raise UsageError(f"the run {self._path} is closed")

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
        self._ledger.close()

    def _commit(self, writes: list[tuple[Write, Receipt]], events: dict[str, list[Event]]) -> None:
        batch: list[tuple[Write, Receipt | None]] = [
            (methodcaller("events", episode_id, [to_dict(e) for e in told]), None)
            for episode_id, told in events.items()
        ]
        batch += writes
        for (_, receipt), failure in zip(batch, self._ledger.commit([write for write, _ in batch]), strict=True):
            self._failures.settle(receipt, failure)
