"""Where a turn ends: end tokens and stop strings.

Checking every token of every row would cost more than the model. So all rows are filtered at once by token id: only a
token that contains the last byte of one of the row's stop strings can complete it, and only such rows are checked, byte
by byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .vocabulary import Vocabulary


class Stops:
    def __init__(self, vocabulary: Vocabulary, end_ids: Sequence[int]) -> None:
        self._vocabulary = vocabulary
        self.ends = np.zeros(vocabulary.size, np.bool_)
        self.ends[[i for i in end_ids if 0 <= i < vocabulary.size]] = True
        self._kinds: dict[frozenset[int], int] = {frozenset(): 0}
        self._table = np.zeros((1, vocabulary.size), np.bool_)

    def kind(self, stops: Sequence[str]) -> int:
        """The filter for these stop strings: the row of a table over the vocabulary."""
        last = frozenset(stop.encode()[-1] for stop in stops if stop)
        if last not in self._kinds:
            row = np.zeros(self._vocabulary.size, np.bool_)
            for byte in last:
                row |= self._vocabulary.containing(byte)
            self._table = np.vstack([self._table, row])
            self._kinds[last] = len(self._table) - 1
        return self._kinds[last]

    def may_end(self, kinds: np.ndarray[Any, Any], ids: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which rows sampled an end token or one that could complete a stop string."""
        result: np.ndarray[Any, np.dtype[np.bool_]] = self.ends[ids] | self._table[kinds, ids]
        return result

    def longest(self, stops: tuple[str, ...]) -> int:
        """Bytes of the longest stop string."""
        return _raw(stops).longest

    def text_of(self, ids: Sequence[int]) -> bytes:
        return self._vocabulary.bytes_of(ids)

    def completed(self, stops: Sequence[str], ids: Sequence[int]) -> str:
        """The stop string that the last of these tokens completed (the one that ends first), or an empty string."""
        if not stops:
            return ""
        longest, strings = _raw(tuple(stops))
        tail = self._vocabulary.bytes_of(ids[-longest - 1 : -1])[-longest:]
        text = tail + self._vocabulary.pieces[ids[-1]]
        found: list[tuple[int, int, str]] = []
        for raw, stop in strings:
            at = text.find(raw, max(0, len(tail) - len(raw) + 1))
            if at >= 0:
                found.append((at + len(raw), -len(raw), stop))
        return min(found)[2] if found else ""


class _Raw(NamedTuple):
    """Stop strings as bytes."""

    longest: int
    strings: tuple[tuple[bytes, str], ...]


@lru_cache(maxsize=256)
def _raw(stops: tuple[str, ...]) -> _Raw:
    strings = tuple((stop.encode(), stop) for stop in stops if stop)
    return _Raw(max((len(raw) for raw, _ in strings), default=0), strings)
