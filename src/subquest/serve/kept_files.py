"""The files that clients add: kept in the index's folder, so that they can be shown as they look and read again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ..errors import DataError
from ..readers.images import can_recognise
from ..retrieval import Index
from ..retrieval.files import KEPT, IndexedFile
from ..retrieval.ingest import Found, Report, State, forget_files, ingest
from ..retrieval.ingest.sources import OLD_OFFICE, PICTURES, SUFFIXES, digest, open_regular, suffix_of
from .replies import Problem

Progress = Callable[[State], None]


class Upload(NamedTuple):
    """A file that has arrived."""

    name: str
    """Without folders."""
    path: Path
    """Where it is until it is added; it is moved from there."""


def add_uploads(
    index: Index, label: str, uploads: Sequence[Upload], *, ocr: bool = False, progress: Progress | None = None
) -> Report:
    """Keep files and read them into the index; passages are named after the label and the file: `trip/report.pdf#3`.

    A file of which nothing can be read is not kept, and an earlier one with its name stays.
    """
    folder = index.path / KEPT / label
    folder.mkdir(parents=True, exist_ok=True)
    taken = [upload for upload in uploads if suffix_of(upload.name) in SUFFIXES | PICTURES | OLD_OFFICE]
    with _replaced(folder, taken) as kept:
        found = [Found(str(path), f"{label}/{path.name}", str(folder), path.stat().st_size) for path in kept]
        report = ingest(index, found, ocr=ocr, jobs=1, progress=progress)
        refused = [one for one in found if not _worth_keeping(index.files.at(one.path), kept[Path(one.path)])]
        if refused:
            _take_back(index, refused, kept)
    for upload in set(uploads) - set(taken):
        report.passed_over[f".{suffix_of(upload.name)}" if suffix_of(upload.name) else "no suffix"] += 1
    return report


def _worth_keeping(file: IndexedFile | None, before: Path | None) -> bool:
    """Whether something was read; what replaces an earlier file must have been read to its end."""
    if file is None or (before is not None and not file.hash):
        return False
    return not file.wrong or file.passages > 0


@contextmanager
def _replaced(folder: Path, uploads: Sequence[Upload]) -> Iterator[dict[Path, Path | None]]:
    """Files in their places, with the earlier files beside them until the end; those return if something raises."""
    kept: dict[Path, Path | None] = {}
    try:
        for name, path in uploads:
            target, before = folder / name, folder / f".{name}.before"
            kept[target] = before if target.exists() else None
            if target.exists():
                os.replace(target, before)
            shutil.move(path, target)
        yield kept
    except BaseException:
        for target, earlier in kept.items():
            _return(target, earlier)
        raise
    for earlier in kept.values():
        if earlier is not None:
            earlier.unlink(missing_ok=True)


def _return(target: Path, earlier: Path | None) -> None:
    """Put an earlier file back into its place."""
    if earlier is None:
        target.unlink(missing_ok=True)
    elif earlier.exists():
        os.replace(earlier, target)


def _take_back(index: Index, refused: Sequence[Found], kept: dict[Path, Path | None]) -> None:
    """Remove files of which nothing could be read; earlier ones are read again."""
    for one in refused:
        _return(Path(one.path), kept[Path(one.path)])
    names = [file.name for one in refused if kept[Path(one.path)] is None and (file := index.files.at(one.path))]
    if names:
        forget_files(index, names)
    if again := [one for one in refused if kept[Path(one.path)] is not None]:
        ingest(index, again, jobs=1)


def read_again(index: Index, file: IndexedFile, *, ocr: bool = False, progress: Progress | None = None) -> Report:
    """Read a file that is still in its place."""
    if not file.reachable:
        raise Problem(409, f"{file.name} is no longer where it was read; add it again", code="gone")
    found = Found(file.path, file.name, file.source, os.stat(file.path).st_size)
    return ingest(index, [found], again=True, ocr=ocr, jobs=1, progress=progress)


def remove_file(index: Index, file: IndexedFile) -> int:
    """Remove a file and its passages, and the file itself if it is kept here; returns the number of passages."""
    removed = forget_files(index, [file.name])
    if Path(file.path).is_relative_to(index.path / KEPT):
        Path(file.path).unlink(missing_ok=True)
    return removed


@contextmanager
def opened(file: IndexedFile) -> Iterator[BinaryIO]:
    """The file as it was read; a Problem if it is gone or has changed since."""
    try:
        content = open_regular(file.path)
    except (OSError, DataError):
        raise Problem(404, f"{file.name} is no longer where it was read", code="gone") from None
    with content:
        if _digest(content) != file.hash:
            raise Problem(409, f"{file.name} has changed since it was read; read it again", code="changed")
        yield content


_digests: dict[tuple[int, ...], str] = {}
"""Checksums of files, by what changes with their content."""


def _digest(file: Any) -> str:
    status = os.fstat(file.fileno())
    key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if key not in _digests:
        while len(_digests) > 1000:
            _digests.pop(next(iter(_digests)), None)
        _digests[key] = digest(file)
    return _digests[key]


def described(file: IndexedFile) -> dict[str, Any]:
    """A file as the page lists it."""
    try:
        status = os.stat(file.path)
        size, modified = status.st_size, status.st_mtime
    except OSError:
        size, modified = None, None
    return {
        "name": file.name,
        "kind": suffix_of(file.name),
        "passages": file.passages,
        "pages": file.pages,
        "bytes": size,
        "modified": modified,
        "state": _state(file),
        "note": advice(file.wrong or file.note),
        "reachable": file.reachable,
    }


def advice(problem: str) -> str:
    """A problem of a file, with what a client can do about it instead of a command's option."""
    where = "read it with OCR" if can_recognise() else "OCR is not installed on this server (subquest[media])"
    return problem.replace("read it with --ocr", where)


def _state(file: IndexedFile) -> str:
    if file.wrong or file.empty_pages:
        return "partly" if file.passages else "failed"
    return ("read" if file.passages else "empty") if file.hash else "unfinished"
