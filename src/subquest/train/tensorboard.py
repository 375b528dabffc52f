"""Curves in TensorBoard's format, written without TensorBoard.

An event file is a sequence of records: the length, a checksum of it, the bytes of a protocol-buffer `Event`, a checksum
of those. An event has a time, a step and a summary of (tag, number) pairs. That is all that curves need, and it avoids
a dependency that includes a web server.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

_POLYNOMIAL = 0x82F63B78  # CRC-32C (Castagnoli), reflected


def _table() -> list[int]:
    out = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        out.append(value)
    return out


_TABLE = _table()


def crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value = _TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


def _masked(data: bytes) -> bytes:
    value = crc32c(data)
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _bytes(field: int, data: bytes) -> bytes:
    """A field that holds text or a message."""
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def record(data: bytes) -> bytes:
    """One record of an event file."""
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)


def event(when: float, step: int, figures: Mapping[str, float]) -> bytes:
    """An `Event`: wall_time = 1, step = 2, summary = 5 with values = 1 of tag = 1 and simple_value = 2."""
    values = b"".join(
        _bytes(1, _bytes(1, tag.encode()) + b"\x15" + struct.pack("<f", value)) for tag, value in figures.items()
    )
    return b"\x09" + struct.pack("<d", when) + b"\x10" + _varint(step) + _bytes(5, values)


class TensorBoardFile:
    """Appends to an event file of its own in a folder; a resumed run begins another, and TensorBoard joins them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        now = time.time()
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            name = f"events.out.tfevents.{int(now)}.{socket.gethostname()}.{os.getpid()}"
            self._file = (self._folder / name).open("ab")
            self._file.write(record(b"\x09" + struct.pack("<d", now) + _bytes(3, b"brain.Event:2")))
        self._file.write(record(event(now, step, figures)))
        self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
