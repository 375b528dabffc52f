"""BM25 over segments, exact.

    score(q, d) = sum over terms t of q:  n(t, q) · idf(t) · f / (f + k1 · (1 - b + b · |d| / average |d|))
    idf(t)      = ln(1 + (N - n(t) + 0.5) / (n(t) + 0.5))

(the form Lucene ranks by): f is how often t stands in d, |d| the terms of d, N the live documents, n(t) those of them
with t, n(t, q) how often the query has t. Removed documents count in none of these.

Each addend is rounded to a multiple of 2**-32 and the sum is kept in integers. Integer sums do not depend on the order
of addition, so the pruned search of the kernel, the plain search here and any split into segments agree to the last
bit, and equal documents tie exactly; ties go to the document that was added first.
"""

from __future__ import annotations

import heapq
import math
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import UsageError
from . import kernel
from .kernel import KernelSegment
from .segment import PythonSegment

ONE = 4294967296.0
"""Scores are kept as multiples of 1 / ONE."""

_CACHED_TERMS = 1 << 17


@dataclass(frozen=True, slots=True)
class BM25:
    """The two knobs of the formula; defaults chosen on the dev questions, see docs/search.md."""

    k1: float = 1.2
    """How soon repetitions of a term stop counting; 0 ignores them."""
    b: float = 0.75
    """How much long documents pay; 0 not at all, 1 in full."""

    def __post_init__(self) -> None:
        if not (0 <= self.k1 < math.inf and 0 <= self.b <= 1):
            raise UsageError(f"BM25 needs k1 of at least 0 and b from 0 to 1, not k1 = {self.k1}, b = {self.b}")


class Scored(NamedTuple):
    """A document's number and its score."""

    number: int
    score: float


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
                weights.append(times * math.log(1 + (self.documents - n + 0.5) / (n + 0.5)))
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
                    addend = contribution(weight, frequency, segment.lengths[local], self.average, bm25)
                    scores[local] = scores.get(local, 0) + addend
            best += (
                (-score, segment.numbers[local])
                for local, score in scores.items()
                if bits is None or not bits[local >> 3] >> (local & 7) & 1
            )
            best = heapq.nsmallest(k, best)
        return [(number, -score) for score, number in best]


def contribution(weight: float, frequency: int, length: int, average: float, bm25: BM25) -> int:
    """One addend of the score in units of 1 / ONE."""
    norm = bm25.k1 * (1.0 - bm25.b + bm25.b * length / average)
    return int(weight * frequency / (frequency + norm) * ONE + 0.5)
