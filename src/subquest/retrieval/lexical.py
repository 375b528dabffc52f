"""Lexical search: the best documents by BM25 over the segments of an index, exact.

The C kernel does the work where it can be had; otherwise every posting of every term is added up here, with the same
result. Removed documents count in none of the formula's numbers. Ties go to the document that was added first.
"""

from __future__ import annotations

import heapq
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from . import kernel
from .bm25 import BM25, ONE, Scored, idf
from .kernel import KernelSegment
from .segment import PythonSegment

_CACHED_TERMS = 1 << 17


class Removed:
    """The removed documents of one segment: a bit a local number."""

    def __init__(self, segment: KernelSegment | PythonSegment, numbers: Sequence[int]) -> None:
        self.bits = bytearray((segment.documents + 63) // 64 * 8)
        self.count = 0
        self.length = 0
        for number in numbers:
            local = bisect_left(segment.numbers, number)
            if local < segment.documents and segment.numbers[local] == number:
                self.bits[local >> 3] |= 1 << (local & 7)
                self.count += 1
                self.length += segment.lengths[local]


class Part(NamedTuple):
    """A segment and what was removed from it since it was written."""

    segment: KernelSegment | PythonSegment
    removed: Removed | None


class _Term(NamedTuple):
    documents: int
    """Live documents with the term."""
    numbers: tuple[int, ...]
    """The term's number in each segment, -1 for none."""


class Lexical:
    """The segments of one generation as one searchable whole."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)
        self.documents = sum(p.segment.documents - (p.removed.count if p.removed else 0) for p in parts)
        self.total_length = sum(p.segment.total_length - (p.removed.length if p.removed else 0) for p in parts)
        self.average = self.total_length / self.documents if self.total_length else 1.0
        self._terms: dict[bytes, _Term] = {}

    def term(self, term: bytes) -> _Term:
        """Where the term stands; remembered, because queries repeat terms."""
        found = self._terms.get(term)
        if found is None:
            numbers = tuple(part.segment.find(term) for part in self.parts)
            documents = sum(
                part.segment.live(number, part.removed.bits if part.removed else None)
                for part, number in zip(self.parts, numbers, strict=True)
                if number >= 0
            )
            if len(self._terms) >= _CACHED_TERMS:
                self._terms.clear()
            found = self._terms[term] = _Term(documents, numbers)
        return found

    def weigh(self, terms: Sequence[bytes]) -> tuple[list[float], list[tuple[int, ...]]]:
        """n(t, q) · idf(t) of the query's terms that some document has, and their numbers in the segments."""
        weights, numbers = [], []
        for term, times in Counter(terms).items():
            n, where = self.term(term)
            if n:
                weights.append(times * idf(self.documents, n))
                numbers.append(where)
        return weights, numbers

    def top(
        self, queries: Sequence[Sequence[bytes]], k: int, bm25: BM25, hidden: Sequence[bytearray | None] | None = None
    ) -> list[list[Scored]]:
        """The best k documents of each query, best first.

        `hidden` are the documents that may not be found, a bit each, per segment; the removed ones unless given.
        """
        if not self.parts or not queries:
            return [[] for _ in queries]
        weighed = [self.weigh(terms) for terms in queries]
        bits = hidden or [part.removed.bits if part.removed else None for part in self.parts]
        segments = [part.segment for part in self.parts]
        if all(isinstance(segment, KernelSegment) for segment in segments):
            found = kernel.search(
                segments,  # type: ignore[arg-type]
                bits,
                weighed,
                k=k,
                k1=bm25.k1,
                b=bm25.b,
                average=self.average,
                threads=min(len(queries), len(os.sched_getaffinity(0))),
            )
        else:
            found = [self._plain(weights, numbers, k, bm25, bits) for weights, numbers in weighed]
        return [[Scored(number, score / ONE) for number, score in best] for best in found]

    def _plain(
        self,
        weights: Sequence[float],
        numbers: Sequence[Sequence[int]],
        k: int,
        bm25: BM25,
        hidden: Sequence[bytearray | None],
    ) -> list[tuple[int, int]]:
        """The search without the kernel: every posting of every term."""
        best: list[tuple[int, int]] = []
        for s, part in enumerate(self.parts):
            segment, bits = part.segment, hidden[s]
            assert isinstance(segment, PythonSegment)
            scores: dict[int, int] = {}
            for weight, where in zip(weights, numbers, strict=True):
                if where[s] < 0:
                    continue
                for local, frequency in segment.postings(where[s]):
                    addend = bm25.addend(weight, frequency, segment.lengths[local], self.average)
                    scores[local] = scores.get(local, 0) + addend
            best += (
                (-score, segment.numbers[local])
                for local, score in scores.items()
                if bits is None or not bits[local >> 3] >> (local & 7) & 1
            )
            best = heapq.nsmallest(k, best)
        return [(number, -score) for score, number in best]
