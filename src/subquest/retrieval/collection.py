"""What a searchable collection of documents offers, wherever it is stored: the base of `Index` and of `Backend`."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..record import Hit
from . import titles
from .analysis import Analysis
from .bm25 import BM25
from .encoder import Encoder, EncoderSpec, open_encoder
from .filters import Filter
from .frameworks import Retrievers
from .search import Mode, check_request

if TYPE_CHECKING:
    from typing import Self

_DEPTHS = {"auto": titles.NAMED_DEPTH, "linked": titles.LINKED_DEPTH}
"""How many results are reordered, by mode."""

SHINGLE = 4
SIMILAR = 0.8
DEEPEST = 4096
"""About how many results are compared; a search for k distinct ones among more duplicates than that gives up."""


class Collection(Retrievers, ABC):
    """Documents that can be searched. Threads may share it; `close` it, or use it in a `with` block."""

    analysis: Analysis

    def __init__(self, mode: Mode) -> None:
        self.mode: Mode = mode
        """The mode of searches that do not name one."""
        self._encoder: Encoder | None = None
        self._encoder_lock = threading.Lock()

    @property
    @abstractmethod
    def name(self) -> str: ...

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        mode: Mode | None = None,
        where: Filter | None = None,
        distinct: bool = False,
        bm25: BM25 | None = None,
    ) -> list[Hit]:
        """The best k documents, best first; see `search_many`."""
        return self.search_many([query], k, mode=mode, where=where, distinct=distinct, bm25=bm25)[0]

    def search_many(
        self,
        queries: Sequence[str],
        k: int = 10,
        *,
        mode: Mode | None = None,
        where: Filter | None = None,
        distinct: bool = False,
        bm25: BM25 | None = None,
    ) -> list[list[Hit]]:
        """The best k documents of each query, best first.

        mode: bm25, dense or hybrid (both); auto (hybrid where there are vectors, else bm25, and first what the query
        names by its title); linked (results that name each other first, for questions of several hops). where: only
        documents whose metadata have these values (a list: one of them). distinct: leave out near-identical passages.
        bm25: other parameters than the stored ones.
        """
        mode = mode or self.mode
        check_request(queries, k, mode)
        if distinct:
            search = partial(self.search_many, mode=mode, where=where, bm25=bm25)
            return search_distinct(search, queries, k, self.analysis)
        hits = self._hits(queries, k, max(k, _DEPTHS.get(mode, k)), mode, where, bm25)
        if mode == "linked":
            return [
                titles.linked_first(query, row, self.analysis)[:k] for query, row in zip(queries, hits, strict=True)
            ]
        return hits

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The Search protocol: `search_many` in a thread of its own."""
        return await asyncio.to_thread(self.search_many, list(queries), k)

    @property
    def encoder(self) -> Encoder:
        """The encoder of the stored vectors, opened when it is first needed."""
        with self._encoder_lock:
            if self._encoder is None:
                spec = self._encoder_spec()
                if spec is None:
                    raise UsageError(self._no_vectors())
                self._encoder = open_encoder(spec)
            return self._encoder

    @property
    def encoder_url(self) -> str:
        """Where the queries of a search are sent to be encoded; empty if that happens in this process."""
        spec = self._encoder_spec() if self.mode != "bm25" else None
        return spec.url if spec is not None else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def _hits(
        self, queries: Sequence[str], k: int, depth: int, mode: Mode, where: Filter | None, bm25: BM25 | None
    ) -> list[list[Hit]]:
        """The best documents of each query: k in mode auto, what a query names first; up to `depth` otherwise."""

    @abstractmethod
    def _encoder_spec(self) -> EncoderSpec | None: ...

    @abstractmethod
    def _no_vectors(self) -> str:
        """The error message where a search needs vectors and there are none."""

    @abstractmethod
    def close(self) -> None:
        """Release files and connections. Closing twice is harmless."""


def search_distinct(
    search: Callable[[Sequence[str], int], list[list[Hit]]], queries: Sequence[str], k: int, analysis: Analysis
) -> list[list[Hit]]:
    """The best k of each query without near-identical ones; where there are many of those, deeper results are used."""
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
    """The first k hits that are not near-identical to an earlier one.

    Near-identical: the sets of SHINGLE consecutive terms have a Jaccard similarity (common over all) of at least
    SIMILAR. Texts shorter than a shingle are compared as a whole.
    """
    kept: list[Hit] = []
    seen: list[frozenset[tuple[bytes, ...]]] = []
    for hit in hits:
        if len(kept) == k:
            break
        terms = analysis.terms(hit.document.text or hit.document.title)
        own = frozenset(tuple(terms[i : i + SHINGLE]) for i in range(max(1, len(terms) - SHINGLE + 1)))
        if all(len(own & other) < SIMILAR * len(own | other) for other in seen):
            kept.append(hit)
            seen.append(own)
    return kept
