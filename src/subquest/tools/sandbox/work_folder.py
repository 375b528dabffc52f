"""The work folder of a sandbox: in memory inside it, written by untrusted code, read without following links.

The folder is a file system of its own with a fixed size, so code cannot take more in any way. The host reaches it by a
descriptor, which also keeps the files after the sandbox has ended. The host never writes there: files that are added
wait in a folder on disk, which the sandbox can read, until its driver copies them.
"""

from __future__ import annotations

import os
import shutil
import stat
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
    """The files of one sandbox, and the files that are given to it."""

    def __init__(self) -> None:
        self._outer = Path(tempfile.mkdtemp(prefix="subquest-work-"))
        self.given = self._outer / "given"
        """Copies of files that were added from outside; only their owner and the sandbox's uid can read them."""
        self.given.mkdir(mode=0o700)
        self.new: list[str] = []
        """Given files that the driver has not copied yet."""
        self._uid = 0
        self._held: list[int] = []
        """Descriptor of the folder, once a sandbox runs."""
        self.remove = weakref.finalize(self, _remove, self._outer, self._held)
        """Removes the files; at the latest when this object is freed."""

    def hand_over(self, uid: int) -> None:
        """Let the uid inside read what is given."""
        self._uid = uid
        if uid:
            self._outer.chmod(0o711)  # passable, not readable: bubblewrap may run under this uid itself
            for place in (self.given, *self.given.iterdir()):
                os.chown(place, uid, uid)

    def add(self, source: Path, name: str = "") -> str:
        """Give the code a copy of a file under a plain name, from its next call on."""
        if not source.is_file():
            raise ToolError(f"there is no file {source}")
        name = Path(name or source.name).name
        target = self.given / name
        target.unlink(missing_ok=True)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as copy, source.open("rb") as original:
            shutil.copyfileobj(original, copy)
            if self._uid:
                os.fchown(descriptor, self._uid, self._uid)
        self.new.append(name)
        return name

    def add_all_again(self) -> None:
        """The sandbox starts with an empty folder: what was given is copied once more."""
        self.new = os.listdir(self.given)

    @property
    def descriptor(self) -> int:
        """The folder of the latest sandbox; -1 before there is one."""
        return self._held[0] if self._held else -1

    def follow(self, descriptor: int) -> None:
        """A new sandbox has started: its folder is the one to read from now on."""
        self.forget()
        self._held.append(descriptor)

    def forget(self) -> None:
        """Let go of the files."""
        while self._held:
            os.close(self._held.pop())

    def names(self) -> list[str]:
        """Names of what is in the folder itself."""
        try:
            return os.listdir(self.descriptor) if self._held else []
        except OSError:  # closed by the code
            return []

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
        try:
            folder = self._open_folder("/".join(parts[:-1]))
            try:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                descriptor = os.open(parts[-1], flags, dir_fd=folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise ToolError(f"{name!r} cannot be read from the work folder: {error.strerror}") from None
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
                raise ToolError(f"{name!r} is not a plain file")
            if status.st_size > limit:
                raise ToolError(f"{name!r} has {status.st_size:,} bytes; at most {limit:,} are read")
            return file.read(limit)

    def _walk(self, visit: Callable[[str, os.stat_result], None], limit: int) -> None:
        """Call `visit(name, status)` for each regular file among the first `limit` entries, never following a link."""
        seen = 0
        waiting: list[tuple[str, int]] = [("", 0)]
        while waiting and seen <= limit:
            relative, depth = waiting.pop()
            try:
                descriptor = self._open_folder(relative)
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
                            if depth < MAX_DEPTH:
                                waiting.append((name, depth + 1))
                        elif stat.S_ISREG(status.st_mode):
                            visit(name, status)
            except OSError:
                continue
            finally:
                os.close(descriptor)

    def _open_folder(self, relative: str) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        folder = os.open(".", flags, dir_fd=self.descriptor) if self._held else os.open(self.given, flags)
        for part in relative.split("/") if relative else ():
            try:
                below = os.open(part, flags, dir_fd=folder)
            finally:
                os.close(folder)
            folder = below
        return folder


def _remove(outer: Path, held: list[int]) -> None:
    for descriptor in held:
        os.close(descriptor)
    held.clear()
    shutil.rmtree(outer, ignore_errors=True)
