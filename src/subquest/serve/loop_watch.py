"""A server that hangs: its stacks are logged, and a signal to stop ends it all the same.

Code that holds Python's lock (a call into C that waits) stops every Python thread and every signal handler. So neither
part relies on Python: a C thread of `faulthandler` writes the stacks, and a small process of its own, which a C signal
handler wakes, ends the server.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

MARGIN = 5.0
"""Seconds after the grace time in which a server that was told to stop closes its files; then it is killed."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
log = logging.getLogger("subquest.serve")

_KEEPER = """
import os, select, signal, sys, time
parent, seconds = int(sys.argv[1]), float(sys.argv[2])
stacks = os.read(0, 1 << 16)  # written when a signal comes; empty when the server has ended
end = time.monotonic() + seconds
while stacks:
    if not select.select([0], [], [], max(0.0, end - time.monotonic()))[0]:
        if os.getppid() == parent:
            os.kill(parent, signal.SIGKILL)
            said = f"subquest: killed, because it did not stop {seconds:g} s after a signal. Its stacks at the signal:"
            os.write(2, said.encode() + bytes([10]) + stacks)
        break
    more = os.read(0, 1 << 16)
    if not more:
        break
    stacks += more
"""


class LoopWatch:
    """Notices when the event loop stands still, which is when nothing is answered and no event arrives."""

    def __init__(self, seconds: float) -> None:
        """A loop that has done nothing for so many seconds stands still; 0 means nobody looks."""
        self.seconds = seconds
        self.stalls = 0
        self.longest = 0.0
        """Seconds of the longest stall."""
        self._seen = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the running loop. All stacks go to stderr, once per stall; there is one watch per process."""
        if not self.seconds:
            yield
            return
        self._seen = time.monotonic()
        self._beat()
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
            if self._timer is not None:
                self._timer.cancel()

    def _beat(self) -> None:
        now = time.monotonic()
        gap, self._seen = now - self._seen, now
        faulthandler.dump_traceback_later(self.seconds, file=sys.__stderr__ or 2)
        if gap >= self.seconds:
            self.stalls += 1
            self.longest = max(self.longest, gap)
            log.error("the event loop stood still for %.1f s; the stacks after %g s are above", gap, self.seconds)
        self._timer = asyncio.get_running_loop().call_later(self.seconds / 4, self._beat)


@contextmanager
def ended_in_time(seconds: float) -> Iterator[None]:
    """From a signal to stop, this process has so many seconds to end; then it is killed. To be entered after the
    signals' own handlers were installed, which are called as before."""
    listening, telling = os.pipe()
    os.set_blocking(telling, False)
    command = [sys.executable, "-I", "-S", "-c", _KEEPER, str(os.getpid()), str(seconds)]
    # The process ends when nobody holds `telling` any more, so it is never closed: not before this process ends.
    os.posix_spawn(sys.executable, command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, listening, 0)], setpgroup=0)
    os.close(listening)
    for number in SIGNALS:
        faulthandler.register(number, file=telling, all_threads=True, chain=True)
    try:
        yield
    finally:
        for number in SIGNALS:
            faulthandler.unregister(number)
