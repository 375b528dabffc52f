"""The replay log: what models and searches returned to running episodes, so that an interrupted one can be resumed.

Every turn is logged as it happens, under the episode's name. A resumed episode makes the same requests in the same
order and gets the logged replies, token for token, up to the point where it was interrupted; from there it asks the
model. When an episode finishes, its entries are deleted.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ..cache import Cache, CachedEngine, CachedSearch
from ..engine import Engine
from ..retrieval.search import Search

MAX_BYTES = 256_000_000
log = logging.getLogger("subquest.serve")


class ReplayLog:
    """The replay log of one server."""

    def __init__(self, path: Path) -> None:
        self._cache = Cache(path, max_bytes=MAX_BYTES)

    def engines(self, name: str, engines: Mapping[str, Engine]) -> dict[str, Engine]:
        """Engines that log their replies in an episode, and repeat what is logged."""
        entries = cast(Cache, _Entries(self._cache, name))
        return {role: CachedEngine(engine, entries, sampled=True) for role, engine in engines.items()}

    def search(self, name: str, search: Search | None) -> Search | None:
        return CachedSearch(search, cast(Cache, _Entries(self._cache, name))) if search is not None else None

    def forget(self, name: str) -> None:
        """Delete the entries of an episode. On a full disk they stay until newer ones push them out."""
        try:
            self._cache.clear(name)
        except sqlite3.Error as error:
            log.warning("the replies of %s cannot be deleted: %s", name, error)

    def close(self) -> None:
        self._cache.close()


class _Entries:
    """The entries of one episode: its name is their kind in the cache."""

    def __init__(self, cache: Cache, name: str) -> None:
        self._cache, self._name = cache, name

    def get(self, kind: str, key: Any, *, max_age: float | None = None) -> Any | None:
        return self._cache.get(self._name, [self._name, kind, key], max_age=max_age)

    def put(self, kind: str, key: Any, value: Any) -> None:
        self._cache.put(self._name, [self._name, kind, key], value)
