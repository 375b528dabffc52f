"""The watchdog: a thread that ends a sandbox whose process tree exceeds its time, memory, processes or disk.

Kernel limits apply to single processes; this applies to the tree. It is a thread, not a task, so that a busy event loop
cannot delay it.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from .interface import SandboxLimits
from .work_folder import WorkFolder

INTERVAL = 0.02
_DISK_EVERY = 5
TEMPORARY_FILES = 20_000
"""Entries of /tmp and of /dev/shm: their bytes are limited, but every entry also takes kernel memory."""
_PASSES = 200
"""Attempts to end what is left running before the sandbox itself is ended."""
_GONE = re.compile(r"/work/.* \(deleted\)", re.DOTALL)
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Watchdog:
    """Watches one call; `verdict` says which limit it broke."""

    def __init__(
        self, root: int, limits: SandboxLimits, folder: WorkFolder, kill: Callable[[], None], seconds: float
    ) -> None:
        self.verdict = ""
        self._root = root
        self._limits = limits
        self._folder = folder
        self._kill = kill
        self._deadline = time.monotonic() + seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="sandbox-watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        rounds = 0
        while not self._stop.wait(INTERVAL):
            verdict = self._judge(look_at_disk=rounds % _DISK_EVERY == 0)
            if verdict:
                self.verdict = verdict
                self._kill()
                return
            rounds += 1

    def _judge(self, *, look_at_disk: bool) -> str:
        if time.monotonic() > self._deadline:
            return "time"
        processes = tree(self._root)
        if sum(map(_threads, processes)) > self._limits.processes + 2:  # bubblewrap's own two
            return "processes"
        if sum(map(_resident, processes)) > self._limits.memory:
            exact = [_proportional(pid) for pid in processes]
            if None in exact or sum(n or 0 for n in exact) > self._limits.memory:
                return "memory"
        if not look_at_disk:
            return ""
        if _shared(processes) > self._limits.memory:
            return "memory"
        inside = processes[2:]  # behind bubblewrap's own two
        if inside and any(_entries(inside[0], place) > TEMPORARY_FILES for place in ("tmp", "dev/shm")):
            return "disk"
        return self.judge_disk()

    def judge_disk(self) -> str:
        used, entries = self._folder.used(self._limits.files)
        used += _unlinked(tree(self._root), self._limits.disk)
        return "disk" if used > self._limits.disk or entries > self._limits.files else ""


def tree(root: int) -> list[int]:
    """A process and all below it. A sandbox's processes cannot leave: orphans go to its own init."""
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with suppress(OSError):
                    waiting += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def kill_below(init: int, *, spared: int) -> bool:
    """Kill all processes below a sandbox's init but one; False where new ones came as fast as they were killed.

    A process that forks and ends, again and again, is gone from a list before it can be killed by it: see `_at_rest`.
    """
    killed: dict[int, int] = {}
    for _ in range(_PASSES):
        fresh = [pid for pid in tree(init) if pid not in (spared, init, *killed) and _runs(Path("/proc"), pid)]
        for pid in fresh:
            killed[pid] = inner_pid(pid)
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not fresh and _at_rest(init, {1, inner_pid(spared), *killed.values()}):
            return True
    return False


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


def _threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def _resident(pid: int) -> int:
    """Bytes of memory that belong to the process, code and other file pages not counted."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
        return max(0, int(fields[1]) - int(fields[2])) * _PAGE + _shmem(pid)
    except (OSError, IndexError, ValueError):
        return 0


def _shmem(pid: int) -> int:
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssShmem:"):
                return int(line.split()[1]) * 1024
    return 0


def _shared(processes: Iterable[int]) -> int:
    """Bytes of memory mapped to be shared, each mapping once: pages that were let go of stay, and none shows them."""
    sizes: dict[str, int] = {}
    for pid in processes:
        with suppress(OSError, ValueError):
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                if "/dev/zero" in line:
                    place, _, _, _, inode = line.split()[:5]
                    low, high = place.split("-")
                    sizes[inode] = max(sizes.get(inode, 0), int(high, 16) - int(low, 16))
    return sum(sizes.values())


def _unlinked(processes: Iterable[int], whole: int) -> int:
    """Bytes of files that were removed from the work folder and live on because they are open or mapped.

    The size of one that is only mapped cannot be seen: it counts as `whole`. Python's own mappings keep it open.
    """
    sizes: dict[int, int] = {}
    mapped: set[int] = set()
    for pid in processes:
        with suppress(OSError):
            for place in Path(f"/proc/{pid}/task").glob("*/fd/*"):  # threads may have descriptors of their own
                with suppress(OSError):
                    if _GONE.fullmatch(os.readlink(place)) and (status := os.stat(place)).st_nlink == 0:
                        sizes[status.st_ino] = status.st_blocks * 512
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_bytes().splitlines():
                fields = line.decode(errors="replace").split(maxsplit=5)
                if len(fields) == 6 and _GONE.fullmatch(fields[5]):
                    mapped.add(int(fields[4]))
    return sum(sizes.values()) + whole * len(mapped - sizes.keys())


def _entries(pid: int, place: str) -> int:
    """Files and folders of a temporary file system, as a process inside sees it; 0 where it cannot be looked at."""
    try:
        found = os.statvfs(f"/proc/{pid}/root/{place}")
    except OSError:
        return 0
    return found.f_files - found.f_ffree


def _proportional(pid: int) -> int | None:
    """Bytes with shared pages divided among those who share them; None where the kernel does not tell."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except FileNotFoundError:
        return 0
    except (OSError, ValueError):
        return None
    return 0
