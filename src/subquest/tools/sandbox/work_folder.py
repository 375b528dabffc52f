"""The work folder of a sandbox: written by untrusted code, read without following links."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...errors import ToolError

MAX_DEPTH = 32
"""How deeply nested folders are read."""


@dataclass(frozen=True, slots=True)
class WorkFile:
    name: str
    """Path below the work folder."""
    size: int
    modified: int = 0
    """Nanoseconds; changes when a file is written again."""


class WorkFolder:
    """A folder that only its owner on the host and the sandbox's uid can enter."""

    def __init__(self) -> None:
        self._outer = Path(tempfile.mkdtemp(prefix="subquest-work-"))
        self.path = self._outer / "work"
        self.path.mkdir(mode=0o700)
        self._uid = 0
        self._added: dict[str, int] = {}
        """Files that were added from outside, with their sizes."""
        self.remove = weakref.finalize(self, _remove, str(self._outer))
        """Removes the folder, whatever is in it; at the latest when this object is freed."""

    def hand_over(self, uid: int) -> None:
        """Give the folder to the uid inside; called before the sandbox has written anything."""
        self._uid = uid
        if uid:
            self._outer.chmod(0o711)  # passable, not readable: bubblewrap may run under this uid itself
            for place in (self.path, *self.path.iterdir()):
                os.chown(place, uid, uid, follow_symlinks=False)

    def add(self, source: Path, name: str = "") -> str:
        """Copy a file in, under a plain name; an existing entry is replaced, never written through."""
        if not source.is_file():
            raise ToolError(f"there is no file {source}")
        name = Path(name or source.name).name
        target = self.path / name
        if target.is_dir() and not target.is_symlink():
            raise ToolError(f"{name!r} is a folder in the work folder")
        target.unlink(missing_ok=True)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as copy, source.open("rb") as original:
            shutil.copyfileobj(original, copy)
            if self._uid:
                os.fchown(descriptor, self._uid, self._uid)
            self._added[name] = copy.tell()
        return name

    def entries(self) -> frozenset[str]:
        """Names of what is in the folder itself."""
        return frozenset(os.listdir(self.path))

    def make_room(self, before: frozenset[str], disk: int, files: int) -> None:
        """After a call that wrote too much: remove what was not there `before` it, and if that does not do, all but
        what was put in from outside. Without that no later call could run either. Nothing runs inside by now."""
        self.path.chmod(0o700)
        for kept in (before, frozenset(name for name, size in self._added.items() if self._has(name, size))):
            for name in self.entries() - kept:
                _remove(str(self.path / name))
            used, entries = self.used(files)
            if used <= disk and entries <= files:
                return

    def _has(self, name: str, size: int) -> bool:
        """Whether a file is still as large as it was."""
        try:
            status = os.lstat(self.path / name)
        except OSError:
            return False
        return stat.S_ISREG(status.st_mode) and status.st_size == size

    def files(self, limit: int = 1000) -> list[WorkFile]:
        """Regular files, in order of their names; links, pipes and devices are skipped."""
        found: list[WorkFile] = []

        def note(name: str, status: os.stat_result) -> None:
            found.append(WorkFile(name, status.st_size, status.st_mtime_ns))

        self._walk(note, limit)
        return sorted(found, key=lambda file: file.name)

    def read(self, name: str, limit: int = 64 << 20) -> bytes:
        """The content of a regular file; no part of its path may be a link."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if not parts or ".." in parts:
            raise ToolError(f"{name!r} is not a file of the work folder")
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            for part in parts[:-1]:
                below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                os.close(folder)
                folder = below
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(parts[-1], flags, dir_fd=folder)
        except OSError as error:
            raise ToolError(f"{name!r} cannot be read from the work folder: {error.strerror}") from None
        finally:
            os.close(folder)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
                raise ToolError(f"{name!r} is not a plain file")
            if status.st_size > limit:
                raise ToolError(f"{name!r} has {status.st_size:,} bytes; at most {limit:,} are read")
            return file.read(limit)

    def used(self, limit: int) -> tuple[int, int]:
        """Bytes on disk and entries; counting ends soon after `limit` entries."""
        sizes: list[int] = []
        entries = self._walk(lambda _, status: sizes.append(status.st_blocks * 512), limit)
        return sum(sizes), entries

    def _walk(self, visit: Callable[[str, os.stat_result], None], limit: int) -> int:
        """Call `visit(name, status)` for each regular file, never following a link; the number of entries seen."""
        seen = 0
        waiting: list[tuple[str, int]] = [("", 0)]
        while waiting and seen <= limit:
            relative, depth = waiting.pop()
            try:
                descriptor = self._open_folder(relative)
            except PermissionError:  # closed by the code, to hide what it puts there
                return limit + 1
            except OSError:
                continue
            try:
                with os.scandir(descriptor) as entries:
                    for entry in entries:
                        seen += 1
                        if seen > limit:
                            break
                        name = f"{relative}/{entry.name}" if relative else entry.name
                        try:
                            status = entry.stat(follow_symlinks=False)
                        except OSError:
                            continue
                        if stat.S_ISDIR(status.st_mode):
                            if depth >= MAX_DEPTH:
                                seen = limit + 1
                                break
                            waiting.append((name, depth + 1))
                        elif stat.S_ISREG(status.st_mode):
                            visit(name, status)
            except OSError:
                continue
            finally:
                os.close(descriptor)
        return seen

    def _open_folder(self, relative: str) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        folder = os.open(self.path, flags)
        for part in relative.split("/") if relative else ():
            try:
                below = os.open(part, flags, dir_fd=folder)
            finally:
                os.close(folder)
            folder = below
        return folder


def _remove(place: str) -> None:
    remove = ["rm", "-rf", "--one-file-system", "--", place]
    if subprocess.run(remove, check=False, capture_output=True).returncode and not os.path.islink(place):
        subprocess.run(["chmod", "-R", "u+rwx", "--", place], check=False, capture_output=True)
        subprocess.run(remove, check=False, capture_output=True)
