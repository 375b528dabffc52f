"""BM25: the one place of the formula and its two parameters.

    score(q, d)  = sum over terms t of q:  n(t, q) · idf(t) · saturation(f, |d|)
    idf(t)       = ln(1 + (N - n(t) + 0.5) / (n(t) + 0.5))
    saturation   = f / (f + k1 · (1 - b + b · |d| / average |d|))

This is the form that Lucene ranks by. f is how often t occurs in d, |d| the number of terms of d, N the number of
documents, n(t) the number of documents with t, and n(t, q) how often the query has t.

Each addend is rounded to a multiple of 1 / ONE and the sum is kept in integers. Integer sums do not depend on the order
of addition, so the C kernel, its Python fallback (`lexical`), PostgreSQL (`backends.sql_bm25`) and any split into
segments agree to the last bit, and equal documents tie exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import UsageError

ONE = 4294967296.0
"""Scores are kept as multiples of 1 / ONE."""


@dataclass(frozen=True, slots=True)
class BM25:
    """The parameters of the formula; the defaults were chosen on dev questions, see docs/search.md."""

    k1: float = 1.2
    """How soon repetitions of a term stop counting; 0 ignores them."""
    b: float = 0.75
    """How much long documents are penalised; 0 not at all, 1 in full."""

    def __post_init__(self) -> None:
        if not (0 <= self.k1 < math.inf and 0 <= self.b <= 1):
            raise UsageError(f"BM25 needs k1 of at least 0 and b from 0 to 1, not k1 = {self.k1}, b = {self.b}")

    def norm(self, length: int, average: float) -> float:
        """The part of the denominator that depends on the document's length alone."""
        return self.k1 * (1.0 - self.b + self.b * length / average)

    def addend(self, weight: float, frequency: int, length: int, average: float) -> int:
        """One addend of a score in units of 1 / ONE; `weight` is n(t, q) · idf(t)."""
        return int(weight * frequency / (frequency + self.norm(length, average)) * ONE + 0.5)


def idf(documents: int, containing: int) -> float:
    """The weight of a term that `containing` of `documents` documents have."""
    return math.log(1 + (documents - containing + 0.5) / (containing + 0.5))


class Scored(NamedTuple):
    """A document's number and its score."""

    number: int
    score: float
