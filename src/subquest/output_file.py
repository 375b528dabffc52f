"""Files that commands write: checked before any work is done, and complete once they have their name.

One rule for all of them: a symbolic link is followed, so the file it points to is checked and replaced and the link
stays; devices, pipes, sockets and folders are refused; an older file is replaced only if it is of the same kind.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from .errors import UsageError

Kind = Literal["docx", "html", "json", "latex", "markdown", "pdf", "svg"]
_SQLITE = b"SQLite format 3\0"
_BEGINS: Mapping[Kind, tuple[bytes, ...]] = {
    "docx": (b"pk\x03\x04",),
    "html": (b"<!doctype html", b"<html"),
    "json": (b"{", b"["),
    "latex": (b"\\begin", b"%"),
    "markdown": (b"#", b"|"),
    "pdf": (b"%pdf-",),
    "svg": (b"<svg", b"<?xml"),
}
"""How files of a kind that we write begin, in lower case."""
_COMPRESSED: Mapping[str, bytes] = {".gz": b"\x1f\x8b", ".parquet": b"PAR1"}
"""Files of these endings hold JSON rows in another form."""
_SPECIAL = {
    stat.S_IFDIR: "a folder; name a file in it",
    stat.S_IFCHR: "a device; name a file",
    stat.S_IFBLK: "a device; name a file",
    stat.S_IFIFO: "a pipe; name a file",
    stat.S_IFSOCK: "a socket; name a file",
}


def check_output(path: Path, kind: Kind, *, source: Path | None = None) -> None:
    """Raises UsageError where a file cannot be written, or would replace what is not an older one of its kind.

    Running a command again renews its report or trace; a run, the command's own source and files of other kinds stay.
    """
    target = follow_links(path)
    if not target.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {target.parent}")
    try:
        found = target.stat()
    except FileNotFoundError:
        if not os.access(target.parent, os.W_OK):
            raise UsageError(f"cannot write {path}: no permission to write into {path.parent}") from None
        return
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    if special := _SPECIAL.get(stat.S_IFMT(found.st_mode)):
        raise UsageError(f"cannot write {path}: it is {special}")
    if not os.access(target, os.W_OK):
        raise UsageError(f"cannot write {path}: no permission to write {path}")
    if source is not None and source.exists() and target.samefile(source):
        raise UsageError(f"cannot write {path}: it is the file to read from; choose another name")
    try:
        with target.open("rb") as file:
            head = file.read(256)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    if head.startswith(_SQLITE):
        raise UsageError(f"cannot write {path}: it is a run, or another database; choose another name")
    if head and not _is_kind(head, path, kind):
        raise UsageError(f"cannot write {path}: it is a file of another kind; choose another name, or remove it")


def _is_kind(head: bytes, path: Path, kind: Kind) -> bool:
    if kind == "json" and path.suffix in _COMPRESSED:
        return head.startswith(_COMPRESSED[path.suffix])
    return head.removeprefix(b"\xef\xbb\xbf").lstrip().lower().startswith(_BEGINS[kind])


def follow_links(path: Path) -> Path:
    """The file that is written under a name: for a symbolic link, what it points to, there or not."""
    try:
        return path.resolve() if path.is_symlink() else path
    except (OSError, RuntimeError):  # links that point at each other
        raise UsageError(f"cannot write {path}: its symbolic links lead nowhere") from None


@contextmanager
def complete_file(path: Path, *, replace: bool = True) -> Iterator[Path]:
    """A scratch file to write, which takes the name `path` once it is complete.

    With `replace=False` a file that is there already stays, and a UsageError is raised.
    """
    path = follow_links(path)
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
