"""An optional on-disk cache of model, search and page calls.

One SQLite file in WAL mode, safe for many threads and processes. A call's key is the SHA-256 of the canonical JSON of
everything that decides its result; failures never get here, because only results are stored. The file keeps below
`max_bytes`: what was not used for longest goes first.

    cache = Cache("cache.sqlite")
    engine = CachedEngine(engine, cache)
    search = CachedSearch(search, cache)
    page = await cache.call("page", {"url": url}, fetch, max_age=86_400)
"""

from .cache_file import Cache, CacheStats, Identified
from .cached_engine import CachedEngine, CachedSession, Resumable
from .cached_search import CachedHits, CachedSearch

__all__ = [
    "Cache",
    "CacheStats",
    "CachedEngine",
    "CachedHits",
    "CachedSearch",
    "CachedSession",
    "Identified",
    "Resumable",
]
