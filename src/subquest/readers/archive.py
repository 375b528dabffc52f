"""Compressed files within limits: a small file must not grow into one that fills the memory or the disk."""

from __future__ import annotations

import gzip
import lzma
import os
import struct
import zipfile
import zlib
from dataclasses import dataclass
from typing import BinaryIO, cast

from ..codec import utf8
from ..errors import DataError

_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_DIRECTORY = 16 << 20
"""Bytes of an archive's table of contents; each member takes 46 and its name."""
HELD = 512 << 20
"""Bytes of an archive's member, or of a compressed file, that are unpacked into memory where it cannot be streamed."""
RATIO, FREE = 200, 256 << 20
"""A gzip file that has grown beyond FREE bytes may not grow more than RATIO times."""
DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError)
"""What a damaged compressed file raises."""


@dataclass(frozen=True, slots=True)
class ZipLimits:
    """What an archive may hold."""

    members: int = 20_000
    total: int = 4 << 30
    """Bytes of all members, unpacked."""
    ratio: int = 200
    """Growth of one member of more than a megabyte."""
    office_members: int = 20_000
    """Members of a Word, Excel or PowerPoint file."""


def open_zip(file: BinaryIO, limits: ZipLimits | None = None, *, whole: bool = True) -> zipfile.ZipFile:
    """The archive, if its table of contents is within the limits; reading gives no more than the table declares.

    A member that grows too much is an error, unless not `whole`: then check each with `refuse_growth`.
    """
    limits = limits or ZipLimits()
    directory_within(file)
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise DataError(f"a damaged ZIP archive: {error}") from None
    members = archive.infolist()
    office = any(m.filename.startswith(("xl/", "ppt/", "word/")) for m in members)
    if len(members) > (limits.office_members if office else limits.members):
        raise DataError(f"the archive has {len(members):,} members; at most {limits.members:,} are read")
    if sum(m.file_size for m in members) > limits.total:
        raise DataError(f"the archive holds more than {limits.total:,} bytes")
    for member in members if whole else ():
        refuse_growth(member, limits.ratio)
    return archive


def refuse_growth(member: zipfile.ZipInfo, ratio: int) -> None:
    """Raise DataError for a member of more than a megabyte that grows too much."""
    if member.file_size > 1 << 20 and member.file_size > ratio * max(member.compress_size, 1):
        raise DataError(f"{member.filename} in the archive grows more than {ratio} times: refused")


def directory_within(file: BinaryIO) -> None:
    """Raise DataError where the table of contents alone would fill the memory."""
    file.seek(0, 2)
    length = file.tell()
    start = max(0, length - 65_536 - _END.size)
    file.seek(start)
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    size = 0
    if at >= 0 and len(tail) - at >= _END.size:
        size = _END.unpack_from(tail, at)[5]
        place = start + at - 20 - _END64.size
        if size == 0xFFFFFFFF and place >= 0:
            file.seek(place)
            fields = file.read(_END64.size)
            size = _END64.unpack(fields)[8] if fields[:4] == b"PK\x06\x06" else length
    file.seek(0)
    if min(size, length) > _DIRECTORY:
        raise DataError(f"the archive's table of contents has {size:,} bytes; at most {_DIRECTORY:,} are read")


class GzipReader(gzip.GzipFile):
    """A gzip file that refuses to grow without end."""

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


def unpack_to_memory(stream: BinaryIO, name: str) -> BinaryIO:
    """The stream as a file in memory, for readers that must seek in it."""
    file = cast("BinaryIO", os.fdopen(os.memfd_create(utf8(name[:200])), "w+b"))
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
