"""A search worker: a process that searches one index for the server, so that searches use more than one core.

`Worker` is the server's side. The process ends when its connection does, so it cannot outlive the server.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import orjson

from ..errors import SearchError
from ..record import Document, Hit
from ..retrieval import Index
from ..retrieval.search import Mode


def contents(document: Document) -> dict[str, str]:
    """A document in Search-R1's format."""
    return {"id": document.id, "contents": f'"{document.title}"\n{document.text}'}


def hits_json(hits: Sequence[Hit]) -> bytes:
    """The hits of one query in Search-R1's format, with scores."""
    return orjson.dumps([{"document": contents(hit.document), "score": hit.score} for hit in hits])


class WorkerEnded(Exception):
    """The process of a worker has ended."""


class Worker:
    """A worker process, used by one thread at a time."""

    def __init__(self, index: Index) -> None:
        self._connection, theirs = Pipe()
        self._lock = threading.Lock()
        command = [sys.executable, "-m", "subquest.serve.search_worker", str(index.path), index.mode]
        with theirs:
            self.process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)

    def search(self, queries: Sequence[str], k: int) -> list[bytes]:
        """The hits of each query as JSON. Raises WorkerEnded, or SearchError if the search failed."""
        try:
            with self._lock:
                self._connection.send((queries, k))
                found: list[bytes] | str = self._connection.recv()
        except (EOFError, OSError):
            raise WorkerEnded("a search worker has ended") from None
        if isinstance(found, str):
            raise SearchError(found)
        return found

    def close(self) -> None:
        self._connection.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def answer(index: Index, queries: Sequence[str], k: int) -> list[bytes] | str:
    """What a worker answers: the hits of each query as JSON, or an error message."""
    try:
        return [hits_json(hits) for hits in index.search_many(queries, k)]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main(path: str, mode: Mode) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then closes the connection
    connection: Connection[Any, Any] = Connection(sys.stdin.fileno())
    with Index.open(path, mode=mode) as index:
        while True:
            try:
                queries, k = connection.recv()
                connection.send(answer(index, queries, k))
            except (EOFError, ConnectionError):
                return


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])  # type: ignore[arg-type]
