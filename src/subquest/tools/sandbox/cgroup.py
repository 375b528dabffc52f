"""A control group around one sandbox, where the host allows one: the kernel then counts what no process shows.

Version 1 and version 2 are tried below our own group, so the host's limits stay in force. Where neither works, the
watchdog alone limits the tree.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

from .interface import SandboxLimits
from .watchdog import tree

ROOT = Path("/sys/fs/cgroup")
SLACK = 128 << 20
"""Beyond the memory limit: the sandbox's temporary files, which are bounded by their own sizes."""


class Cgroup:
    """The groups of one sandbox; empty where none could be made."""

    def __init__(self, limits: SandboxLimits) -> None:
        self.folders: list[Path] = []
        name = f"subquest-{os.getpid()}-{secrets.token_hex(4)}"
        wanted = {"memory": str(limits.memory + SLACK), "pids": str(limits.processes + 8)}
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

    def take(self, init: int) -> None:
        """Move a sandbox in; called before any of its code has run.

        What a process inside forks is inside too, so init goes first, then the processes it had already forked; a
        second look finds those that were forked during the first.
        """
        moved: set[int] = set()
        waiting = [init]
        while waiting:
            for pid in waiting:
                for folder in self.folders:
                    with suppress(OSError):
                        (folder / "cgroup.procs").write_text(str(pid))
            moved.update(waiting)
            waiting = [pid for pid in tree(init) if pid not in moved]

    @property
    def out_of_memory(self) -> bool:
        """Whether the kernel has killed for memory here."""
        for folder in self.folders:
            for file in ("memory.oom_control", "memory.events"):
                with suppress(OSError):
                    if any(
                        line.startswith("oom_kill ") and not line.endswith(" 0")
                        for line in (folder / file).read_text().splitlines()
                    ):
                        return True
        return False

    def close(self) -> None:
        for folder in list(self.folders):
            self._drop(folder)

    def _drop(self, folder: Path) -> None:
        for _ in range(50):  # a group stays busy until its last process is reaped
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
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            place = ROOT / controllers / path.lstrip("/")
            for name, value in wanted.items():
                if name in controllers.split(",") and (place / "cgroup.procs").exists():
                    file = {"memory": "memory.limit_in_bytes", "pids": "pids.max"}[name]
                    found.append((place, {file: value}))
            if not controllers and wanted.keys() <= set(_controllers(place)):
                values = {f"{name}.max": value for name, value in wanted.items()}
                found.append((place, {**values, "memory.oom.group": "1"}))
    return [(place, values) for place, values in found if os.access(place, os.W_OK)]


def _sweep(parent: Path) -> None:
    """Remove empty groups of processes that ended without closing their sandboxes."""
    for folder in parent.glob("subquest-*-*"):
        if not Path("/proc", folder.name.split("-")[1]).exists():
            with suppress(OSError):
                folder.rmdir()


def _controllers(place: Path) -> list[str]:
    """The controllers that a version 2 group passes to groups below it."""
    try:
        return (place / "cgroup.subtree_control").read_text().split()
    except OSError:
        return []
