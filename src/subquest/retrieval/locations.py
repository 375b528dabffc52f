"""Where an index may be: what `--index` can name, and how it is opened.

docs.sq                                      a folder: our own index
postgres://host/database?collection=NAME     PostgreSQL with pgvector
opensearch+https://host:9200/INDEX           OpenSearch
qdrant+https://host:6333/COLLECTION          Qdrant
lance:FOLDER, lance:s3://bucket/path         LanceDB
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .index import Index
from .search import Mode
from .settings import Settings

if TYPE_CHECKING:
    from .backends import Backend

_BACKENDS = {
    "postgres://": ("postgres", "Postgres"),
    "postgresql://": ("postgres", "Postgres"),
    "opensearch+http": ("opensearch", "OpenSearch"),
    "qdrant+http": ("qdrant", "Qdrant"),
    "lance:": ("lance", "Lance"),
}


def is_backend(place: str | Path) -> bool:
    """Whether a place is the address of a backend, not a folder."""
    return str(place).startswith(tuple(_BACKENDS))


def open_place(place: str | Path, *, mode: Mode = "auto") -> Index | Backend:
    """Open the index at a place, for searching and for changing."""
    if is_backend(place):
        return backend_class(str(place)).open(str(place), mode=mode)
    _refuse_address(place)
    return Index.open(place, mode=mode)


def create_place(place: str | Path, settings: Settings) -> Index | Backend:
    """An empty index at a place, or the existing one if it was made with these settings."""
    if is_backend(place):
        return backend_class(str(place)).create(str(place), settings)
    _refuse_address(place)
    return Index.create(place, settings)


def shown(place: str, opened: Index | Backend) -> str:
    """A place as it can be printed: without a password."""
    return opened.name if is_backend(place) else place


def backend_class(place: str) -> type[Backend]:
    """The class of the backend with this address."""
    for start, (module, name) in _BACKENDS.items():
        if place.startswith(start):
            kind: Any = getattr(importlib.import_module(f".backends.{module}", __package__), name)
            return kind  # type: ignore[no-any-return]
    raise UsageError(f"{place} is not the address of a backend")


def _refuse_address(place: str | Path) -> None:
    if "://" in str(place):
        raise UsageError(
            f"{place}: an index is a folder, or postgres://..., opensearch+http://..., qdrant+http://..., lance:..."
        )
