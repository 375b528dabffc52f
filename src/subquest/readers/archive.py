"""ZIP archives within limits: a small file must not grow into one that fills the memory or the disk."""

from __future__ import annotations

import struct
import zipfile
from dataclasses import dataclass
from typing import BinaryIO

from ..errors import DataError

_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_DIRECTORY = 16 << 20
"""Bytes of an archive's table of contents; each member takes 46 and its name."""


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
    """The archive, if its table of contents keeps to the limits; reading gives no more than the table declares.

    A member that grows too much ends it, unless it is not needed as a `whole`: then look at each with `refuse_growth`.
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
    if grows(member, ratio):
        raise DataError(f"{member.filename} in the archive grows more than {ratio} times: refused")


def grows(member: zipfile.ZipInfo, ratio: int) -> bool:
    return member.file_size > 1 << 20 and member.file_size > ratio * max(member.compress_size, 1)


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
