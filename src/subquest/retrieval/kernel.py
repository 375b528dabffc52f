"""The C kernel from Python: segments, builders and search, without the interpreter's lock while they work.

`segment` and `lexical` hold a fallback in Python for machines where the kernel is missing (no shipped library and no
compiler) or switched off (SUBQUEST_KERNEL=off); results are the same to the last bit, only slower.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import DamagedIndex
from .segment import PythonSegment, append_check

VERSION = 1

_lock = threading.Lock()
_library: ctypes.CDLL | None = None
_reason: str | None = None


def library() -> ctypes.CDLL | None:
    """The kernel, compiled first if necessary; None where it cannot be had."""
    global _library, _reason
    if os.environ.get("SUBQUEST_KERNEL") == "off":
        return None
    with _lock:
        if _library is None and _reason is None:
            _library, _reason = _load()
        return _library


def status() -> str:
    """What searches run on, for `doctor` and `info`."""
    if library() is not None:
        return "C kernel"
    return f"plain Python ({_reason or 'SUBQUEST_KERNEL=off'})"


def _load() -> tuple[ctypes.CDLL | None, str]:
    from ..c_libraries import SEARCH  # its imports cost start-up time

    path, reason = SEARCH.ready("-march=native")
    if reason:
        return None, reason
    try:
        found = ctypes.CDLL(str(path))
        if found.sq_version() != VERSION:
            return None, f"{path} has another version"
    except OSError as error:
        return None, str(error)
    return _declare(found), ""


_TYPES: dict[str, Any] = {
    "p": ctypes.c_void_p, "s": ctypes.c_char_p, "z": ctypes.c_size_t, "i": ctypes.c_int, "u": ctypes.c_uint32,
    "l": ctypes.c_int64, "q": ctypes.c_uint64, "d": ctypes.c_double, "-": None,
}  # fmt: skip
_SIGNATURES = {
    "sq_segment_open": "p s", "sq_segment_close": "- p", "sq_segment_numbers": "p p", "sq_segment_lengths": "p p",
    "sq_segment_documents": "u p", "sq_segment_total_length": "q p", "sq_segment_find": "l psz",
    "sq_segment_frequency": "u pl", "sq_segment_live": "u plp", "sq_search": "i ippipppdddipppi",
    "sq_nearest": "i puuppippi", "sq_builder_open": "p i", "sq_builder_close": "- p", "sq_builder_memory": "q p",
    "sq_builder_add": "i pupsp", "sq_builder_write": "i pi",
}  # fmt: skip
"""Result and arguments of each function, a letter of `_TYPES` each."""


def _declare(found: ctypes.CDLL) -> ctypes.CDLL:
    for name, signature in _SIGNATURES.items():
        result, _, arguments = signature.partition(" ")
        function = getattr(found, name)
        function.restype, function.argtypes = _TYPES[result], [_TYPES[letter] for letter in arguments]
    return found


class KernelSegment:
    """A segment read by the kernel; freed with its last reference."""

    def __init__(self, kernel: ctypes.CDLL, path: Path) -> None:
        self._kernel = kernel
        self.path = path
        self.handle: int | None = kernel.sq_segment_open(os.fsencode(path))
        if not self.handle:
            if not path.exists():  # a writer may have replaced it just now
                raise FileNotFoundError(path)
            raise DamagedIndex(f"{path}: not a segment, or cut short; run `subquest index compact`")
        self.documents: int = kernel.sq_segment_documents(self.handle)
        self.total_length: int = kernel.sq_segment_total_length(self.handle)
        array = ctypes.c_uint32 * self.documents
        self.numbers: Sequence[int] = array.from_address(kernel.sq_segment_numbers(self.handle))
        self.lengths: Sequence[int] = array.from_address(kernel.sq_segment_lengths(self.handle))

    def find(self, term: bytes) -> int:
        return int(self._kernel.sq_segment_find(self.handle, term, len(term)))

    def live(self, i: int, removed: bytearray | None) -> int:
        """In how many documents that are not removed the term occurs."""
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
        """Add documents; numbers ascend."""
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
        """Write the segment and make sure that it is on disk."""
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
    kernel = library()
    return PythonSegment(path) if kernel is None else KernelSegment(kernel, path)


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
    """Position and dot product of the best k of `count` half-precision rows at an address, best first."""
    kernel = library()
    assert kernel is not None
    k = min(k, count)
    out_rows, out_scores = (ctypes.c_uint32 * k)(), (ctypes.c_float * k)()
    bits = None if hidden is None else (ctypes.c_char * len(hidden)).from_buffer(hidden)
    found = kernel.sq_nearest(rows, count, width, query, bits, k, out_rows, out_scores, threads)
    if found < 0:
        raise MemoryError("no memory for a search")
    return list(zip(out_rows[:found], out_scores[:found], strict=True))
