"""The C kernel from Python: segments, builders and search, without the interpreter's lock while they work.

Everything here has a Python twin in `segment` and `bm25` that is used where the kernel is not to be had (no shipped
library and no compiler) or not wanted (SUBQUEST_KERNEL=off); results are the same to the last bit, only slower.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError
from .segment import PythonSegment, append_check, intact

VERSION = 1

CHECKED = 32 << 20
"""Bytes of a segment that is checked when a process opens it first, some 25 ms; `index verify` checks larger ones."""

_intact: set[tuple[str, int, int]] = set()
"""Segments that were checked; they never change under their names."""
_lock = threading.Lock()
_library: ctypes.CDLL | None = None
_reason: str | None = None


def library() -> ctypes.CDLL | None:
    """The kernel, compiled first where need be; None where it is not to be had."""
    global _library, _reason
    if os.environ.get("SUBQUEST_KERNEL") == "off":
        return None
    with _lock:
        if _library is None and _reason is None:
            _library, _reason = _load()
        return _library


def status() -> str:
    """What searches run on, in words, for `doctor` and `info`."""
    if library() is not None:
        return "C kernel"
    return f"plain Python ({_reason or 'SUBQUEST_KERNEL=off'})"


def _load() -> tuple[ctypes.CDLL | None, str]:
    from .kernel_build import SHIPPED, cached_library, compile_to

    path = SHIPPED
    if not path.exists():
        path = cached_library()
        if not path.exists():
            try:
                reason = compile_to(path, native=True)
            except OSError as error:
                reason = str(error)
            if reason:
                return None, reason
    try:
        found = ctypes.CDLL(str(path))
        if found.sq_version() != VERSION:
            return None, f"{path} is of another version"
    except OSError as error:
        return None, str(error)
    return _declare(found), ""


def _declare(found: ctypes.CDLL) -> ctypes.CDLL:
    pointer, size, i32, u32, i64, u64 = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_uint32,
        ctypes.c_int64,
        ctypes.c_uint64,
    )
    real = ctypes.c_double
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "sq_segment_open": (pointer, [ctypes.c_char_p]),
        "sq_segment_close": (None, [pointer]),
        "sq_segment_numbers": (pointer, [pointer]),
        "sq_segment_lengths": (pointer, [pointer]),
        "sq_segment_documents": (u32, [pointer]),
        "sq_segment_total_length": (u64, [pointer]),
        "sq_segment_find": (i64, [pointer, ctypes.c_char_p, size]),
        "sq_segment_frequency": (u32, [pointer, i64]),
        "sq_segment_live": (u32, [pointer, i64, pointer]),
        "sq_search": (
            i32,
            [
                i32,
                pointer,
                pointer,
                i32,
                pointer,
                pointer,
                pointer,
                real,
                real,
                real,
                i32,
                pointer,
                pointer,
                pointer,
                i32,
            ],
        ),
        "sq_nearest": (i32, [pointer, u32, u32, pointer, pointer, i32, pointer, pointer, i32]),
        "sq_builder_open": (pointer, [i32]),
        "sq_builder_close": (None, [pointer]),
        "sq_builder_memory": (u64, [pointer]),
        "sq_builder_add": (i32, [pointer, u32, pointer, ctypes.c_char_p, pointer]),
        "sq_builder_write": (i32, [pointer, i32]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found


class KernelSegment:
    """A segment read by the kernel; freed when the last reader lets go of it."""

    def __init__(self, kernel: ctypes.CDLL, path: Path) -> None:
        self._kernel = kernel
        self.path = path
        self.handle: int | None = kernel.sq_segment_open(os.fsencode(path))
        if not self.handle:
            if not path.exists():  # a writer may have replaced it just now
                raise FileNotFoundError(path)
            raise DataError(f"{path}: not a segment, or cut short; run `subquest index compact`")
        self.documents: int = kernel.sq_segment_documents(self.handle)
        self.total_length: int = kernel.sq_segment_total_length(self.handle)
        array = ctypes.c_uint32 * self.documents
        self.numbers: Sequence[int] = array.from_address(kernel.sq_segment_numbers(self.handle))
        self.lengths: Sequence[int] = array.from_address(kernel.sq_segment_lengths(self.handle))

    def find(self, term: bytes) -> int:
        return int(self._kernel.sq_segment_find(self.handle, term, len(term)))

    def live(self, i: int, removed: bytearray | None) -> int:
        """In how many documents that are not removed the term stands."""
        if removed is None:
            return int(self._kernel.sq_segment_frequency(self.handle, i))
        return int(self._kernel.sq_segment_live(self.handle, i, (ctypes.c_char * len(removed)).from_buffer(removed)))

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._kernel.sq_segment_close(self.handle)
            self.handle = None


class KernelBuilder:
    """Collects folded texts and writes them as a segment."""

    def __init__(self, kernel: ctypes.CDLL, *, stems: bool) -> None:
        self._kernel = kernel
        self._handle: int | None = kernel.sq_builder_open(int(stems))
        if not self._handle:
            raise MemoryError("no memory for a segment builder")

    def add(self, numbers: Sequence[int], texts: Sequence[bytes]) -> None:
        """Take in documents; numbers ascend."""
        places = [0]
        for text in texts:
            places.append(places[-1] + len(text))
        count = len(numbers)
        failed = self._kernel.sq_builder_add(
            self._handle,
            count,
            (ctypes.c_uint32 * count)(*numbers),
            b"".join(texts),
            (ctypes.c_uint64 * (count + 1))(*places),
        )
        if failed:
            raise MemoryError("no memory left while terms were collected; add fewer documents at a time")

    @property
    def memory(self) -> int:
        """Bytes in use."""
        return int(self._kernel.sq_builder_memory(self._handle))

    def write(self, path: Path) -> None:
        """Write the segment and make sure that it is on the disk."""
        with open(path, "w+b") as file:
            result = self._kernel.sq_builder_write(self._handle, file.fileno())
            if result == -1:
                raise MemoryError("no memory left while a segment was written")
            if result:
                raise OSError(f"writing failed at {file.tell():,} bytes; is the disk full?")
            append_check(file)

    def close(self) -> None:
        if self._handle:
            self._kernel.sq_builder_close(self._handle)
            self._handle = None

    __del__ = close


def open_segment(path: Path) -> KernelSegment | PythonSegment:
    """A segment, its bytes checked where that takes no time: the kernel believes what it reads."""
    kernel = library()
    segment = PythonSegment(path) if kernel is None else KernelSegment(kernel, path)
    status = path.stat()
    key = (str(path), status.st_ino, status.st_mtime_ns)
    if status.st_size <= CHECKED and key not in _intact:
        if not intact(path):
            raise DataError(f"{path}: its bytes were changed since it was written; run `subquest index compact`")
        if len(_intact) >= 4096:
            _intact.clear()
        _intact.add(key)
    return segment


def search(
    segments: Sequence[KernelSegment],
    removed: Sequence[bytearray | None],
    queries: Sequence[tuple[Sequence[float], Sequence[Sequence[int]]]],
    *,
    k: int,
    k1: float,
    b: float,
    average: float,
    threads: int,
) -> list[list[tuple[int, int]]]:
    """Number and integer score of the best k of each query; a query is its weights and each term's numbers."""
    kernel = library()
    assert kernel is not None
    places: list[int] = [0]
    terms: list[int] = []
    weights: list[float] = []
    for query_weights, query_terms in queries:
        weights.extend(query_weights)
        for numbers in query_terms:
            terms.extend(numbers)
        places.append(len(weights))
    count = len(queries)
    k = min(k, sum(segment.documents for segment in segments))
    out_numbers = (ctypes.c_uint32 * (count * k))()
    out_scores = (ctypes.c_int64 * (count * k))()
    out_counts = (ctypes.c_int32 * count)()
    bits = [None if b is None else ctypes.addressof((ctypes.c_char * len(b)).from_buffer(b)) for b in removed]
    failed = kernel.sq_search(
        len(segments),
        (ctypes.c_void_p * len(segments))(*[segment.handle for segment in segments]),
        (ctypes.c_void_p * len(segments))(*bits),
        count,
        (ctypes.c_int64 * (count + 1))(*places),
        (ctypes.c_int64 * len(terms))(*terms),
        (ctypes.c_double * len(weights))(*weights),
        k1,
        b,
        average,
        k,
        out_numbers,
        out_scores,
        out_counts,
        threads,
    )
    if failed:
        raise MemoryError("no memory for a search")
    return [
        list(zip(out_numbers[q * k : q * k + n], out_scores[q * k : q * k + n], strict=True))
        for q, n in enumerate(out_counts)
    ]


def nearest(
    rows: int, count: int, width: int, query: int, hidden: bytearray | None, k: int, threads: int
) -> list[tuple[int, float]]:
    """Place and dot product of the best k of `count` half-precision rows at an address, best first."""
    kernel = library()
    assert kernel is not None
    k = min(k, count)
    out_rows, out_scores = (ctypes.c_uint32 * k)(), (ctypes.c_float * k)()
    bits = None if hidden is None else (ctypes.c_char * len(hidden)).from_buffer(hidden)
    found = kernel.sq_nearest(rows, count, width, query, bits, k, out_rows, out_scores, threads)
    if found < 0:
        raise MemoryError("no memory for a search")
    return list(zip(out_rows[:found], out_scores[:found], strict=True))
