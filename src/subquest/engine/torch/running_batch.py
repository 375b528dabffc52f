"""The rows of the running batch as arrays, one row per slot: a step costs the host a few numpy operations, whatever the
number of rows. Single rows are touched only when one begins, ends or needs a block."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..interface import Sampling

Array = np.ndarray[Any, Any]
COLDEST = 1e-6
"""Lowest temperature above 0: dividing logits by less overflows."""


class Rows:
    """The state of each slot; the last slot is for padding."""

    def __init__(self, slots: int, table_width: int) -> None:
        n = slots + 1
        self.slots = slots
        self.tables = np.zeros((n, table_width), np.int32)
        """Cache blocks of each slot's context."""
        self.held = np.zeros(n, np.int32)
        """Number of those blocks."""
        self.position = np.zeros(n, np.int32)
        """Position of the token that is fed next."""
        self.given = np.full(n, -1, np.int32)
        """The token that is fed next, if the host knows it; -1: the one the device sampled last."""
        self.seed = np.zeros(n, np.int32)
        self.temperature = np.zeros(n, np.float32)
        self.top_k = np.zeros(n, np.int32)
        self.top_p = np.ones(n, np.float32)
        self.min_p = np.zeros(n, np.float32)
        self.filtered = np.zeros(n, np.bool_)
        self.bare = np.zeros(n, np.bool_)
        """Whether the slot's context runs without the adapter; false for unused slots."""
        self.left = np.zeros(n, np.int32)
        """Tokens that may still be sampled; 0 for slots that do not decode."""
        self.limit = np.zeros(n, np.int32)
        """Tokens the slot's turn may generate."""
        self.stop_kind = np.zeros(n, np.int32)
        self.epoch = np.zeros(n, np.int64)
        """Counts the slot's users, so that late results of an earlier one are recognised."""
        self.count = np.zeros(n, np.int32)
        """Tokens read back from the device."""
        self.ids = np.zeros((n, 256), np.int32)
        self.logprobs = np.zeros((n, 256), np.float32)
        self.begun = 0
        """Counts the turns that began to decode."""
        self.changed: list[Array] = []
        """Entries of `tables` that changed since the last upload, as flat indexes."""

    def set_blocks(self, slot: int, blocks: list[int]) -> None:
        """The whole table of a slot."""
        self.tables[slot, : len(blocks)] = blocks
        self.held[slot] = len(blocks)
        first = slot * self.tables.shape[1]
        self.changed.append(np.arange(first, first + len(blocks)))

    def short(self, slots: Array, size: int) -> Array:
        """The slots whose next token has no block yet."""
        found: Array = slots[self.position[slots] >= self.held[slots] * size]
        return found

    def add_block(self, slots: Array, blocks: list[int]) -> None:
        """One more block for each of the slots."""
        places = slots * np.int64(self.tables.shape[1]) + self.held[slots]
        self.tables.reshape(-1)[places] = blocks
        self.held[slots] += 1
        self.changed.append(places)

    def begin(
        self, slot: int, *, token: int, position: int, left: int, sampling: Sampling, seed: int, kind: int
    ) -> None:
        """Start decoding in a slot: feed `token` at `position`, then what the device samples."""
        self.begun += 1
        self.position[slot] = position
        self.given[slot] = token
        self.left[slot] = self.limit[slot] = left
        self.count[slot] = 0
        self.seed[slot] = fold_seed(seed)
        self.temperature[slot] = max(COLDEST, sampling.temperature) if sampling.temperature > 0 else 0.0
        self.top_k[slot] = sampling.top_k
        self.top_p[slot] = sampling.top_p
        self.min_p[slot] = sampling.min_p
        self.filtered[slot] = is_filtered(sampling)
        self.stop_kind[slot] = kind

    def end(self, slot: int) -> None:
        """Free the slot; results still under way for it will be ignored."""
        self.left[slot] = 0
        self.bare[slot] = False
        self.epoch[slot] += 1

    def ready(self) -> Array:
        """Slots that can take part in a decode step."""
        return np.flatnonzero(self.left > 0).astype(np.int32)

    def advance(self, slots: Array) -> None:
        """Note that a step over these slots was launched."""
        self.position[slots] += 1
        self.left[slots] -= 1
        self.given[slots] = -1

    def store(self, slots: Array, ids: Array, logprobs: Array) -> None:
        """Store what the device sampled."""
        at = self.count[slots]
        if at.size and int(at.max()) >= self.ids.shape[1]:
            self.ids = np.concatenate([self.ids, np.zeros_like(self.ids)], axis=1)
            self.logprobs = np.concatenate([self.logprobs, np.zeros_like(self.logprobs)], axis=1)
        self.ids[slots, at] = ids
        self.logprobs[slots, at] = logprobs
        self.count[slots] = at + 1


def fold_seed(seed: int) -> int:
    """Any integer as a signed 32-bit seed."""
    folded = (seed ^ (seed >> 32)) & 0xFFFFFFFF
    return folded - (1 << 32) if folded >= 1 << 31 else folded


def is_filtered(sampling: Sampling) -> bool:
    """Whether top-k, top-p or min-p cut the distribution."""
    return sampling.temperature > 0 and (sampling.top_k > 0 or sampling.top_p < 1 or sampling.min_p > 0)
