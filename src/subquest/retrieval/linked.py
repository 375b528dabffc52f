"""Linked passages: a result that the question or another result names by its title is likelier to be needed.

A question of several hops names the first thing and not the second: *where was the designer of the Orvane Bridge born?*
finds the bridge, and only the bridge's passage says who designed it. So among the first DEPTH results

    score(i) = rank score (0 to 1) + IN_QUESTION · [title of i stands in the question]
                                   + VOUCHED · [it does not] · the best such score of a result whose text has that title

with the title in the words of the index's analysis and without what stands in brackets at its end. The two weights were
chosen on dev questions (docs/search.md). It takes no model and a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..record import Hit
from .analysis import Analysis
from .titles import title_words, words

DEPTH = 100
IN_QUESTION = 0.7
VOUCHED = 0.6


def linked(query: str, hits: Sequence[Hit], analysis: Analysis) -> list[Hit]:
    """The hits in a new order, with new scores; equal ones keep their order."""
    if not hits:
        return []
    scores = [hit.score for hit in hits]
    low, span = min(scores), (max(scores) - min(scores)) or 1.0
    titles = [title_words(hit.document.title, analysis) for hit in hits]
    texts = [words(hit.document.text, analysis) for hit in hits]
    question = words(query, analysis)
    named = [bool(title) and title in question for title in titles]
    base = [(score - low) / span + IN_QUESTION * asked for score, asked in zip(scores, named, strict=True)]
    new = []
    for title, asked, own in zip(titles, named, base, strict=True):
        best = 0.0
        if title and not asked:
            for other, text, vouching in zip(titles, texts, base, strict=True):
                if vouching > best and other != title and title in text:
                    best = vouching
        new.append(own + VOUCHED * min(1.0, best))
    order = sorted(range(len(hits)), key=lambda i: -new[i])
    return [Hit(hits[i].document, new[i]) for i in order]


class Linked:
    """The same as a reranker: `Reranked(search, Linked(), depth=100)`."""

    def __init__(self, analysis: Analysis | None = None) -> None:
        self._analysis = analysis or Analysis()

    async def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        return linked(query, hits, self._analysis)
