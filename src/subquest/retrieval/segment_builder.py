"""Building segments: documents are collected in memory until they fill one; small ones are merged later."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from . import kernel
from .analysis import Analysis
from .segment import PythonBuilder
from .segment_files import SegmentRow

SEGMENT_DOCUMENTS = 1_000_000
SEGMENT_MEMORY = 400_000_000
"""A segment is full with this many documents, or when it takes this many bytes while it is being built."""
MERGE_AT = 8
"""This many adjacent segments of one size class are merged into one."""
MERGE_DOCUMENTS = 200_000
"""An add merges no more than this, so that it takes seconds; `compact` merges everything."""


class SegmentBuilder:
    """Turns documents into a segment file, with the kernel where it is available."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        found = kernel.library()
        self._kernel = kernel.KernelBuilder(found, stems=analysis.stems) if found else None
        self._plain = PythonBuilder() if found is None else None
        self.first = 0
        self.last = 0
        self.documents = 0

    def add(self, batch: Sequence[tuple[int, str, str]]) -> None:
        """Add documents by number, title and text; numbers ascend."""
        if not batch:
            return
        if self._kernel:
            texts = [self._analysis.document(title, text) for _, title, text in batch]
            self._kernel.add([row[0] for row in batch], texts)
        elif self._plain:
            for number, title, text in batch:
                self._plain.add(number, self._analysis.folded_terms(self._analysis.document(title, text)))
        self.first = self.first or batch[0][0]
        self.last = batch[-1][0]
        self.documents += len(batch)

    @property
    def full(self) -> bool:
        memory = self._kernel.memory if self._kernel else 0
        return self.documents >= SEGMENT_DOCUMENTS or memory >= SEGMENT_MEMORY

    def row(self, name: str) -> SegmentRow:
        """How its file is listed."""
        return SegmentRow(name, self.first, self.last, self.documents)

    def write(self, path: Path) -> None:
        (self._kernel or self._plain).write(path)  # type: ignore[union-attr]

    def close(self) -> None:
        """Free the memory."""
        if self._kernel:
            self._kernel.close()


def mergeable(segments: Sequence[SegmentRow]) -> list[SegmentRow]:
    """The newest segments, when MERGE_AT of them fall into one size class (powers of MERGE_AT) or below."""
    if not segments:
        return []
    size = MERGE_AT
    while size <= MERGE_DOCUMENTS:
        run: list[SegmentRow] = []
        for segment in reversed(segments):
            if segment.documents >= size:
                break
            run.insert(0, segment)
        if len(run) >= MERGE_AT and sum(s.documents for s in run) <= MERGE_DOCUMENTS:
            return run
        size *= MERGE_AT
    return []
