"""What `--index` names, opened. This is the only place that decides what kind of search a place is.

docs.sq                               an index in a folder
postgres://…, opensearch+https://…,
qdrant+https://…, lance:…             an index in a backend (`retrieval.locations`)
http://HOST:PORT/retrieve             a server that speaks Search-R1's protocol
web://                                the web search of the settings or the environment
simulated:MODEL                       documents that a model writes (ZeroSearch)
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..tools.tool_options import ToolOptions
from .engines import open_engine

if TYPE_CHECKING:
    from ..retrieval.search import Mode, Search

SIMULATED = "simulated:"
WEB = "web://"
NO_WEB = "set tools.web, SEARXNG_URL, SERPER_API_KEY, TAVILY_API_KEY or BRAVE_API_KEY"


def open_search(place: str, *, mode: Mode | None = None, tools: ToolOptions | None = None) -> Search:
    """The search at a place. `mode` is for indexes; `tools` says which web search `web://` is."""
    if place.startswith(SIMULATED):
        from ..systems.baselines.zerosearch import SimulatedSearch

        return SimulatedSearch(open_engine(place.removeprefix(SIMULATED), part="simulated search"))
    if place == WEB:
        web = (tools or ToolOptions()).search()
        if web is None:
            raise UsageError(f"--index {WEB} needs a web search: {NO_WEB}")
        return web
    from ..retrieval.locations import is_backend, open_place

    if place.startswith(("http://", "https://")):
        from ..retrieval.remote import RemoteSearch

        return RemoteSearch(place)
    if "://" in place or is_backend(place):
        return open_place(place, mode=mode or "auto")
    from ..retrieval.index import Index

    index = Index.open(Path(place).expanduser(), mode=mode or "auto")
    if mode in ("dense", "hybrid") and not index.info().vectors:
        index.close()
        raise UsageError(
            f"--mode {mode}: {place} has no vectors; make them with: subquest index embed {shlex.quote(str(place))}"
        )
    return index


def check_search(place: str | None, *, mode: Mode | None = None, tools: ToolOptions | None = None) -> None:
    """Refuse a place that cannot be opened, before a model is loaded or a run begins."""
    if place and not place.startswith(SIMULATED):  # a model is loaded only when it is used
        close_search(open_search(place, mode=mode, tools=tools))


def close_search(search: Search | None) -> None:
    """Close what holds files or connections: indexes of all kinds do."""
    if (close := getattr(search, "close", None)) is not None:
        close()
