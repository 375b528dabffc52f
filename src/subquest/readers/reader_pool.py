"""A pool of processes that read files: several at once, in bounded memory.

A worker stops when its pipe is full, so files can be started ahead of time: `start` them in the order in which `parts`
will be called, and at most as many as there are workers.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO

from ..errors import DataError
from ..process import readable
from .part import Part, row_text

MEMORY = 2 << 30
"""Bytes of address space of a worker."""
OCR_MEMORY = 6 << 30
STALL = 30.0
"""Seconds within which a worker must yield its next part; four times that with OCR."""
SECONDS, SECONDS_A_MEGABYTE = 300.0, 60.0
"""Time limit for a whole file."""
ROOM, ROOM_A_BYTE = 16 << 20, 200
"""Characters of text that a file may hold, and more for each of its bytes."""
_PIPE = 1 << 20


@dataclass(slots=True)
class Job:
    """A file that a worker is reading."""

    worker: _Worker
    size: int
    room: int


class _Worker:
    def __init__(self, memory: int) -> None:
        self.requests, theirs = socket.socketpair()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "subquest.readers.reader_process", str(memory)],
            stdin=theirs.fileno(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        theirs.close()
        assert self.process.stdout is not None
        self.answers = self.process.stdout.fileno()
        with contextlib.suppress(OSError):  # a smaller pipe only means less read-ahead
            fcntl.fcntl(self.answers, fcntl.F_SETPIPE_SZ, _PIPE)
        self.busy = False

    def close(self) -> None:
        self.requests.close()
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Pool:
    """Up to `size` workers; a broken one is replaced."""

    def __init__(self, size: int = 1, *, ocr: bool = False) -> None:
        self.size = size
        self._ocr = ocr
        self._workers: list[_Worker] = []
        self.at = 0
        """How far the file is read whose parts were asked for last, in bytes."""

    @property
    def free(self) -> bool:
        return len(self._workers) < self.size or any(not worker.busy for worker in self._workers)

    def start(self, file: BinaryIO, kind: str) -> Job:
        """Let a free worker start reading an open file."""
        size = os.fstat(file.fileno()).st_size
        room = ROOM + ROOM_A_BYTE * size
        worker = next((worker for worker in self._workers if not worker.busy), None)
        if worker is None:
            worker = _Worker(OCR_MEMORY if self._ocr else MEMORY)
            self._workers.append(worker)
        request = json.dumps({"kind": kind, "ocr": self._ocr, "room": room}).encode()
        try:
            socket.send_fds(worker.requests, [request], [file.fileno()])
        except OSError:
            self._drop(worker)
            return self.start(file, kind)
        worker.busy = True
        return Job(worker, size, room)

    def parts(self, job: Job) -> Iterator[Part]:
        """The parts of a file, as they come. Raises DataError where it cannot be read."""
        worker, finished = job.worker, False
        self.at = 0
        try:
            for line in self._lines(job):
                answer = _parsed(line)
                if isinstance(answer, dict) and "at" in answer:
                    self.at = int(answer["at"])
                elif isinstance(answer, dict):
                    finished = True
                    if "error" in answer:
                        raise DataError(answer["error"])
                    return
                else:
                    text, place, section, title, cells, *more = answer
                    yield Part(row_text(cells) if cells else text, place, tuple(section), title, tuple(cells), *more)
        finally:
            worker.busy = False
            if not finished:
                self._drop(worker)

    def _lines(self, job: Job) -> Iterator[bytes]:
        worker, rest = job.worker, b""
        patience = SECONDS + SECONDS_A_MEGABYTE * job.size / 1e6
        while True:
            began = time.monotonic()
            wait = min(STALL * (4 if self._ocr else 1), patience)
            if wait <= 0 or not readable(worker.answers, wait):
                large = f" of {job.size / 1e9:.1f} GB" if job.size > 1e8 else ""
                raise DataError(f"reading it takes too long, gave up; divide the file{large} into smaller ones")
            patience -= time.monotonic() - began
            got = os.read(worker.answers, _PIPE)
            if not got:
                raise DataError(_why_it_died(worker.process))
            pieces = (rest + got).split(b"\n")
            rest = pieces.pop()
            yield from pieces

    def _drop(self, worker: _Worker) -> None:
        worker.close()
        if worker in self._workers:
            self._workers.remove(worker)

    def close(self) -> None:
        for worker in list(self._workers):
            self._drop(worker)

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        raise DataError("its reader gave a malformed answer") from None


def _why_it_died(process: subprocess.Popen[bytes]) -> str:
    status = process.wait()
    how = f"signal {-status}" if status < 0 else f"status {status}"
    return f"its reader crashed ({how}); the file is damaged, or takes more memory than it is allowed"
