"""The files to ingest: in folders, by patterns, or named."""

from __future__ import annotations

import glob
import hashlib
import io
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ...errors import DataError, UsageError
from ..corpus import beside_corpus
from ..store import LOCK, STORE

SUFFIXES = frozenset({
    "jsonl", "ndjson", "tsv", "csv", "txt", "text", "md", "markdown", "rst", "log", "json", "html", "htm", "xhtml",
    "pdf", "docx", "docm", "pptx", "pptm", "xlsx", "xlsm", "odt", "ods", "odp", "eml", "zip", "tar", "tgz",
})  # fmt: skip
"""What is read in folders and by patterns, each also with .gz; a file that is named is always read."""
PICTURES = frozenset({"png", "jpg", "jpeg", "tif", "tiff", "bmp", "webp"})
"""Read too with OCR."""
OLD_OFFICE = frozenset({"doc", "xls", "ppt", "rtf"})
"""Not read; one that is named says what to do."""
_KINDS = (
    (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
    (stat.S_ISDIR, "a folder"),
)  # fmt: skip


class Found(NamedTuple):
    """A file that is to be read."""

    path: str
    """Absolute."""
    name: str
    """The prefix of its passages' ids: the folder's name and the path in it, or the path as it was given."""
    source: str
    """The folder, pattern or file through which it was found, absolute."""
    size: int


Source = str | Path | Found
"""What may be ingested: a file, a folder, a pattern, or a file under a name of its own."""


class Walk:
    """The files of some sources, in a stable order, each once; and what was skipped."""

    def __init__(self, sources: Sequence[Source], broken: Callable[[str, str], None], *, pictures: bool) -> None:
        """`broken` is called with the name of what cannot be read, and the reason."""
        self.passed_over: Counter[str] = Counter()
        """Files of kinds that are not read, by suffix; `hidden`, `links to folders` and `beside a world's corpus`."""
        self.unseen: list[str] = []
        """Folders and files that could not be read."""
        check_sources([source for source in sources if not isinstance(source, Found)])
        self.sources = {s.source if isinstance(s, Found) else os.path.abspath(s) for s in sources}
        self._given = [source if isinstance(source, Found) else Path(source) for source in sources]
        self._broken = broken
        self._suffixes = SUFFIXES | PICTURES if pictures else SUFFIXES
        self._seen: set[str] = set()

    def __iter__(self) -> Iterator[Found]:
        for source in self._given:
            for found in self._files(source):
                if found.path not in self._seen:
                    self._seen.add(found.path)
                    yield found

    def _files(self, source: Path | Found) -> Iterator[Found]:
        if isinstance(source, Found):
            yield source
            return
        whole = os.path.abspath(source)
        if source.is_dir():
            yield from self._folder(whole, os.path.basename(os.path.realpath(whole)), whole)
        elif os.path.lexists(source):
            yield Found(whole, str(source), whole, os.stat(whole).st_size)
        else:
            matches = sorted(glob.glob(str(source), recursive=True))
            folders = {os.path.dirname(os.path.abspath(match)) for match in matches}
            excluded = {folder: beside_corpus(os.listdir(folder)) for folder in folders}
            for match in matches:
                path = os.path.abspath(match)
                if os.path.isdir(match):
                    if not os.path.islink(match):
                        yield from self._folder(path, match.rstrip("/"), whole)
                elif self._wanted(os.path.basename(match), excluded[os.path.dirname(path)]):
                    yield from self._file(path, match, whole)

    def _folder(self, folder: str, label: str, source: str) -> Iterator[Found]:
        waiting = [(folder, label)]
        while waiting:
            here, name = waiting.pop()
            try:
                with os.scandir(here) as entries:
                    listed = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                self._broken(name, f"the folder cannot be searched: {error.strerror}")
                self.unseen.append(here)
                continue
            if {STORE, LOCK} <= {entry.name for entry in listed}:
                continue  # an index is not a source
            excluded = beside_corpus([entry.name for entry in listed])
            inner = []
            for entry in listed:
                inside = f"{name}/{entry.name}"
                if entry.name.startswith((".", "~$")):
                    self.passed_over["hidden"] += 1
                elif entry.is_dir(follow_symlinks=False):
                    inner.append((entry.path, inside))
                elif entry.is_symlink() and os.path.isdir(entry.path):
                    self.passed_over["links to folders"] += 1
                elif self._wanted(entry.name, excluded):
                    yield from self._file(entry.path, inside, source)
            waiting += reversed(inner)

    def _file(self, path: str, name: str, source: str) -> Iterator[Found]:
        try:
            reason = _not_a_file(path)
            size = 0 if reason else os.stat(path).st_size
        except OSError as error:
            reason = error.strerror or str(error)
            self.unseen.append(path)
        if reason:
            self._broken(name, reason)
        else:
            yield Found(path, name, source, size)

    def _wanted(self, name: str, excluded: Collection[str]) -> bool:
        suffix = suffix_of(name)
        if name in excluded:
            self.passed_over["beside a world's corpus"] += 1
            return False
        if suffix not in self._suffixes:
            self.passed_over[f".{suffix}" if suffix else "no suffix"] += 1
        return suffix in self._suffixes


def check_sources(sources: Iterable[str | Path]) -> None:
    """Raise UsageError for a source that cannot be read."""
    for source in sources:
        if not str(source):
            raise UsageError("a source has no name; give a file, a folder or a pattern")
        try:
            if os.path.realpath(source) == os.path.sep:
                raise UsageError(f"{source} is the whole machine; give the folders that hold your documents")
            if os.path.lexists(source) and not os.path.isdir(source) and (reason := _not_a_file(str(source))):
                raise UsageError(f"{source} is {reason}; give a file or a folder")
            os.stat(source)
        except (FileNotFoundError, NotADirectoryError):
            if not re.search(r"[*?\[]", str(source)):
                raise UsageError(f"{source} does not exist") from None
            if not glob.glob(str(source), recursive=True):
                raise UsageError(f"no file matches the pattern {source}") from None
        except (OSError, ValueError) as error:
            raise UsageError(f"{source} cannot be read: {getattr(error, 'strerror', error)}") from None


def suffix_of(name: str) -> str:
    """The suffix of a name in lower case, without .gz."""
    plain = name.lower().rpartition("/")[2]
    return plain.removesuffix(".gz").rpartition(".")[2] if "." in plain.removesuffix(".gz") else ""


def _not_a_file(path: str) -> str:
    """What a path is, if it is not a file."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return "a link to nowhere"
    if stat.S_ISREG(mode):
        return ""
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "not a regular file")


def open_regular(path: str) -> io.BufferedReader:
    """Open a regular file; never waits for the other end of a pipe, and checks what was really opened."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise DataError("not a regular file")
    return os.fdopen(handle, "rb")


def digest(file: io.BufferedReader) -> str:
    """SHA-256 of the content; the file is rewound."""
    found = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    return found
