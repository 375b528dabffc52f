"""The cells of the model's cache: what they hold of each session, and what is dropped when they run out.

There is a fixed number of cells. The caches of closed and then of idle sessions are dropped, least recently used first.
What was dropped is read again when it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .model import Model

WORTH_SHARING = 16
"""Shorter common prefixes are read again instead of being waited for or copied."""

KEPT = 4
"""Prompts of closed sessions that stay in the cache: about one per role, because each used cell slows every pass."""


@dataclass(eq=False, slots=True)
class CacheEntry:
    """What the cache holds of one session. Only the scheduler's thread changes it."""

    ids: list[int] = field(default_factory=list)
    """Tokens in the cache, from the first on."""
    slot: int | None = None
    """Number of the llama.cpp sequence, None while nothing is cached."""
    used: int = 0
    """Step of the last use."""


class CellCache:
    """Used by the scheduler's thread alone."""

    def __init__(self, model: Model) -> None:
        self.idle: list[CacheEntry] = []
        """Entries with a slot and no running job, of open or closed sessions."""
        self.clock = 0
        """Steps so far."""
        self._model = model
        self._closed: set[CacheEntry] = set()
        self._slots = list(range(model.sequences))

    @property
    def has_slot(self) -> bool:
        """Whether a sequence is free."""
        return bool(self._slots)

    def take_slot(self, entry: CacheEntry) -> None:
        entry.slot = self._slots.pop()
        entry.ids = []

    def share(self, source: CacheEntry, target: CacheEntry, length: int) -> None:
        """Give an entry the first cells of another, in place of its own."""
        assert source.slot is not None
        assert target.slot is not None
        self._model.drop(target.slot)
        self._model.copy(source.slot, target.slot, length)
        target.ids = source.ids[:length]
        source.used = target.used = self.clock

    def truncate(self, entry: CacheEntry, length: int) -> None:
        if length < len(entry.ids):
            assert entry.slot is not None
            self._model.drop(entry.slot, length)
            del entry.ids[length:]

    def close(self, entry: CacheEntry, keep: int) -> None:
        """The session of an entry was closed: its first `keep` tokens stay if no other entry has them."""
        self.truncate(entry, keep)
        others = [other for other in self.idle if other is not entry]
        if len(entry.ids) < WORTH_SHARING or any(other.ids[: len(entry.ids)] == entry.ids for other in others):
            self.evict(entry)
        else:
            self._closed.add(entry)
            if len(self._closed) > KEPT:
                self.evict(min(self._closed, key=lambda kept: kept.used))

    def evict_idle(self) -> bool:
        """Drop what is least likely to be needed: closed sessions first, then the least recently used."""
        if not self.idle:
            return False
        self.evict(min(self.idle, key=lambda entry: (entry not in self._closed, entry.used)))
        return True

    def evict(self, entry: CacheEntry) -> None:
        assert entry.slot is not None
        self._model.drop(entry.slot)
        self._slots.append(entry.slot)
        entry.slot = None
        entry.ids = []
        self.idle.remove(entry)
        self._closed.discard(entry)


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the common prefix."""
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    low, high = 0, n  # a[:low] == b[:low], a[:high] != b[:high]
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low
