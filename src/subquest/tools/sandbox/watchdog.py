"""The watchdog: a thread that stops a call which exceeds a limit, and what ends the processes that a call left.

The kernel bounds memory, disk and processes by itself. What it cannot bound (time, output, the number of files) or does
not report is looked at here. It is a thread, not a task, so that a busy event loop cannot delay it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

INTERVAL = 0.02
GRACE = 1.0
"""Seconds that a call has to end after it was interrupted, which keeps its variables; then its sandbox is killed."""
_AGAIN = 0.2
"""Seconds between two interrupts: code may catch one."""
_ENDING = 30.0
"""Seconds in which processes that were killed end."""
_LOOK = 0.002
_PASSES = 200
"""Attempts to end what is left running before the sandbox itself is ended."""


class Watchdog:
    """Watches one call; `verdict` says which limit it broke."""

    def __init__(self, judge: Callable[[], str], interrupt: Callable[[], None], kill: Callable[[], None]) -> None:
        """`judge` names the limit that the call has broken, or nothing."""
        self._requested = self._found = ""  # by the call's own thread; by the watchdog's
        self._judge = judge
        self._interrupt = interrupt
        self._kill = kill
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="sandbox-watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def verdict(self) -> str:
        return self._found or self._requested

    def stop(self, why: str) -> None:
        """Stop the call for another reason."""
        self._requested = why

    def _watch(self) -> None:
        while not self._over.wait(INTERVAL):
            try:
                self._found = self._judge()
            except BaseException:  # nobody would watch any more
                self._kill()
                raise
            if self.verdict:
                break
        for _ in range(round(GRACE / _AGAIN)):
            if self._over.is_set():
                return
            self._interrupt()
            self._over.wait(_AGAIN)
        if not self._over.is_set():
            self._kill()


def tree(root: int) -> list[int]:
    """A process and all below it. A sandbox's processes cannot leave: orphans go to its own init."""
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += _children(pid)
    return found


def _children(pid: int) -> list[int]:
    """Those that ended are among them until they are waited for."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def kill_below(init: int, *, spared: int) -> bool:
    """Kill all processes below a sandbox's init but one; False where new ones came as fast as they were killed.

    A process that is killed takes time to end, more on a busy machine; it is waited for. One that forks and ends, again
    and again, is gone from a list before it can be killed by it: see `_at_rest`.
    """
    killed: dict[int, int] = {}
    for _ in range(_PASSES):
        fresh = [pid for pid in tree(init) if pid not in (spared, init, *killed) and _runs(Path("/proc"), pid)]
        for pid in fresh:
            killed[pid] = inner_pid(pid)
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not fresh and _at_rest(init, {1, inner_pid(spared), *killed.values()}):
            _await_end(killed, init, spared)
            return True
    return False


def _await_end(killed: Iterable[int], init: int, spared: int) -> None:
    """Wait until processes that were killed have ended, but not forever for one that the system cannot end.

    Orphans are the init's, and count to the limit of processes until it has waited for them.
    """
    deadline = time.monotonic() + _ENDING
    while any(_runs(Path("/proc"), pid) for pid in killed) or {*_children(init)} - {spared}:
        if time.monotonic() > deadline:
            return
        time.sleep(_LOOK)


def inner_pid(pid: int) -> int:
    """The pid that a process has inside its own namespace; 0 where it is gone."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return 0


def _at_rest(init: int, known: set[int]) -> bool:
    """Whether no process but the known ones runs in a sandbox.

    Its own /proc lists processes upwards by number, so of those that fork and end again and again each list holds one
    that ran when it was read. It may have ended by the time it is looked at; but then another list holds a new one.
    """
    place = Path(f"/proc/{init}/root/proc")
    before = _listed(place) - known
    return not any(_runs(place, pid) for pid in before) and _listed(place) - known <= before


def _listed(place: Path) -> set[int]:
    """The processes of a sandbox, under the numbers that they have there; those that nobody waits for stay listed."""
    try:
        return set(map(int, filter(str.isdecimal, os.listdir(place))))
    except OSError:
        return set()


def _runs(place: Path, pid: int) -> bool:
    """Whether a process is there and has not ended; one that nobody waits for stays in the list."""
    try:
        return (place / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False
