"""The search protocol that systems stand on: queries in, ranked documents out, in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ..record import Hit


@runtime_checkable
class Search(Protocol):
    """Anything that can be searched."""

    @property
    def name(self) -> str: ...

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The best k documents of each query, best first. Raises SearchError when the backend fails."""
        ...
