"""Which rows of a decode step begin with the same cache blocks, so that attention reads these once for many rows.

A full block is shared only by contexts with the same tokens up to its end (`block_pool.py`). So rows that have the same
block at some depth have the same prefix up to there, and the table of any of them finds it. Depths are compared in
strides of 128 tokens. Each row chooses the depth that saves most reads, given how many rows have its block there; rows
that chose the same block are a group:

    planner   ████████████████ question 1 ░░░░      2 groups: rows with the planner's prompt,
    planner   ████████████████ question 2 ░░░░░░              rows with the executor's
    executor  ▓▓▓▓▓▓▓▓▓▓▓▓ task 1 ░░░░░░░░░
    executor  ▓▓▓▓▓▓▓▓▓▓▓▓ task 2 ░░░

The work on a group is cut into tiles, of some of its rows and one part of its prefix, one program for each.
"""

from __future__ import annotations

import os
from functools import lru_cache
from itertools import accumulate
from math import ceil
from operator import mul
from typing import NamedTuple

import numpy as np

from ...errors import UsageError
from .running_batch import Array, Rows
from .step import SHARED_PARTS, SHARED_QUERIES, SharedPrefixes

VARIABLE = "SUBQUEST_SHARED_PREFIXES"
STRIDE = 128
"""Prefixes are shared in multiples of this many tokens: few depths to compare, and no tile of keys is cut."""
FEWEST = 4
"""Rows of a group at least: a product for one row takes as long as for ten."""
LEAST_BYTES = 64 << 20
"""Reads that sharing must save in every layer. An estimate: the additional kernel and its results take about 10
microseconds, in which an H200 reads this much from its L2 cache."""
PROGRAMS = 256
"""Programs that are to read prefixes at the same time: two on each of 132 processors."""


def wanted() -> bool:
    """Whether `SUBQUEST_SHARED_PREFIXES` asks for sharing."""
    text = os.environ.get(VARIABLE, "")
    if text not in ("", "0", "1"):
        raise UsageError(f"{VARIABLE}={text!r}: write 1 to read shared prefixes once, 0 not to")
    return text == "1"


class Groups(NamedTuple):
    """A step's groups, as `step.SharedPrefixes` describes them; of padding there is only that of the tiles."""

    lengths: Array
    parts: Array
    members: Array
    tiles: Array

    def write(self, target: SharedPrefixes) -> None:
        """Write them, and zeros as padding, into tensors on the host."""
        for values, tensor in zip(self, (target.lengths, target.parts, target.members, target.tiles), strict=True):
            flat = tensor.numpy().reshape(-1)
            flat[: values.size] = values.reshape(-1)
            flat[values.size :] = 0


class PrefixGroups:
    def __init__(self, rows: Rows, *, block: int, heads: int, kv_heads: int, token_bytes: int) -> None:
        """`block` tokens of a cache block; `token_bytes` of a token's keys and values in one layer."""
        self._rows = rows
        self._blocks_a_stride = STRIDE // block
        self._least = max(1, LEAST_BYTES // token_bytes)
        self._programs = max(1, PROGRAMS // kv_heads)
        self.tile_rows = max(1, SHARED_QUERIES // (heads // kv_heads))
        sizes = np.arange(rows.slots + 1)
        saved = 1 - np.ceil(sizes / self.tile_rows) / np.maximum(sizes, 1)
        self._saved = np.where(sizes >= FEWEST, saved, 0.0)
        """The share of its reads that a group of each size saves."""
        self._chosen = np.zeros((2, rows.slots + 1), np.int32)
        """The length of each slot's shared prefix, 0 for none, and its last block."""
        self._begun = 0
        self._slots: Array = np.zeros(0, np.int32)
        self._found: Groups | None = None

    @property
    def most_tiles(self) -> int:
        """Tiles of any step, with padding."""
        slots = self._rows.slots
        return 1 << max(self._programs, slots // self.tile_rows + slots // FEWEST + 2).bit_length()

    def find(self, slots: Array) -> Groups | None:
        """The groups of a step over these slots; None where sharing would not pay."""
        begun = self._rows.begun
        if begun != self._begun or not np.array_equal(slots, self._slots):
            if begun != self._begun:
                self._choose(self._rows.ready())
            self._begun, self._slots = begun, slots
            self._found = self._group(slots)
        return self._found

    def _choose(self, slots: Array) -> None:
        """Choose the shared prefix of every row. Rows that end later leave the choice of the others as it is."""
        self._chosen[:] = 0
        depths = self._rows.position[slots] // STRIDE
        if STRIDE * int(depths.sum()) < self._least:
            return
        stride, deepest = self._blocks_a_stride, int(depths.max())
        strides = np.arange(1, deepest + 1)
        inside = strides <= depths[:, None]
        ends = self._rows.tables[slots, stride - 1 : deepest * stride : stride] * inside
        users = np.bincount(ends.reshape(-1)).take(ends) * inside
        saved = self._saved.take(users) * strides
        best = saved.argmax(1)
        row = np.arange(len(slots))
        pays = saved[row, best] > 0
        self._chosen[:, slots] = STRIDE * (best + 1) * pays, ends[row, best] * pays

    def _group(self, slots: Array) -> Groups | None:
        chosen, blocks = self._chosen[:, slots]
        members = blocks.argsort(kind="stable")
        firsts = np.flatnonzero(np.diff(blocks[members], prepend=-1))
        sizes = np.diff(firsts, append=len(members))
        lengths = chosen[members[firsts]]
        used = (sizes >= FEWEST) & (lengths > 0)
        members, sizes, lengths = members[np.repeat(used, sizes)], sizes[used], lengths[used]
        tiles = -(-sizes // self.tile_rows)
        if int(lengths @ (sizes - tiles)) < self._least:
            return None
        part, cut = _tiles(tuple(tiles.tolist()), tuple(lengths.tolist()), self._programs)
        shared = np.zeros((2, len(slots)), np.int32)
        shared[0, members] = np.repeat(lengths, sizes)
        shared[1] = -(-shared[0] // part)
        placed = np.full((tiles.sum(), self.tile_rows), -1, np.int32)
        before = (tiles.cumsum() - tiles) * self.tile_rows - (sizes.cumsum() - sizes)  # padding of the groups before
        placed.reshape(-1)[np.arange(len(members)) + np.repeat(before, sizes)] = members
        return Groups(shared[0], shared[1], placed, cut)


@lru_cache(maxsize=1024)
def _tiles(tiles: tuple[int, ...], lengths: tuple[int, ...], programs: int) -> tuple[int, Array]:
    """Groups of so many tiles of rows, with prefixes of these lengths: the length of the parts into which prefixes are
    cut, just long enough for all programs to run at once, and the tiles of `step.SharedPrefixes`. They are padded to a
    power of two that is nearly always the same, to need few graphs."""
    longest = max(lengths)
    least = max(sum(map(mul, tiles, lengths)) / programs, longest / SHARED_PARTS)
    part = STRIDE * ceil(least / STRIDE) if sum(tiles) < programs else longest
    while part < longest and sum(n * -(-length // part) for n, length in zip(tiles, lengths, strict=True)) > programs:
        part += STRIDE
    cut = [
        (row, start, min(start + part, length), start // part)
        for end, n, length in zip(accumulate(tiles), tiles, lengths, strict=True)
        for start in range(0, length, part)
        for row in range(end - n, end)
    ]
    padded = np.zeros((1 << (max(programs, len(cut)) - 1).bit_length(), 4), np.int32)
    padded[: len(cut)] = cut
    return part, padded
