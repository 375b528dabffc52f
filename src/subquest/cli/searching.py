"""What `--index` names: an index, a backend, a server, the web, or documents that a model writes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UsageError

if TYPE_CHECKING:
    from ..config import Config
    from ..record import Hit
    from ..retrieval.backends import Backend
    from ..retrieval.index import Index
    from ..retrieval.search import Search

SIMULATED = "simulated:"
NO_WEB = "set tools.web, SEARXNG_URL, SERPER_API_KEY, TAVILY_API_KEY or BRAVE_API_KEY"


def open_search(place: str, config: Config, mode: str | None = None) -> Search:
    """What `--index` names.

    An index (a folder, or a backend's address: `retrieval/locations.py`), the URL of a server that speaks Search-R1's
    protocol, `web://` for the web search of the settings or the environment, or `simulated:MODEL` for documents that a
    model writes (ZeroSearch).
    """
    if place.startswith(SIMULATED):
        from ..engine.resolve import resolve
        from ..systems.baselines.zerosearch import SimulatedSearch

        engine = resolve(place.removeprefix(SIMULATED))
        if isinstance(engine, Mapping):
            raise UsageError(f"--index {place}: name one model, not one a role")
        return SimulatedSearch(engine)
    if place == "web://":
        from .agent import tool_options

        web = tool_options(config).search()
        if web is None:
            raise UsageError(f"--index web:// needs a web search: {NO_WEB}")
        return web
    from ..retrieval.locations import is_backend, open_place

    if "://" in place and not is_backend(place):
        from ..retrieval.remote import RemoteSearch

        return RemoteSearch(place)
    index = open_place(place)
    check_mode(index, place, mode)
    return InMode(index, mode) if mode else index


def check_mode(index: Index | Backend, place: str, mode: str | None) -> None:
    """Refuse a search by vectors that the index does not have, before a model has asked for one."""
    from ..retrieval import Index

    if mode in ("dense", "hybrid") and isinstance(index, Index) and not index.info().vectors:
        index.close()
        raise UsageError(f"--mode {mode}: {place} has no vectors; make them with: subquest index embed {place}")


class InMode:
    """An index searched in one mode."""

    def __init__(self, index: Index | Backend, mode: str) -> None:
        self._index = index
        self._mode: Any = mode

    @property
    def name(self) -> str:
        return f"{self._index.name} ({self._mode})"

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        return await asyncio.to_thread(self._index.search_many, queries, k, mode=self._mode)

    def close(self) -> None:
        self._index.close()
