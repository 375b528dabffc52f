"""Files that commands write: checked before any work is done, and complete once they have their name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import UsageError

_SQLITE = b"SQLite format 3\0"


def check_output(path: Path, *, source: Path | None = None) -> None:
    """Raises UsageError where a file cannot be written, or where it would replace a run or the command's own source.

    An older file of the same kind is replaced: running a command again is how its report or trace is renewed.
    """
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {path.parent}")
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a folder; name a file in it")
    target = path if path.exists() else path.parent
    if not os.access(target, os.W_OK):
        raise UsageError(f"cannot write {path}: no permission to write {target if path.exists() else f'into {target}'}")
    if not path.exists():
        return
    if source is not None and source.exists() and path.samefile(source):
        raise UsageError(f"cannot write {path}: it is the file to read from; choose another name")
    try:
        with path.open("rb") as file:
            database = file.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    if database:
        raise UsageError(f"cannot write {path}: it is a run, or another database; choose another name")


@contextmanager
def complete_file(path: Path, *, replace: bool = True) -> Iterator[Path]:
    """A scratch file to write, which takes the name `path` once it is complete.

    With `replace=False` a file that is there already stays, and a UsageError is raised.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        yield scratch
        if replace:
            os.replace(scratch, path)
        else:
            os.link(scratch, path)
    except FileExistsError:
        raise UsageError(f"{path} already exists; choose another name") from None
    finally:
        scratch.unlink(missing_ok=True)
