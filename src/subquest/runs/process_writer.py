"""A run written by a process of its own, for evaluations that produce hundreds of episodes a second.

Packing and compressing an episode takes about as much CPU time as everything else our code does for it. A writing
thread competes with the episodes for the interpreter; a writing process has a core of its own. If the process that
produces episodes is killed, this one writes what it has received and ends.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from operator import methodcaller
from pathlib import Path
from typing import Any

from ..errors import DataError, OutsideError
from .rows import Transactions, Write

_START = "import sys; sys.path[:] = {path!r}; from subquest.runs.process_writer import main; main({run!r})"
_NOTHING = pickle.dumps(methodcaller("questions", ()))
"""Sent instead of a write that cannot be."""


class ProcessTransactions:
    """Has batches committed by `Transactions` in another process; to be used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sent: deque[list[Exception | None]] = deque()
        """For each batch in progress, why a write could not be sent."""
        self._connection, theirs = Pipe()
        code = _START.format(path=[p for p in sys.path if isinstance(p, str)], run=str(path.absolute()))
        with theirs:
            # In a session of its own: Ctrl-C is meant for the evaluation, which then closes the run properly.
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], stdin=theirs.fileno(), stdout=subprocess.DEVNULL, start_new_session=True
            )

    def send(self, writes: Sequence[Write]) -> None:
        batch: list[bytes] = []
        refusals: list[Exception | None] = []
        for write in writes:
            try:
                batch.append(pickle.dumps(write, pickle.HIGHEST_PROTOCOL))
                refusals.append(None)
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                batch.append(_NOTHING)
                message = f"a record for the run {self._path} contains a value that is not JSON: {error}"
                refusals.append(DataError(message))
        self._sent.append(refusals)
        with suppress(OSError):  # the process has ended, which `receive` reports
            self._connection.send(batch)

    def receive(self) -> list[Exception | None]:
        """What went wrong with each write of the oldest batch in progress, or None for a write that is on disk."""
        refusals = self._sent.popleft()
        try:
            failures = self._connection.recv()
        except (OSError, EOFError):
            status = self._process.wait()
            message = f"the process that writes {self._path} ended with status {status}; run again to resume"
            failures = [OutsideError(message)] * len(refusals)
        return [refusal or failure for refusal, failure in zip(refusals, failures, strict=True)]

    def close(self) -> None:
        """Let the process fold the log into the file and end."""
        self._connection.close()
        self._process.wait()


def main(path: str) -> None:
    """The writing process: commit each batch that arrives and answer with what went wrong."""
    connection: Connection[Any, Any] = Connection(sys.stdin.fileno())
    transactions = Transactions(Path(path))
    with suppress(EOFError, ConnectionError):  # the other process has closed the run
        while True:
            batch = [pickle.loads(write) for write in connection.recv()]
            failures = transactions.commit(batch)
            with suppress(ConnectionError):  # it was killed: write what else has been received
                connection.send(failures)
    transactions.close()
