"""The search protocol that systems are built on: queries in, ranked documents out, in batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol, get_args, runtime_checkable

from ..errors import UsageError
from ..record import Hit

Mode = Literal["auto", "bm25", "dense", "hybrid", "linked"]
"""How our own index and the backends rank; `Collection.search_many` says what each does."""


@runtime_checkable
class Search(Protocol):
    """Anything that can be searched."""

    @property
    def name(self) -> str: ...

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The best k documents of each query, best first. Raises SearchError when the backend fails."""
        ...


def check_request(queries: Sequence[str], k: int, mode: str = "auto") -> None:
    """Raise UsageError for a search that cannot be meant."""
    if isinstance(queries, str) or not all(isinstance(query, str) for query in queries):
        raise UsageError(f"queries must be a list of strings, not {queries!r:.100}")
    if not isinstance(k, int) or k < 1:
        raise UsageError(f"k is {k!r}; ask for at least 1 document")
    if mode not in get_args(Mode):
        raise UsageError(f"unknown mode {mode!r}; choose one of {', '.join(get_args(Mode))}")


def check_ids(ids: Iterable[str]) -> list[str]:
    """The ids as a list; a UsageError for anything else, such as one string, which would be a list of letters."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise UsageError(f"give a list of ids, not {ids!r:.100}")
    found = list(ids)
    for identifier in found:
        if not isinstance(identifier, str):
            raise UsageError(f"an id must be a string, not {identifier!r:.100}")
    return found
