"""Random streams that are the same on every machine and Python version.

Only `random.Random(int).random()` is used, whose sequence Python promises never to change; `choice`, `shuffle`,
`hash()` and the order of sets carry no such promise, so this package avoids them.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class RandomStream:
    """A stream of random decisions named by a key, so that parts of a world can be generated in any order."""

    __slots__ = ("random",)

    def __init__(self, *key: int | str) -> None:
        self.random = random.Random(digest(*key)).random

    def below(self, n: int) -> int:
        return int(self.random() * n)

    def between(self, low: int, high: int) -> int:
        """An integer from low to high, both included; low where the range is empty."""
        return low if high <= low else low + int(self.random() * (high - low + 1))

    def chance(self, p: float) -> bool:
        return self.random() < p

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.random() * len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        out = list(items)
        for i in range(len(out) - 1, 0, -1):
            j = int(self.random() * (i + 1))
            out[i], out[j] = out[j], out[i]
        return out

    def sample(self, items: Sequence[T], k: int) -> list[T]:
        """At most k different items, in random order."""
        return self.shuffled(items)[:k]

    def weighted(self, items: Sequence[tuple[T, float]]) -> T:
        mark = self.random() * sum(w for _, w in items)
        for item, weight in items:
            mark -= weight
            if mark < 0:
                return item
        return items[-1][0]


def digest(*key: int | str) -> int:
    """64 bits that depend on every part of the key."""
    text = "/".join(map(str, key)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


class Permutation:
    """A keyed shuffle of 0..size-1 that needs no memory (a Feistel network with cycle walking).

    Names are numbered. Each region of a world takes its own slice of the numbers, so no two regions can invent the
    same name, and the permutation makes neighbouring numbers look unrelated.
    """

    __slots__ = ("_half", "_keys", "_mask", "size")

    def __init__(self, size: int, *key: int | str) -> None:
        self.size = size
        self._half = max(1, ((size - 1).bit_length() + 1) // 2)
        self._mask = (1 << self._half) - 1
        self._keys = [digest(*key, r) | 1 for r in range(4)]

    def __call__(self, index: int) -> int:
        if not 0 <= index < self.size:
            raise IndexError(index)
        value = index
        while True:
            left, right = value >> self._half, value & self._mask
            for key in self._keys:
                mixed = (right + 0x9E37) * key & 0xFFFFFFFFFFFFFFFF
                left, right = right, left ^ ((mixed >> 29) & self._mask)
            value = left << self._half | right
            if value < self.size:
                return value
