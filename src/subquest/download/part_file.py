"""A file on its way: its part file, locked, checked, renamed."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path

from ..errors import DataError, OutsideError, UsageError
from .sizes import check_room, megabytes, sha256

Source = Callable[[BufferedRandom], None]
"""Writes what is missing of a file behind what its part file has; raises SourceFailed."""
Inspect = Callable[[Path], None]
"""Looks at a file that has arrived, before it gets its name; raises DataError where it is of no use."""


ARRIVED = "what was downloaded, and is thrown away,"


class SourceFailed(Exception):
    """A source did not deliver; `lasting` if it would not deliver later either."""

    def __init__(self, reason: str, *, lasting: bool) -> None:
        super().__init__(reason)
        self.lasting = lasting


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file that is to be brought here."""

    name: str
    """What the user asked for: `qwen-1.5b`, `wiki18`."""
    command: str
    """That asks for it."""
    target: Path
    size: int | None = None
    sha256: str = ""
    """Empty where nobody has published it."""
    version: str = ""
    """Where the digest is not known: what tells one content of the address from another; empty if nothing does."""

    @property
    def part(self) -> Path:
        key = self.sha256 or (hashlib.sha256(self.version.encode()).hexdigest() if self.version else "unknown")
        return self.target.with_name(f".{self.target.name}.{key[:12]}.part")


def bring(wanted: Wanted, sources: Sequence[Source], *, room: int = 0, inspect: Inspect | None = None) -> int:
    """Download a file from the first source that delivers it, and say which that was.

    `room` are bytes that are needed besides those of the file; `inspect` may refuse it.
    """
    wanted.target.parent.mkdir(parents=True, exist_ok=True)
    with _part_file(wanted) as part:
        if part is None:
            return 0
        if not (wanted.sha256 or wanted.version):
            part.truncate(0)  # of an unknown content: it cannot be continued
        check_room(wanted.name, wanted.command, wanted.target.parent, (wanted.size or 0) - end_of(part) + room)
        failed: list[SourceFailed] = []
        for source in sources:
            try:
                _try(source, part, wanted)
                _keep(part, wanted.target, inspect)
                return len(failed)
            except SourceFailed as error:
                failed.append(error)
        reasons = "; ".join(map(str, failed))
        if all(error.lasting for error in failed):
            discard(part)
            raise OutsideError(
                f"{wanted.name} cannot be downloaded: {reasons}. "
                f"If you have the file, run: {wanted.command} --file FILE"
            )
        if not (here := end_of(part)):
            raise OutsideError(f"{wanted.name} cannot be downloaded now: {reasons}. Try again: {wanted.command}")
        whole = f" of {megabytes(wanted.size)}" if wanted.size else ""
        raise OutsideError(
            f"the download of {wanted.name} was cut after {megabytes(here)}{whole}: {reasons}. "
            f"To continue, run: {wanted.command}"
        )


def _try(source: Source, part: BufferedRandom, wanted: Wanted) -> None:
    resumed = end_of(part) > 0
    try:
        source(part)
        _check(part, wanted, ARRIVED)
    except SourceFailed:
        if not resumed or end_of(part):
            raise
        source(part)  # the beginning, from an earlier call, was wrong and is gone: once more from the start
        _check(part, wanted, ARRIVED)


def take(wanted: Wanted, source: Source, given: str, *, inspect: Inspect | None = None) -> None:
    """Copy a file from what the user has; `given` names that in messages, `inspect` may refuse it."""
    wanted.target.parent.mkdir(parents=True, exist_ok=True)
    with _part_file(wanted) as part:
        if part is None:
            return
        part.truncate(0)
        check_room(wanted.name, wanted.command, wanted.target.parent, wanted.size or 0)
        try:
            source(part)
            _check(part, wanted, given)
        except SourceFailed as error:
            discard(part)
            published = f" ({wanted.size:,} bytes, SHA-256 {wanted.sha256})" if wanted.size and wanted.sha256 else ""
            raise DataError(
                f"{error}. {wanted.name} is {wanted.target.name}{published}; without --file it is downloaded: "
                f"{wanted.command}"
            ) from None
        _keep(part, wanted.target, inspect)


def _check(part: BufferedRandom, wanted: Wanted, what: str) -> None:
    part.flush()
    if not wanted.sha256:
        return
    part.seek(0)
    found = hashlib.file_digest(part, "sha256").hexdigest()
    if found != wanted.sha256:
        part.truncate(0)
        raise SourceFailed(f"{what} has SHA-256 {found} and not {wanted.sha256}", lasting=True)


@contextmanager
def _part_file(wanted: Wanted) -> Iterator[BufferedRandom | None]:
    """The part file, locked; None if another process has brought the file here meanwhile."""
    path, target = wanted.part, wanted.target
    with locked(path) as part:
        try:
            there = end_of(part) == 0 and wanted.sha256 and target.is_file() and sha256(target) == wanted.sha256
            yield None if there else part
        finally:  # still locked: whoever waits for the file sees that it is gone, and begins another one
            if end_of(part) == 0 and _is_at(part, path):
                path.unlink()


@contextmanager
def locked(path: Path) -> Iterator[BufferedRandom]:
    """A file for reading and appending that only this process has open in this way."""
    while True:
        file = path.open("a+b")
        fcntl.flock(file, fcntl.LOCK_EX)
        if _is_at(file, path):
            break
        file.close()  # who held it has renamed or removed it
    with file:
        yield file


def _is_at(file: BufferedRandom, path: Path) -> bool:
    """Whether a path still leads to an open file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _keep(part: BufferedRandom, target: Path, inspect: Inspect | None) -> None:
    if inspect is not None:
        try:
            inspect(Path(part.name))
        except DataError:
            discard(part)
            raise
    os.fsync(part.fileno())
    os.replace(part.name, target)


def discard(part: BufferedRandom) -> None:
    Path(part.name).unlink(missing_ok=True)


def end_of(file: BufferedRandom) -> int:
    return file.seek(0, os.SEEK_END)


@contextmanager
def room_errors(folder: Path, command: str, scratch: Callable[[], Sequence[Path]]) -> Iterator[None]:
    """A disk that fills up or is not writable in one line; what could not be finished for lack of room is removed."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            for path in scratch():
                path.unlink(missing_ok=True)
            raise UsageError(
                f"no room was left in {folder}, and what had arrived is removed. Make room, then run: {command}"
            ) from None
        raise UsageError(f"cannot write {error.filename or folder}: {error.strerror}") from None
