"""A run written by a process of its own, for evaluations that produce hundreds of episodes a second.

Packing and compressing an episode takes about as much CPU time as everything else our code does for it. A writing
thread competes with the episodes for the interpreter; a writing process has a core of its own. If the process that
produces episodes is killed, this one writes what it has received and ends.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ..errors import DataError, OutsideError
from .rows import Transactions, Write

_START = "import sys; sys.path[:] = {path!r}; from subquest.runs.process_writer import main; main({run!r})"


class ProcessTransactions:
    """Has each batch committed by `Transactions` in another process; to be used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection, theirs = Pipe()
        code = _START.format(path=[p for p in sys.path if isinstance(p, str)], run=str(path.absolute()))
        with theirs:
            # In a session of its own: Ctrl-C is meant for the evaluation, which then closes the run properly.
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], stdin=theirs.fileno(), stdout=subprocess.DEVNULL, start_new_session=True
            )

    def commit(self, writes: Sequence[Write]) -> list[Exception | None]:
        """Write a batch; returns for each write what went wrong, or None if it is on disk."""
        outcomes: list[Exception | None] = []
        batch: list[bytes] = []
        for write in writes:
            try:
                batch.append(pickle.dumps(write, pickle.HIGHEST_PROTOCOL))
                outcomes.append(None)
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                message = f"a record for the run {self._path} contains a value that is not JSON: {error}"
                outcomes.append(DataError(message))
        try:
            self._connection.send(batch)
            answers = iter(self._connection.recv())
        except (OSError, EOFError):
            message = f"the process that writes {self._path} ended with status {self._process.wait()}"
            return [outcome or OutsideError(f"{message}; run again to resume") for outcome in outcomes]
        return [outcome or next(answers) for outcome in outcomes]

    def close(self) -> None:
        """Let the process fold the log into the file and end."""
        self._connection.close()
        self._process.wait()


def main(path: str) -> None:
    """The writing process: commit each batch that arrives and answer with what went wrong."""
    connection: Connection[Any, Any] = Connection(sys.stdin.fileno())
    transactions = Transactions(Path(path))
    try:
        while True:
            batch = [pickle.loads(write) for write in connection.recv()]
            connection.send(transactions.commit(batch))
    except (EOFError, OSError):  # the other process closed the run, or was killed
        pass
    finally:
        transactions.close()
