"""Searches through the cache."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..codec import from_dict, to_dict
from ..record import Hit
from .cache_file import Cache, Identified

if TYPE_CHECKING:
    from ..retrieval.search import Search


class CachedHits(list[Hit]):
    """The hits of one query; `cached` tells whether they came from the cache."""

    def __init__(self, hits: Sequence[Hit], cached: bool) -> None:
        super().__init__(hits)
        self.cached = cached


class CachedSearch:
    """A search that sends only queries it has not sent before; the rest of a batch goes out in one call.

    Searches that do not declare what decides results (`Identified`) are not cached: stale hits are worse than none.
    """

    def __init__(self, search: Search, cache: Cache, *, max_age: float | None = None) -> None:
        """`max_age` in seconds is for searches whose content changes, such as the web."""
        self.search = search
        self.cache = cache
        self.max_age = max_age

    @property
    def name(self) -> str:
        return self.search.name

    @property
    def encoder_url(self) -> str:
        return str(getattr(self.search, "encoder_url", ""))

    @property
    def tables(self) -> Any:
        return getattr(self.search, "tables", None)

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        if not isinstance(self.search, Identified):
            return await self.search.retrieve(queries, k)
        identity = dict(self.search.identity)
        keys = [{"search": identity, "query": query, "k": k} for query in queries]
        stored = await asyncio.to_thread(lambda: [self.cache.get("search", key, max_age=self.max_age) for key in keys])
        missing = [i for i, found in enumerate(stored) if found is None]
        results: list[list[Hit]] = [
            CachedHits([from_dict(Hit, h) for h in found or ()], cached=True) for found in stored
        ]
        if missing:
            fresh = await self.search.retrieve([queries[i] for i in missing], k)
            unchanged = dict(self.search.identity) == identity
            for i, hits in zip(missing, fresh, strict=True):
                results[i] = CachedHits(hits, cached=False)
                if unchanged:  # else the hits may belong to a later state than the key says
                    await asyncio.to_thread(self.cache.put, "search", keys[i], [to_dict(h) for h in hits])
        return results
