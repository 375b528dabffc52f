"""A small BM25 ranking in plain Python, for the site's search and for tests without an index."""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from ..record import Document, Hit


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


class Ranking:
    """BM25 (Lucene's idf, k1 1.2, b 0.75) over texts with ids."""

    def __init__(self, texts: Iterable[tuple[str, str]], k1: float = 1.2, b: float = 0.75) -> None:
        self.ids: list[str] = []
        counts: list[Counter[str]] = []
        for id_, text in texts:
            self.ids.append(id_)
            counts.append(Counter(words(text)))
        lengths = [sum(c.values()) for c in counts]
        mean = sum(lengths) / max(1, len(lengths))
        frequency = Counter(w for c in counts for w in c)
        self._postings: dict[str, list[tuple[int, float]]] = {}
        for i, (count, length) in enumerate(zip(counts, lengths, strict=True)):
            norm = k1 * (1 - b + b * length / mean)
            for word, tf in count.items():
                idf = math.log(1 + (len(counts) - frequency[word] + 0.5) / (frequency[word] + 0.5))
                self._postings.setdefault(word, []).append((i, idf * tf * (k1 + 1) / (tf + norm)))

    def top(self, query: str, k: int) -> list[tuple[str, float]]:
        """The best k ids with their scores, best first; equal scores in the order the texts came."""
        scores: dict[int, float] = {}
        for word in words(query):
            for i, score in self._postings.get(word, ()):
                scores[i] = scores.get(i, 0.0) + score
        best = heapq.nsmallest(k, scores.items(), key=lambda item: (-item[1], item[0]))
        return [(self.ids[i], score) for i, score in best]


class PlainSearch:
    """A `Search` over documents in memory, without an index on disk and without numpy."""

    def __init__(self, documents: Iterable[Document], name: str = "bm25") -> None:
        self.name = name
        self._documents = {d.id: d for d in documents}
        self._ranking = Ranking((d.id, f"{d.title} {d.text}") for d in self._documents.values())

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        return [[Hit(self._documents[i], score) for i, score in self._ranking.top(q, k)] for q in queries]
