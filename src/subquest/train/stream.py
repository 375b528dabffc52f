"""The order of training questions: shuffled anew in each epoch, the same for a seed, resumable from a position."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Generic, TypeVar

from ..errors import UsageError

T = TypeVar("T")


def drawn(items: Sequence[T], count: int, seed: int) -> list[T]:
    """So many of the items, drawn uniformly and kept in their order; all of them for 0."""
    if not count or count >= len(items):
        return list(items)
    places = sorted(random.Random(f"{seed}/sample").sample(range(len(items)), count))
    return [items[place] for place in places]


class Stream(Generic[T]):
    """An endless stream over a finite set. `position` is all the state there is."""

    def __init__(self, items: Sequence[T], seed: int, *, position: int = 0) -> None:
        if not items:
            raise UsageError("there is nothing to train on: the data is empty")
        self._items = items
        self._seed = seed
        self._order: list[int] = []
        self._epoch = -1
        self.position = position

    def take(self, count: int) -> list[T]:
        """The next items; an epoch's end is no boundary."""
        taken = [self._at(self.position + i) for i in range(count)]
        self.position += count
        return taken

    @property
    def epoch(self) -> float:
        """Passes over the items so far."""
        return self.position / len(self._items)

    def _at(self, position: int) -> T:
        epoch, place = divmod(position, len(self._items))
        if epoch != self._epoch:
            self._order = list(range(len(self._items)))
            random.Random(f"{self._seed}/{epoch}").shuffle(self._order)
            self._epoch = epoch
        return self._items[self._order[place]]
