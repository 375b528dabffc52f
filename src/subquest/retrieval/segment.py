"""Segments: immutable inverted files, written once and memory-mapped for reading.

A segment holds, for a run of documents, which terms occur in which document and how often. All numbers are little
endian:

    header      magic, counts and the offsets of the sections (HEADER)
    numbers     u32 per document: its number in the store, ascending; its position here is its *local* number
    lengths     u32 per document: how many terms it has
    terms       TERM per term, sorted by bytes, and one that marks the end: offset of its postings, documents, string
    strings     the terms' bytes
    postings    for each term its documents (local numbers) and term frequencies
    check       crc32 of everything before it

Postings of a term with fewer than BLOCK documents are variable-length integers: (gap << 1 | frequency is 1), then the
frequency unless it is 1, where a gap is the distance to the previous document minus 1. Longer ones come in blocks of
BLOCK documents: first a BLOCK_META per block and one for the whole list, then the gaps and the frequencies minus 1 of
each full block, bit-packed in four lanes (value i is in lane i % 4, so a vector register unpacks four at a time); the
rest comes last as variable-length integers. A BLOCK_META bounds the score of a document of the block under any k1 and
b: once for documents with frequency 1 (their shortest length), once for the others (highest frequency, shortest
length); search skips blocks by it.

This module reads and writes the format in plain Python, the fallback of the C kernel, which is several hundred times
faster.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ..errors import DamagedIndex

MAGIC = b"SQLEX\x00\x00\x02"
BLOCK = 128
HEADER = struct.Struct("<8sIIQIIQQQQQQ")
"""magic, documents, terms, total length, longest length, 0, offsets of numbers, lengths, terms, strings, postings and
check."""
TERM = struct.Struct("<QII")
"""offset of the postings, documents with the term, offset of the string."""
BLOCK_META = struct.Struct("<IIBBHHH")
"""last document, offset of the data, bits per gap, bits per frequency, highest frequency, shortest length where the
frequency is 1, shortest length where it is more (0xffff: none, or longer than that)."""


class Posting(NamedTuple):
    local: int
    frequency: int


class PythonSegment:
    """A segment read without the kernel."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open(path, "rb") as file:
            try:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                header = HEADER.unpack_from(self._map)
            except (ValueError, struct.error):
                raise DamagedIndex(f"{path}: not a segment, or cut short; run `subquest index compact`") from None
        self.documents: int
        self.terms: int
        self.total_length: int
        self.max_length: int
        magic, self.documents, self.terms, self.total_length, self.max_length, _ = header[:6]
        self._numbers, self._lengths, self._terms, self._strings, self._postings, self._check = header[6:]
        if magic != MAGIC or len(self._map) != self._check + 4:
            raise DamagedIndex(f"{path}: not a segment, or cut short; run `subquest index compact`")
        view = memoryview(self._map)
        self.numbers: Sequence[int] = view[self._numbers : self._numbers + 4 * self.documents].cast("I")
        self.lengths: Sequence[int] = view[self._lengths : self._lengths + 4 * self.documents].cast("I")

    def term(self, i: int) -> bytes:
        return self._map[self._strings + self._entry(i)[2] : self._strings + self._entry(i + 1)[2]]

    def _entry(self, i: int) -> tuple[int, int, int]:
        return TERM.unpack_from(self._map, self._terms + TERM.size * i)

    def find(self, term: bytes) -> int:
        """The term's number, -1 where the segment does not have it."""
        i = bisect_left(range(self.terms), term, key=self.term)
        return i if i < self.terms and self.term(i) == term else -1

    def live(self, i: int, removed: bytearray | None) -> int:
        """In how many documents that are not removed the term occurs."""
        if removed is None:
            return self._entry(i)[1]
        return sum(not removed[local >> 3] >> (local & 7) & 1 for local, _ in self.postings(i))

    def postings(self, i: int) -> Iterator[Posting]:
        place, left, _ = self._entry(i)
        place += self._postings
        document = -1
        if left >= BLOCK:
            blocks = (left + BLOCK - 1) // BLOCK
            data = place + (blocks + 1) * BLOCK_META.size
            for block in range(left // BLOCK):
                _, start, gap_bits, frequency_bits, *_ = BLOCK_META.unpack_from(
                    self._map, place + block * BLOCK_META.size
                )
                gaps = unpack(self._map, data + start, gap_bits)
                for gap, frequency in zip(
                    gaps, unpack(self._map, data + start + 16 * gap_bits, frequency_bits), strict=True
                ):
                    document += gap + 1
                    yield Posting(document, frequency + 1)
                left -= BLOCK
            if left:
                place = data + BLOCK_META.unpack_from(self._map, place + (blocks - 1) * BLOCK_META.size)[1]
        for _ in range(left):
            value, place = _read_varint(self._map, place)
            frequency = 1
            if not value & 1:
                frequency, place = _read_varint(self._map, place)
            document += (value >> 1) + 1
            yield Posting(document, frequency)


class PythonBuilder:
    """Collects documents and writes them as a segment, without the kernel."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.lengths: list[int] = []
        self._postings: dict[bytes, list[Posting]] = {}

    def add(self, number: int, terms: Sequence[bytes]) -> None:
        """Add a document; numbers ascend."""
        local = len(self.numbers)
        self.numbers.append(number)
        self.lengths.append(len(terms))
        for term, frequency in Counter(terms).items():
            self._postings.setdefault(term, []).append(Posting(local, frequency))

    def write(self, path: Path) -> None:
        """Write the segment and make sure that it is on disk."""
        terms = sorted(self._postings)
        postings, entries, string_place = bytearray(), bytearray(), 0
        for term in terms:
            found = self._postings[term]
            if len(found) >= BLOCK:
                postings += bytes(-len(postings) % 4)
            entries += TERM.pack(len(postings), len(found), string_place)
            string_place += len(term)
            postings += encode(found, self.lengths)
        entries += TERM.pack(len(postings), 0, string_place)
        sections = [_u32(self.numbers), _u32(self.lengths), bytes(entries), b"".join(terms), bytes(postings)]
        places, place = [], HEADER.size
        for i, section in enumerate(sections):
            sections[i] = section + bytes(-len(section) % 8)
            places.append(place)
            place += len(sections[i])
        counts = (len(self.numbers), len(terms), sum(self.lengths), max(self.lengths, default=0), 0)
        with open(path, "w+b") as file:
            file.write(HEADER.pack(MAGIC, *counts, *places, place) + b"".join(sections))
            file.flush()
            append_check(file)


def encode(found: Sequence[Posting], lengths: Sequence[int]) -> bytes:
    """The postings of one term in the format of the file."""
    if len(found) < BLOCK:
        return _varints(found, -1)
    metas, data, previous = bytearray(), bytearray(), -1
    bounds: list[tuple[int, int, int]] = []
    for start in range(0, len(found), BLOCK):
        block = found[start : start + BLOCK]
        last = block[-1].local
        gap_bits = frequency_bits = 0
        place = len(data)
        if len(block) == BLOCK:
            locals_ = [previous, *(posting.local for posting in block)]
            gaps = [b - a - 1 for a, b in pairwise(locals_)]
            extra = [posting.frequency - 1 for posting in block]
            gap_bits, frequency_bits = max(gaps).bit_length(), max(extra).bit_length()
            data += pack(gaps, gap_bits) + pack(extra, frequency_bits)
        else:
            data += _varints(block, previous)
        once = min((lengths[p.local] for p in block if p.frequency == 1), default=0xFFFF)
        more = min((lengths[p.local] for p in block if p.frequency > 1), default=0xFFFF)
        highest = min(max(p.frequency for p in block), 0xFFFF)
        bounds.append((highest, min(once, 0xFFFF), min(more, 0xFFFF)))
        metas += BLOCK_META.pack(last, place, gap_bits, frequency_bits, *bounds[-1])
        previous = last
    highest, once, more = (f(column) for f, column in zip((max, min, min), zip(*bounds, strict=True), strict=True))
    metas += BLOCK_META.pack(previous, len(data), 0, 0, highest, once, more)
    return bytes(metas + data)


def pack(values: Sequence[int], bits: int) -> bytes:
    """128 values of `bits` bits each in four interleaved lanes."""
    lanes = [sum(value << (bits * row) for row, value in enumerate(values[lane::4])) for lane in range(4)]
    words = [lane.to_bytes(4 * bits, "little") for lane in lanes]
    return b"".join(word[4 * i : 4 * i + 4] for i in range(bits) for word in words)


def unpack(data: mmap.mmap | bytes, place: int, bits: int) -> list[int]:
    if not bits:
        return [0] * BLOCK
    raw = data[place : place + 16 * bits]
    out, mask = [0] * BLOCK, (1 << bits) - 1
    for lane in range(4):
        packed = int.from_bytes(b"".join(raw[i : i + 4] for i in range(4 * lane, 16 * bits, 16)), "little")
        out[lane::4] = [packed >> shift & mask for shift in range(0, 32 * bits, bits)]
    return out


def _varints(found: Iterable[Posting], previous: int) -> bytes:
    out = bytearray()
    for local, frequency in found:
        _append_varint(out, (local - previous - 1) << 1 | (frequency == 1))
        if frequency != 1:
            _append_varint(out, frequency)
        previous = local
    return bytes(out)


def _append_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _read_varint(data: mmap.mmap, place: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := data[place]) >= 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        place += 1
    return value | byte << shift, place + 1


def _u32(values: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def intact(path: Path) -> bool:
    """Whether a file that ends with its checksum is unchanged."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < 4:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as written, memoryview(written) as view:
            with view[: size - 4] as body:
                found = zlib.crc32(body)
            return bool(found == struct.unpack_from("<I", written, size - 4)[0])


def append_check(file: BinaryIO) -> None:
    """Append the checksum of everything that was written, and make the file and its folder entry durable."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as written:
        check = zlib.crc32(written)
    file.seek(0, os.SEEK_END)
    file.write(struct.pack("<I", check))
    file.flush()
    os.fsync(file.fileno())
    sync_folder(Path(file.name).parent)


def sync_folder(folder: Path) -> None:
    """Make the folder's entries durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
