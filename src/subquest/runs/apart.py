"""A writer in a process of its own, for runs that produce hundreds of episodes a second.

Packing and compressing an episode takes about as long as everything else our code does for it. In a thread the two take
turns at the interpreter; in a process they have a core each. Records go there through a socket, receipts come back.
When the process that produces episodes is killed, this one writes what has arrived and ends.
"""

from __future__ import annotations

import functools
import io
import itertools
import pickle
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any

from ..codec import to_dict
from ..errors import DataError, OutsideError, UsageError
from ..events import Event
from ..record import Episode
from .ledger import Ledger, Write
from .receipt import Failures, Receipt
from .rows import Rows
from .wire import named, values_of

_BEGIN = "import sys; sys.path[:] = {path!r}; from subquest.runs.apart import serve; serve({run!r})"
_LENGTH = struct.Struct("<Q")
_LINGER = 0.02
"""Seconds in which records gather before they are sent: a batch costs awakenings here and a disk flush there."""
_CHUNK = 1 << 20
"""Bytes read at a time."""


class Apart:
    """Does what `Writer` does, elsewhere."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket, theirs = socket.socketpair()
        code = _BEGIN.format(path=[p for p in sys.path if isinstance(p, str)], run=str(path.absolute()))
        with theirs:
            # A session of its own: Ctrl-C is for the evaluation, which then closes the run in good order.
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._numbers = itertools.count()
        self._waiting: dict[int, Receipt] = {}
        self._failures = Failures()
        self._wake = threading.Condition()
        self._frames: list[bytes] = []
        self._closing = self._lost = False
        name = f"run-writer {path.name}"
        self._sender = threading.Thread(target=self._send, name=f"{name}, there", daemon=True)
        self._receiver = threading.Thread(target=self._receive, name=f"{name}, back", daemon=True)
        self._sender.start()
        self._receiver.start()

    def put_episode(self, episode: Episode, attempt: int, scores: Mapping[str, float] | None) -> Receipt:
        return self.put(functools.partial(_add_episode, values_of(episode), attempt, scores))

    def put(self, write: Write) -> Receipt:
        receipt = Receipt()
        number = next(self._numbers)
        try:
            frame = _frame((number, write))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            refused = DataError(f"a record for the run {self._path} holds a value that JSON cannot: {error}")
            self._failures.settle(receipt, refused)
            return receipt
        with self._wake:
            if self._closing:
                raise UsageError(f"the run {self._path} is closed")
            if self._lost:
                self._failures.settle(receipt, self._ended())
                return receipt
            self._waiting[number] = receipt
            self._frames.append(frame)
            self._wake.notify()
        return receipt

    def put_event(self, episode_id: str, event: Event) -> None:
        self.put(methodcaller("events", episode_id, [to_dict(event)]))

    def flush(self) -> None:
        """Wait until all that was put is on the disk; raises the first failure that nobody waited for."""
        self.put(_nothing).wait()
        self._failures.raise_unseen()

    def close(self) -> None:
        """Have the rest written, and the log folded into the file."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._sender.join()
        self._receiver.join()
        self._process.wait()
        self._socket.close()
        self._failures.raise_unseen()

    def _send(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._frames or self._closing or self._lost)
            time.sleep(_LINGER)
            with self._wake:
                frames, self._frames = self._frames, []
            try:
                if not frames:
                    self._socket.shutdown(socket.SHUT_WR)
                    return
                self._socket.sendall(b"".join(frames))
            except OSError:  # the other side is gone, as the receiver notices
                return

    def _receive(self) -> None:
        for answers in _received(self._socket):
            for number, failure in answers:
                self._failures.settle(self._waiting.pop(number), failure)
        with self._wake:
            self._lost = True
            self._wake.notify()
        while self._waiting:
            self._failures.settle(self._waiting.popitem()[1], self._ended())

    def _ended(self) -> OutsideError:
        status = self._process.wait()
        return OutsideError(f"the process that writes {self._path} ended with status {status}; run again to resume")


def serve(path: str) -> None:
    """The other side: write what arrives, all of it that is there in one transaction, and say what became of it."""
    with socket.socket(fileno=sys.stdin.fileno()) as connection:
        ledger = Ledger(Path(path))
        for batch in _batches(connection):
            failures = ledger.commit([write for _, write in batch])
            answers = [(number, failure) for (number, _), failure in zip(batch, failures, strict=True)]
            try:
                connection.sendall(_frame(answers))
            except OSError:  # nobody waits any more; what is still in the socket is written all the same
                continue
        ledger.close()


def _add_episode(values: Sequence[Any], attempt: int, scores: Mapping[str, float] | None, rows: Rows) -> None:
    rows.episode(named(Episode, values), attempt, None, scores)


def _nothing(rows: object) -> None:
    """Written to learn that everything before it is."""


class _Pickler(pickle.Pickler):
    """Sends every kind of mapping as the dictionary that `codec` would make of it."""

    def reducer_override(self, value: Any) -> Any:
        return (dict, (dict(value),)) if isinstance(value, Mapping) else NotImplemented


def _frame(value: object) -> bytes:
    data = io.BytesIO(bytes(_LENGTH.size))
    data.seek(_LENGTH.size)
    _Pickler(data, pickle.HIGHEST_PROTOCOL).dump(value)
    _LENGTH.pack_into(data.getbuffer(), 0, data.tell() - _LENGTH.size)
    return data.getvalue()


def _received(connection: socket.socket) -> Iterator[Any]:
    for batch in _batches(connection):
        yield from batch


def _batches(connection: socket.socket) -> Iterator[list[Any]]:
    """What has arrived since the last look, until the other side has ended; a last message that was cut is dropped."""
    held = bytearray()
    while True:
        try:
            data = connection.recv(_CHUNK)
        except ConnectionResetError:
            return
        if not data:
            return
        held += data
        found, at = [], 0
        while len(held) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(held, at)
            end = at + _LENGTH.size + length
            if end > len(held):
                break
            found.append(pickle.loads(memoryview(held)[at + _LENGTH.size : end]))
            at = end
        del held[:at]
        if found:
            yield found
