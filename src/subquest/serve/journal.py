"""The journal: what running episodes were told by models and searches, so that an interrupted one can go on.

Every turn is written down as it comes, under the episode's name. A resumed episode asks the same questions in the same
order and is given what was said before, token for token, until it reaches the point where it was cut off; from there it
asks the model. When an episode ends by itself its pages are torn out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ..cache import Cache, CachedEngine, CachedSearch
from ..engine import Engine
from ..retrieval.search import Search

MAX_BYTES = 256_000_000


class Journal:
    """The journal of one server."""

    def __init__(self, path: Path) -> None:
        self._cache = Cache(path, max_bytes=MAX_BYTES)

    def engines(self, name: str, engines: Mapping[str, Engine]) -> dict[str, Engine]:
        """Engines that write down what they say in an episode, and repeat what is written."""
        pages = cast(Cache, _Pages(self._cache, name))
        return {role: CachedEngine(engine, pages, sampled=True) for role, engine in engines.items()}

    def search(self, name: str, search: Search | None) -> Search | None:
        return CachedSearch(search, cast(Cache, _Pages(self._cache, name))) if search is not None else None

    def forget(self, name: str) -> None:
        self._cache.clear(name)

    def close(self) -> None:
        self._cache.close()


class _Pages:
    """The part of the cache that belongs to one episode: its name is the kind of all its entries."""

    def __init__(self, cache: Cache, name: str) -> None:
        self._cache, self._name = cache, name

    def get(self, kind: str, key: Any, *, max_age: float | None = None) -> Any | None:
        return self._cache.get(self._name, [self._name, kind, key], max_age=max_age)

    def put(self, kind: str, key: Any, value: Any) -> None:
        self._cache.put(self._name, [self._name, kind, key], value)
