"""A control group around one sandbox, where the host allows one: the kernel then counts what no process shows.

Version 1 and version 2 are tried below our own group, so the host's limits stay in force. Where neither works, code
has a single process, which the kernel limits without a group.
"""

from __future__ import annotations

import functools
import os
import secrets
import subprocess
import time
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

from .interface import SandboxLimits
from .watchdog import tree

ROOT = Path("/sys/fs/cgroup")
OURS = Path("/proc/self/cgroup")
_WITHOUT_SWAP = {
    "memory.limit_in_bytes": ("memory.memsw.limit_in_bytes", None),  # memory and swap together: the same limit
    "memory.max": ("memory.swap.max", "0"),
}
"""For each file with the memory limit, the file that keeps swap from being used, where the kernel has it."""


@functools.cache
def available() -> bool:
    """Whether the memory of several processes can be limited here; tried once, with a process that does nothing."""
    group = Cgroup(SandboxLimits())
    try:
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
            group.take(process.pid)
            process.kill()
        return group.limits_memory
    except OSError:
        return False
    finally:
        group.close()


class Cgroup:
    """The groups of one sandbox; none without limits."""

    def __init__(self, limits: SandboxLimits | None) -> None:
        self.folders: list[Path] = []
        name = f"subquest-{os.getpid()}-{secrets.token_hex(4)}"
        self.limits_memory = False
        if limits is None:
            return
        wanted = {"memory": str(limits.memory), "pids": str(limits.processes + 8)}
        for parent, values in _parents(wanted):
            folder = parent / name
            _sweep(parent)
            try:
                folder.mkdir()
                self.folders.append(folder)
                for file, value in values.items():
                    (folder / file).write_text(value)
            except OSError:
                self._drop(folder)
                continue
            for file in values.keys() & _WITHOUT_SWAP.keys():
                self.limits_memory = True
                swap, none = _WITHOUT_SWAP[file]
                with suppress(OSError):
                    (folder / swap).write_text(none or values[file])

    def take(self, init: int) -> None:
        """Move a sandbox in; called before any of its code has run. Raises OSError if that fails.

        What a process inside forks is inside too, so init goes first, then the processes it had already forked; a
        second look finds those that were forked during the first.
        """
        moved: set[int] = set()
        waiting = [init]
        while waiting:
            for pid in waiting:
                for folder in self.folders:
                    with suppress(ProcessLookupError):
                        (folder / "cgroup.procs").write_text(str(pid))
            moved.update(waiting)
            waiting = [pid for pid in tree(init) if pid not in moved]

    @property
    def memory_kills(self) -> int:
        """How many processes the kernel has killed here because memory ran out."""
        for folder in self.folders:
            for file in ("memory.oom_control", "memory.events"):
                with suppress(OSError):
                    for line in (folder / file).read_text().splitlines():
                        if line.startswith("oom_kill "):
                            return int(line.split()[1])
        return 0

    def close(self) -> None:
        for folder in list(self.folders):
            self._drop(folder)

    def _drop(self, folder: Path) -> None:
        for _ in range(1000):  # a group stays busy until its last process is reaped
            try:
                folder.rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.01)
        if folder in self.folders:
            self.folders.remove(folder)


def _parents(wanted: dict[str, str]) -> list[tuple[Path, dict[str, str]]]:
    """Folders in which groups may be made, and what is written into a new one."""
    found: list[tuple[Path, dict[str, str]]] = []
    with suppress(OSError):
        for line in OURS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            place = ROOT / controllers / path.lstrip("/")
            for name, value in wanted.items():
                if name in controllers.split(",") and (place / "cgroup.procs").exists():
                    file = {"memory": "memory.limit_in_bytes", "pids": "pids.max"}[name]
                    found.append((place, {file: value}))
            if not controllers and (parent := _passing_on(place, wanted.keys())) is not None:
                found.append((parent, {f"{name}.max": value for name, value in wanted.items()}))
    return [(place, values) for place, values in found if os.access(place, os.W_OK)]


def _sweep(parent: Path) -> None:
    """Remove empty groups of processes that ended without closing their sandboxes."""
    for folder in parent.glob("subquest-*-*"):
        if not Path("/proc", folder.name.split("-")[1]).exists():
            with suppress(OSError):
                folder.rmdir()


def _passing_on(place: Path, controllers: Set[str]) -> Path | None:
    """The version 2 group in which a group with these controllers can be made: ours, or one above it.

    A group that has processes, as ours does, passes on no controllers, so under systemd the group is made beside ours.
    A group with a memory limit is never left.
    """
    while place.is_relative_to(ROOT):
        if controllers <= set(_read(place / "cgroup.subtree_control").split()):
            return place
        if any(_read(place / file).strip() not in ("", "max") for file in ("memory.max", "memory.high")):
            return None
        place = place.parent
    return None


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
