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
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from .segment import Posting, PythonSegment

ONE = 4294967296.0
"""Scores are kept as multiples of 1 / ONE."""


@dataclass(frozen=True, slots=True)
class BM25:
    """The two knobs of the formula; defaults chosen on the dev questions, see docs/search.md."""

    k1: float = 0.9
    """How soon repetitions of a term stop counting; 0 ignores them."""
    b: float = 0.4
    """How much long documents pay; 0 not at all, 1 in full."""


class Scored(NamedTuple):
    """A document's number and its score."""

    number: int
    score: float


class Segment(Protocol):
    """What search needs of a segment; the kernel's and the Python reader both have it."""

    documents: int
    total_length: int
    numbers: Sequence[int]
    lengths: Sequence[int]

    def find(self, term: bytes) -> int: ...
    def frequency(self, i: int) -> int: ...
    def close(self) -> None: ...


class Removed:
    """The removed documents of one segment: a bit a local number."""

    def __init__(self, segment: Segment, numbers: Sequence[int]) -> None:
        from bisect import bisect_left

        self.bits = bytearray((segment.documents + 63) // 64 * 8)
        self.count = 0
        self.length = 0
        for number in numbers:
            local = bisect_left(segment.numbers, number)
            if local < segment.documents and segment.numbers[local] == number:
                self.bits[local >> 3] |= 1 << (local & 7)
                self.count += 1
                self.length += segment.lengths[local]

    def __contains__(self, local: int) -> bool:
        return bool(self.bits[local >> 3] & 1 << (local & 7))


class Part(NamedTuple):
    """A segment and what was removed from it since it was written."""

    segment: PythonSegment
    removed: Removed | None


class Lexical:
    """The segments of one generation as one searchable whole."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)
        self.documents = sum(p.segment.documents - (p.removed.count if p.removed else 0) for p in parts)
        self.total_length = sum(p.segment.total_length - (p.removed.length if p.removed else 0) for p in parts)

    def frequency(self, term: bytes) -> int:
        """In how many live documents the term stands."""
        total = 0
        for segment, removed in self.parts:
            i = segment.find(term)
            if i < 0:
                continue
            if removed is None:
                total += segment.frequency(i)
            else:
                total += sum(posting.local not in removed for posting in segment.postings(i))
        return total

    def weights(self, terms: Sequence[bytes]) -> dict[bytes, float]:
        """n(t, q) · idf(t) of the query's terms that some document has."""
        out = {}
        for term, times in Counter(terms).items():
            n = self.frequency(term)
            if n:
                out[term] = times * math.log(1 + (self.documents - n + 0.5) / (n + 0.5))
        return out

    def top(self, terms: Sequence[bytes], k: int, bm25: BM25) -> list[Scored]:
        """The best k documents, best first."""
        weights = self.weights(terms)
        average = self.total_length / self.documents if self.documents else 1.0
        best: list[tuple[int, int]] = []
        for segment, removed in self.parts:
            scores: dict[int, int] = {}
            for term, weight in weights.items():
                i = segment.find(term)
                if i >= 0:
                    for local, frequency in segment.postings(i):
                        addend = contribution(weight, frequency, segment.lengths[local], average, bm25)
                        scores[local] = scores.get(local, 0) + addend
            best += (
                (-score, segment.numbers[local])
                for local, score in scores.items()
                if removed is None or local not in removed
            )
            best = heapq.nsmallest(k, best)
        return [Scored(number, -score / ONE) for score, number in best]

    def close(self) -> None:
        for segment, _ in self.parts:
            segment.close()


def contribution(weight: float, frequency: int, length: int, average: float, bm25: BM25) -> int:
    """One addend of the score in units of 1 / ONE."""
    norm = bm25.k1 * (1.0 - bm25.b + bm25.b * length / average)
    return int(weight * frequency / (frequency + norm) * ONE + 0.5)


__all__ = ["BM25", "Lexical", "Part", "Posting", "Removed", "Scored", "Segment"]
