"""Checksums of an index: of its documents and vectors, of the files beside the store, and of the newest generation.

The *manifest* is a small file with the name of the index (random) and its newest generation. It is written after each
publication, so a store that is older than its manifest, or of another index, has lost something: a log that was deleted
or changed, or a file that was replaced.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import zlib
from pathlib import Path
from typing import Any

from ..checksums import Sum
from ..errors import DamagedIndex

MANIFEST = "manifest"


def title_check(number: Any, identifier: Any, title: Any, meta: Any) -> int:
    """The checksum of a document without its text."""
    return zlib.crc32(f"{number}\0{identifier}\0{title}\0{meta}".encode())


def document_checks(number: Any, identifier: Any, title: Any, text: Any, meta: Any) -> tuple[int, int]:
    """The checksums of a document without its text, and of all of it; a damaged row may hold values of any type."""
    first = title_check(number, identifier, title, meta)
    return first, zlib.crc32(f"{text}".encode(), first)


def vector_check(number: int, vector: bytes) -> int:
    return zlib.crc32(vector, zlib.crc32(b"%d" % number))


def file_sum(path: str | Path) -> tuple[os.stat_result, Sum]:
    """A file that ends with its checksum: its state, size and that checksum. Whether it is right, `intact` says."""
    handle = os.open(path, os.O_RDONLY)
    try:
        status = os.fstat(handle)
        check = os.pread(handle, 4, max(0, status.st_size - 4))
        return status, Sum(status.st_size, int.from_bytes(check, "little"))
    finally:
        os.close(handle)


def write_manifest(folder: Path, name: str, generation: int) -> None:
    """Say that a generation was published. A manifest that cannot be written stays older, which is harmless.

    It always has the same size, so it is overwritten in one step and needs no space on a full disk.
    """
    with contextlib.suppress(OSError):
        handle = os.open(folder / MANIFEST, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(handle, _manifest(name, generation), 0)
        finally:
            os.close(handle)


def _manifest(name: str, generation: int) -> bytes:
    line = b"%s %020d " % (name.encode(), generation)
    return b"%s%08x\n" % (line, zlib.crc32(line))


def read_manifest(folder: Path) -> tuple[str, int] | None:
    """Name and newest generation of the index; None where there is no manifest."""
    try:
        handle = os.open(f"{folder}/{MANIFEST}", os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        written = os.read(handle, 256)
    finally:
        os.close(handle)
    try:
        name, generation, _ = written.decode().split(" ")
        if _manifest(name, int(generation)) == written:
            return name, int(generation)
    except ValueError:
        pass
    raise DamagedIndex(
        f"{folder / MANIFEST} was changed after it was written; run `subquest index compact {shlex.quote(str(folder))}`"
    )
