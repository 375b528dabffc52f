"""Dense search: the nearest vectors over the vector files of one generation."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..checksums import Sum
from ..errors import DamagedIndex, SearchRefused
from .ann import Approximate, open_companion
from .bm25 import Scored
from .checked_file import CheckedFile
from .vectors import VectorFile, nearest, nearest_blocks

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class VectorPart(NamedTuple):
    file: VectorFile
    hidden: bytearray | None
    """Removed documents, a bit a row."""


class Dense:
    """The vector files of one generation as one searchable whole."""

    def __init__(self, parts: Sequence[VectorPart], recorded: Mapping[str, Sum] | None = None) -> None:
        self.parts = tuple(parts)
        recorded = recorded or {}
        self._files = [CheckedFile(part.file.path, recorded.get(part.file.path.name)) for part in parts]
        self._companions = [_Companion(part.file.path.with_suffix(".ann"), recorded) for part in parts]

    def check(self) -> None:
        """Check all files now; large ones would be checked while searches go on."""
        for file in self._files:
            file.sound(wait=True)
            file.require()
        for companion in self._companions:
            companion.open(wait=True)

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
            if file.rows and file.width != queries.shape[-1]:  # the kernel would read past their end
                raise SearchRefused(
                    f"{file.path.parent}: its vectors have {file.width} numbers, those of the encoder "
                    f"{queries.shape[-1]}; give it the model that the index was embedded with, or build it again"
                )
        found: list[list[Scored]] = [[] for _ in queries]
        for (file, _), checked, ann, hide in zip(self.parts, self._files, self._companions, bits, strict=True):
            if not file.rows:
                continue
            checked.require()
            companion = ann.open() if hidden is None else None
            if companion is not None:
                rows = _nearest_approximate(companion, file, queries, k, hide)
            else:
                rows = nearest(file, queries, k, hide)
            for best, (places, scores) in zip(found, rows, strict=True):
                numbers = file.numbers[np.asarray(places, np.int64)].tolist()
                best.extend(map(Scored, numbers, scores))
        return [sorted(best, key=lambda scored: (-scored.score, scored.number))[:k] for best in found]


class _Companion:
    """The companion of a vector file, opened when it was checked; until then, and where it is damaged, search is
    exact."""

    def __init__(self, path: Path, recorded: Mapping[str, Sum]) -> None:
        self._file: CheckedFile | None = None
        self._opened: Approximate | None = None
        if path.exists():
            with contextlib.suppress(DamagedIndex):
                self._file = CheckedFile(path, recorded.get(path.name))

    def open(self, *, wait: bool = False) -> Approximate | None:
        if self._file is not None and self._file.sound(wait=wait):
            self._opened = open_companion(self._file.path)
            self._file = None
        return self._opened


def _nearest_approximate(
    companion: Approximate, file: VectorFile, queries: npt.NDArray[np.float32], k: int, removed: bytearray | None
) -> list[tuple[Sequence[int], Sequence[float]]]:
    """Exact after all where so many of the nearest are removed that too few are left."""
    scores, places = companion.search(queries, 2 * k if removed else k)
    out: list[tuple[Sequence[int], Sequence[float]]] = []
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
