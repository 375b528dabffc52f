"""Dense search: the nearest vectors, exactly, over memory-mapped files of half-precision rows.

A vector file is written once, like a segment: header (VECTOR_HEADER), u32 a row (the document's number, ascending),
the rows (float16, one a document, unit length), crc32 of all before. The vectors also stand in the store, so a file
can always be written again. Half precision halves what a search must read, which is what it spends its time on; with
unit vectors the dot product changes in the fourth decimal.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..errors import DataError, MissingDependency, SearchRefused
from . import kernel
from .ann import open_companion
from .bm25 import Scored
from .segment import append_check

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

VECTOR_HEADER = struct.Struct("<8sIIQQ")
"""magic, rows, width, place of the rows, place of the check."""
MAGIC = b"SQVEC\x00\x00\x01"
_BLOCK = 8192
_SPARE = 32
"""Rows beyond k whose scores are computed once more: nothing that belongs to the best k may be left out by rounding."""


class VectorFile:
    """The vectors of a run of documents."""

    def __init__(self, path: Path) -> None:
        try:
            import numpy as np
        except ImportError:
            raise MissingDependency("Dense search (numpy)", "dense") from None
        self.path = path
        with open(path, "rb") as file:
            header = file.read(VECTOR_HEADER.size)
        if len(header) < VECTOR_HEADER.size:
            raise DataError(f"{path}: not a vector file, or cut short; run `subquest index compact`")
        magic, self.rows, self.width, start, check = VECTOR_HEADER.unpack(header)
        fits = VECTOR_HEADER.size + 4 * self.rows <= start and start + 2 * self.width * self.rows == check
        if magic != MAGIC or path.stat().st_size != check + 4 or not fits:
            raise DataError(f"{path}: not a vector file, or cut short; run `subquest index compact`")
        self.numbers: npt.NDArray[np.uint32] = np.memmap(path, np.uint32, "r", VECTOR_HEADER.size, (self.rows,))
        self.approximate = open_companion(path.with_suffix(".ann"))
        self.vectors: npt.NDArray[np.float16] = np.memmap(path, np.float16, "r", start, (self.rows, self.width))

    def hide(self, numbers: Sequence[int]) -> bytearray:
        """The rows of these documents as bits."""
        import numpy as np

        bits = np.packbits(np.isin(self.numbers, np.asarray(numbers, np.uint32)), bitorder="little")
        return bytearray(bits.tobytes().ljust((self.rows + 63) // 64 * 8, b"\0"))


def document_numbers(path: Path) -> list[int]:
    """Whose vectors a file holds; needs no numpy."""
    with open(path, "rb") as file:
        _, rows, *_ = VECTOR_HEADER.unpack(file.read(VECTOR_HEADER.size))
        return list(struct.unpack(f"<{rows}I", file.read(4 * rows)))


def write_vectors(path: Path, numbers: Sequence[int], rows: Iterable[bytes], width: int) -> None:
    """Write a vector file from numbers (ascending) and as many float16 rows."""
    start = (VECTOR_HEADER.size + 4 * len(numbers) + 63) // 64 * 64
    end = start + 2 * width * len(numbers)
    with open(path, "w+b") as file:
        file.write(VECTOR_HEADER.pack(MAGIC, len(numbers), width, start, end))
        file.write(struct.pack(f"<{len(numbers)}I", *numbers))
        file.write(bytes(start - file.tell()))
        for row in rows:
            file.write(row)
        if file.tell() != end:
            raise DataError(f"{path}: vectors of different widths; embed the documents again")
        file.flush()
        append_check(file)


class VectorPart(NamedTuple):
    file: VectorFile
    hidden: bytearray | None
    """Removed documents, a bit a row."""


class Dense:
    """The vector files of one generation as one searchable whole."""

    def __init__(self, parts: Sequence[VectorPart]) -> None:
        self.parts = tuple(parts)

    def top(
        self, queries: npt.NDArray[np.float32], k: int, hidden: Sequence[bytearray | None] | None = None
    ) -> list[list[Scored]]:
        """The k documents nearest to each query vector, nearest first; ties go to the earlier document.

        Exact, except in files large enough to have an approximate companion, and there too when documents are hidden.
        """
        import numpy as np

        bits = list(hidden) if hidden is not None else [part.hidden for part in self.parts]
        queries = np.ascontiguousarray(queries, np.float32)
        for file, _ in self.parts if len(queries) else ():
            if file.rows and file.width != queries.shape[-1]:  # the kernel would read beyond their end
                raise SearchRefused(
                    f"{file.path.parent}: its vectors have {file.width} numbers, those of the encoder "
                    f"{queries.shape[-1]}; give it the model that the index was embedded with, or build it again"
                )
        single = kernel.library() is not None and len(queries) <= 4
        found: list[list[Scored]] = [[] for _ in queries]
        for (file, _), hide in zip(self.parts, bits, strict=True):
            if not file.rows:
                continue
            if file.approximate is not None and hidden is None:
                rows = _nearest_approximate(file, queries, k, hide)
            elif single:
                rows = _nearest_kernel(file, queries, k, hide)
            else:
                rows = nearest_blocks(file, queries, k, hide)
            for best, (places, scores) in zip(found, rows, strict=True):
                numbers = file.numbers[np.asarray(places, np.int64)].tolist()
                best.extend(map(Scored, numbers, scores))
        return [sorted(best, key=lambda scored: (-scored.score, scored.number))[:k] for best in found]


_Rows = list[tuple[Sequence[int], Sequence[float]]]


def _nearest_approximate(
    file: VectorFile, queries: npt.NDArray[np.float32], k: int, removed: bytearray | None
) -> _Rows:
    """Where so many of the nearest are removed that too few are left, exact after all."""
    assert file.approximate is not None
    scores, places = file.approximate.search(queries, 2 * k if removed else k)
    out: _Rows = []
    for i, (row, where) in enumerate(zip(scores.tolist(), places.tolist(), strict=True)):
        kept = [
            (place, score)
            for place, score in zip(where, row, strict=True)
            if place >= 0 and not (removed and removed[place >> 3] >> (place & 7) & 1)
        ][:k]
        if len(kept) < k:
            out += nearest_blocks(file, queries[i : i + 1], k, removed)
        else:
            out.append(([place for place, _ in kept], [score for _, score in kept]))
    return out


def _nearest_kernel(file: VectorFile, queries: npt.NDArray[np.float32], k: int, hidden: bytearray | None) -> _Rows:
    threads = len(os.sched_getaffinity(0))
    out: _Rows = []
    for query in queries:
        best = kernel.nearest(file.vectors.ctypes.data, file.rows, file.width, query.ctypes.data, hidden, k, threads)
        out.append(([place for place, _ in best], [score for _, score in best]))
    return out


def nearest_blocks(file: VectorFile, queries: npt.NDArray[np.float32], k: int, hidden: bytearray | None) -> _Rows:
    """Many queries at once: blocks of rows as float32, one matrix product each.

    How a matrix product adds up depends on its size, and so would the order of near ties and of equal vectors. So a few
    more rows than asked for are found by it, and their scores are computed again, each row by itself.
    """
    import numpy as np

    dark = None
    if hidden is not None:
        dark = np.unpackbits(np.frombuffer(hidden, np.uint8), bitorder="little")[: file.rows].astype(bool)
    wide = k + _SPARE
    scores = np.empty((len(queries), 0), np.float32)
    places = np.empty((len(queries), 0), np.int64)
    for start in range(0, file.rows, _BLOCK):
        block = queries @ file.vectors[start : start + _BLOCK].astype(np.float32).T
        if dark is not None:
            block[:, dark[start : start + _BLOCK]] = -np.inf
        here = np.broadcast_to(np.arange(start, start + block.shape[1]), block.shape)
        scores, places = np.concatenate([scores, block], 1), np.concatenate([places, here], 1)
        if scores.shape[1] > wide:
            keep = np.sort(np.argpartition(-scores, wide - 1, axis=1)[:, :wide], axis=1)
            scores, places = np.take_along_axis(scores, keep, 1), np.take_along_axis(places, keep, 1)
    return [
        _scored_singly(file, query, where[np.isfinite(row)], k)
        for query, row, where in zip(queries, scores, places, strict=True)
    ]


def _scored_singly(
    file: VectorFile, query: npt.NDArray[np.float32], places: npt.NDArray[np.int64], k: int
) -> tuple[Sequence[int], Sequence[float]]:
    """The k nearest of some rows, by the very scores that a search for one query gives."""
    import numpy as np

    rows = np.ascontiguousarray(file.vectors[places])
    if kernel.library() is not None and len(rows):
        best = kernel.nearest(rows.ctypes.data, len(rows), file.width, query.ctypes.data, None, k, 1)
        return places[[place for place, _ in best]].tolist(), [score for _, score in best]
    scores = (rows.astype(np.float32) * query).sum(axis=1)
    order = np.lexsort((places, -scores))[:k]
    return places[order].tolist(), scores[order].tolist()
