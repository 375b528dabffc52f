"""Settings of the interpreter, which hold for the whole process: changed while somebody needs them.

Engines and evaluations run side by side and end in any order, so the first changes a setting and the last sets it back.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Generic, TypeVar

GARBAGE = 100_000
"""Objects that may come to be, beyond those that are gone, before garbage is looked for."""
SWITCH = 0.0001
"""Seconds after which a busy thread lets another one run (Python's default is 5 ms)."""

T = TypeVar("T")


class _Setting(Generic[T]):
    def __init__(self, read: Callable[[], T], write: Callable[[T], None]) -> None:
        self._read, self._write = read, write
        self._lock = threading.Lock()
        self._before: list[T] = []
        """As it was before its users came, once for each of them."""

    @contextmanager
    def changed(self, change: Callable[[T], T]) -> Iterator[None]:
        with self._lock:
            before = self._before[0] if self._before else self._read()
            if not self._before:
                self._write(change(before))
            self._before.append(before)
        try:
            yield
        finally:
            with self._lock:
                before = self._before.pop()
                if not self._before:
                    self._write(before)


_threshold = _Setting(gc.get_threshold, lambda values: gc.set_threshold(*values))
_interval = _Setting(sys.getswitchinterval, sys.setswitchinterval)


def rarely_collected() -> AbstractContextManager[None]:
    """Garbage is looked for less often: episodes under way are many objects, none of them garbage, and looking at them
    again and again took a fifth of the time. Episodes hold no circles, so their memory is free without it."""
    return _threshold.changed(lambda values: (max(values[0], GARBAGE), *values[1:]))


def quickly_switched() -> AbstractContextManager[None]:
    """A thread that waits for the interpreter gets it soon, even from one that computes in Python."""
    return _interval.changed(lambda seconds: min(seconds, SWITCH))
