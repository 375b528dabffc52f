"""Vector files: the vectors of a run of documents, memory-mapped, in half precision; and exact search in one file.

A vector file is written once, like a segment: header (VECTOR_HEADER), u32 per row (the document's number, ascending),
the rows (float16, unit length), crc32 of everything before. The store has the vectors too, so a file can always be
written again. Half precision halves what a search must read, which is where its time goes; with unit vectors the dot
product changes in the fourth decimal.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import DamagedIndex, DataError, MissingDependency
from . import kernel
from .segment import append_check

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

VECTOR_HEADER = struct.Struct("<8sIIQQ")
"""magic, rows, width, place of the rows, place of the check."""
MAGIC = b"SQVEC\x00\x00\x01"
_BLOCK = 8192
_SPARE = 32
"""Rows beyond k whose scores are computed again, so that rounding leaves nothing out of the best k."""

_Rows = list[tuple[Sequence[int], Sequence[float]]]
"""For each query the rows that were found and their scores."""


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
            raise DamagedIndex(f"{path}: not a vector file, or cut short; run `subquest index compact`")
        magic, self.rows, self.width, start, check = VECTOR_HEADER.unpack(header)
        fits = VECTOR_HEADER.size + 4 * self.rows <= start and start + 2 * self.width * self.rows == check
        if magic != MAGIC or path.stat().st_size != check + 4 or not fits:
            raise DamagedIndex(f"{path}: not a vector file, or cut short; run `subquest index compact`")
        self.numbers: npt.NDArray[np.uint32] = np.memmap(path, np.uint32, "r", VECTOR_HEADER.size, (self.rows,))
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


def to_half(vector: npt.NDArray[np.float32], document: str) -> npt.NDArray[np.float16]:
    """A vector as it is stored; a DataError names the document where a number is not finite, or over 65,504."""
    import numpy as np

    with np.errstate(over="ignore"):
        half = vector.astype(np.float16)
    if not np.isfinite(half).all():
        raise DataError(f"the vector of document {document!r} has numbers that are not finite; embed it again")
    return half


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


def nearest(file: VectorFile, queries: npt.NDArray[np.float32], k: int, hidden: bytearray | None) -> _Rows:
    """The k rows nearest to each query, exactly: by the kernel for a few queries, by matrix products for many."""
    if kernel.library() is None or len(queries) > 4:
        return nearest_blocks(file, queries, k, hidden)
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
