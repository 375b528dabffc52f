"""What may be asked of a search, checked before anything is done: the same for our own index and for backends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from ..errors import UsageError

Mode = Literal["auto", "bm25", "dense", "hybrid", "linked"]


def check(queries: Sequence[str], k: int, mode: str) -> None:
    """A UsageError where a search cannot be what was meant."""
    if isinstance(queries, str) or not all(isinstance(query, str) for query in queries):
        raise UsageError(f"queries must be a list of texts, not {queries!r:.100}")
    if not isinstance(k, int) or k < 1:
        raise UsageError(f"k is {k!r}; ask for at least 1 document")
    if mode not in get_args(Mode):
        raise UsageError(f"unknown mode {mode!r}; choose one of {', '.join(get_args(Mode))}")


def check_ids(ids: Iterable[str]) -> list[str]:
    """The ids; a UsageError where they are none. A single text would be a list of ids of one letter each."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise UsageError(f"give a list of ids, not {ids!r:.100}")
    found = list(ids)
    for identifier in found:
        if not isinstance(identifier, str):
            raise UsageError(f"an id is a text, not {identifier!r:.100}")
    return found
