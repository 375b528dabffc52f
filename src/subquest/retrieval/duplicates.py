"""Near-identical passages: of several copies of a text only the best-ranked is kept.

Two passages are near-identical when their sets of SHINGLE consecutive terms have a Jaccard similarity (common over all)
of at least SIMILAR. Texts shorter than a shingle are compared as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..record import Hit
from .analysis import Analysis

SHINGLE = 4
SIMILAR = 0.8
DEEPEST = 4096
"""Results that are looked at, about; a search for k others among more copies than that gives up."""

Searching = Callable[[Sequence[str], int], list[list[Hit]]]
"""Gives the best so many documents of each query."""


def shingles(text: str, analysis: Analysis) -> frozenset[tuple[bytes, ...]]:
    terms = analysis.terms(text)
    return frozenset(tuple(terms[i : i + SHINGLE]) for i in range(max(1, len(terms) - SHINGLE + 1)))


def distinct_many(search: Searching, queries: Sequence[str], k: int, analysis: Analysis) -> list[list[Hit]]:
    """The best k of each query without near-identical ones; where many are alike, it is searched deeper for others."""
    found: list[list[Hit]] = [[] for _ in queries]
    waiting, depth = list(range(len(queries))), 3 * k
    while waiting:
        again = []
        for i, hits in zip(waiting, search([queries[i] for i in waiting], depth), strict=True):
            found[i] = distinct(hits, k, analysis)
            if len(found[i]) < k and len(hits) >= depth:
                again.append(i)
        waiting = again if depth < DEEPEST else []
        depth *= 4
    return found


def distinct(hits: Sequence[Hit], k: int, analysis: Analysis) -> list[Hit]:
    """The first k hits that are not near-identical to one before."""
    kept: list[Hit] = []
    seen: list[frozenset[tuple[bytes, ...]]] = []
    for hit in hits:
        if len(kept) == k:
            break
        own = shingles(hit.document.text or hit.document.title, analysis)
        if all(len(own & other) < SIMILAR * len(own | other) for other in seen):
            kept.append(hit)
            seen.append(own)
    return kept
