"""This process as a whole: its background event loop, its interpreter settings, and the process that started it."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

GARBAGE_THRESHOLD = 100_000
"""Objects that may be created, beyond those that are freed, before the garbage collector runs."""
SWITCH_INTERVAL = 0.0001
"""Seconds after which a busy thread lets another one run (Python's default is 5 ms)."""

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def readable(descriptor: int, seconds: float) -> bool:
    """Wait until a descriptor can be read; whether it can. `select.select` refuses those from 1,024 on, which a process
    has that answers hundreds of questions at once."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


def run_sync(coroutine: Coroutine[Any, Any, T], watch: Callable[[Future[T]], None] | None = None) -> T:
    """Run a coroutine to its end from synchronous code; an interrupt cancels it. `watch` is called while it runs.

    All calls share one event loop in a thread of its own, so that connections and caches outlive a call, and so that it
    works in notebooks, where a loop already runs in the main thread.
    """
    future = asyncio.run_coroutine_threadsafe(coroutine, _background_loop())
    try:
        if watch is not None:
            watch(future)
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _background_loop() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="subquest", daemon=True).start()
        return _loop


def end_with_parent() -> None:
    """End this process when the one that started it is gone, even if that one was killed."""
    from multiprocessing import parent_process  # most commands never need it

    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_wait_for, args=(parent,), name="end-with-parent", daemon=True).start()


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Processes that are started here ignore Ctrl-C from their first instruction on: it is for this process, which then
    ends them. They would each print a stack."""
    if threading.current_thread() is not threading.main_thread():  # other threads cannot set handlers
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _wait_for(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


class _Setting(Generic[T]):
    """A setting of the interpreter. Its users run side by side and end in any order: the first one changes it, and the
    last one restores it."""

    def __init__(self, read: Callable[[], T], write: Callable[[T], None]) -> None:
        self._read, self._write = read, write
        self._lock = threading.Lock()
        self._before: list[T] = []
        """The original value, once for each user."""

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


def collect_rarely() -> AbstractContextManager[None]:
    """Run the garbage collector less often: running episodes are many objects, none of them garbage, and checking them
    again and again took a fifth of the time. Episodes contain no reference cycles, so they are freed without it."""
    return _threshold.changed(lambda values: (max(values[0], GARBAGE_THRESHOLD), *values[1:]))


def switch_often() -> AbstractContextManager[None]:
    """Let a waiting thread have the interpreter soon, even from a thread that computes in Python."""
    return _interval.changed(lambda seconds: min(seconds, SWITCH_INTERVAL))
