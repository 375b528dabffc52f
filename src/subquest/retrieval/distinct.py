"""Near-identical passages: of several copies of a text only the best-ranked is kept.

Two passages are near-identical when their sets of SHINGLE consecutive terms have a Jaccard similarity (common over all)
of at least SIMILAR. Texts shorter than a shingle are compared as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..record import Hit
from .analysis import Analysis

SHINGLE = 4
SIMILAR = 0.8


def shingles(text: str, analysis: Analysis) -> frozenset[tuple[bytes, ...]]:
    terms = analysis.terms(text)
    return frozenset(tuple(terms[i : i + SHINGLE]) for i in range(max(1, len(terms) - SHINGLE + 1)))


def distinct(hits: Sequence[Hit], k: int, analysis: Analysis) -> list[Hit]:
    """The first k hits that are not near-identical to one before."""
    kept: list[Hit] = []
    seen: list[frozenset[tuple[bytes, ...]]] = []
    for hit in hits:
        if len(kept) == k:
            break
        own = shingles(hit.document.text, analysis)
        if all(len(own & other) < SIMILAR * len(own | other) for other in seen):
            kept.append(hit)
            seen.append(own)
    return kept
