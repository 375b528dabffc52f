"""Where a command writes, looked at before any work is done: neither the work nor what is there may be lost."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import UsageError

_DATABASE = b"SQLite format 3\0"


def check_target(path: Path, *, source: Path | None = None) -> None:
    """Raises UsageError where a file cannot be written, or where it would take the place of a run or of its source.

    An older file of the same kind is replaced: asking again for a report or a trace is how they are made anew.
    """
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {path.parent}")
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a folder; name a file in it")
    written = path if path.exists() else path.parent
    if not os.access(written, os.W_OK):
        raise UsageError(f"cannot write {path}: you may not write {written if path.exists() else f'into {written}'}")
    if not path.exists():
        return
    if source is not None and source.exists() and path.samefile(source):
        raise UsageError(f"cannot write {path}: it is what is read; choose another name")
    try:
        with path.open("rb") as file:
            taken = file.read(len(_DATABASE)) == _DATABASE
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    if taken:
        raise UsageError(f"cannot write {path}: there is a run, or another database, under that name; choose another")
