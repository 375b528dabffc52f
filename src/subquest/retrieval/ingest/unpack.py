"""Opening what is to be read: only regular files, and compressed ones within limits."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import stat
import zlib
from typing import BinaryIO, cast

from ...errors import DataError

HELD = 512 << 20
"""Bytes of an archive's member, or of a compressed file, that is unpacked into memory because it cannot be streamed."""
RATIO, FREE = 200, 256 << 20
"""A compressed file that has grown beyond FREE bytes may not grow more than RATIO times."""


def open_regular(path: str) -> io.BufferedReader:
    """The file, opened without waiting for a pipe's other end and without believing what was there a moment ago."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise DataError("not a regular file")
    return os.fdopen(handle, "rb")


def digest(file: io.BufferedReader) -> str:
    """SHA-256 of the content; the file is wound back."""
    found = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    return found


class Gunzipped(gzip.GzipFile):
    """A compressed file that refuses to grow without end."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._file = file

    def _checked(self, data: bytes) -> bytes:
        if self.tell() > FREE and self.tell() > RATIO * max(self._file.tell(), 1):
            raise DataError(f"it grows more than {RATIO} times when unpacked: refused")
        return data

    def read(self, size: int | None = -1) -> bytes:
        return self._checked(super().read(size))

    def read1(self, size: int = -1) -> bytes:
        return self._checked(super().read1(size))

    def readline(self, size: int | None = -1) -> bytes:
        return self._checked(super().readline(size))


UNPACKING = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError)
"""What a damaged compressed file raises."""


def held(stream: BinaryIO, name: str) -> BinaryIO:
    """The stream as a file in memory, for readers that must jump about in it."""
    file = cast("BinaryIO", os.fdopen(os.memfd_create(name[:200].encode(errors="replace").decode()), "w+b"))
    length = 0
    try:
        while chunk := stream.read(1 << 20):
            length += len(chunk)
            if length > HELD:
                raise DataError(f"larger than {HELD:,} bytes when unpacked")
            file.write(chunk)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file
