"""What trajectories of a packed row begin with alike goes through the model once.

The contexts of a role open with the same instructions and worked examples, often most of their tokens; rollouts of one
question often go on alike, with the same task and the same documents. So the trajectories form a tree of common
beginnings. In a causal model the states of a beginning depend on nothing that follows, so one copy serves all: the
tokens after a branch attend to the keys and values on the way to it and then to their own. Losses and gradients are
those of the whole row.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .operations import Packing, to_device

LEAST_WORTH = 32
"""Tokens that a shared stretch of the tree must save over all its trajectories: each stretch gathers the keys before it
once more."""
LEAST_SAVED = 0.05
"""Share of a row's tokens that must be saved."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Distinct:
    """The tokens of a packed row without its repeated beginnings. U of T tokens are left."""

    token_ids: Tensor
    """[U]"""
    positions: Tensor
    """[U] position of each token in its trajectory"""
    where: Tensor
    """[T] the distinct token that stands for each token of the row"""
    packing: Packing
    rows: Tensor
    """[B] the distinct tokens that predict an action, once for each action that follows one"""
    targets: Tensor
    """[B] that action"""
    actions: Tensor
    """[A] the entry of `rows` for each action token of the row"""

    def to(self, device: torch.device | str) -> Distinct:
        token_ids, positions, where = (to_device(t, device) for t in (self.token_ids, self.positions, self.where))
        rows, targets, actions = (to_device(t, device) for t in (self.rows, self.targets, self.actions))
        return Distinct(token_ids, positions, where, self.packing.to(device), rows, targets, actions)


class Beginnings:
    """How much the trajectories of a packed row have in common: sorted, each is most alike to its neighbours."""

    def __init__(self, token_ids: Tensor, lengths: Tensor) -> None:
        """Both tensors must be on the CPU."""
        self.row, self.sizes = token_ids.numpy(), lengths.numpy()
        self.starts = np.cumsum(self.sizes) - self.sizes
        spelled = self.row.astype(">u4")  # bytes in the order of the numbers
        texts = [spelled[start : start + size].tobytes() for start, size in zip(self.starts, self.sizes, strict=True)]
        self.order = sorted(range(len(texts)), key=texts.__getitem__)
        """The trajectories as a dictionary would list them."""
        self.ranks = np.argsort(self.order)
        """The place of each trajectory in that order."""
        self.common = np.array([0, *(self._common(a, b) for a, b in pairwise(self.order))])
        """Tokens that each trajectory in the order has in common with the one before it."""

    def _common(self, a: int, b: int) -> int:
        """How many tokens two trajectories begin with alike; each keeps one of its own."""
        size = int(min(self.sizes[a], self.sizes[b])) - 1
        differs = self.row[self.starts[a] :][:size] != self.row[self.starts[b] :][:size]
        return int(differs.argmax()) if differs.any() else size

    def join(self, trajectories: Sequence[int], others: Sequence[int]) -> tuple[int, list[int]]:
        """The tokens, at most, that trajectories add to others, and the ranks of all. `others` are ranks too; both are
        sorted."""
        ranks, size = list(others), 0
        for trajectory in trajectories:
            rank = int(self.ranks[trajectory])
            at = bisect(ranks, rank)
            before = self.common[ranks[at - 1] + 1 : rank + 1].min() if at else 0
            after = self.common[rank + 1 : ranks[at] + 1].min() if at < len(ranks) else 0
            size += int(self.sizes[trajectory]) - max(0, int(max(before, after)) - LEAST_WORTH + 1)
            ranks.insert(at, rank)
        return size, ranks


def share_prefixes(token_ids: Tensor, lengths: Tensor, rows: Tensor, *, fill: int = 0) -> Distinct | None:
    """The distinct tokens of a row; None where sharing saves too little. All tensors must be on the CPU; `rows` are the
    positions whose next token is an action.

    With `fill` the numbers of tokens and of rows are padded to multiples of it, with a trajectory that nothing is read
    from.
    """
    tree = _Tree(Beginnings(token_ids, lengths))
    if tree.size > (1 - LEAST_SAVED) * token_ids.numel():
        return None
    if fill and tree.size % fill:
        tree.add(np.zeros(-tree.size % fill, tree.row.dtype), tree.nothing)
    packing = replace(
        Packing.of(torch.tensor([len(ids) for ids in tree.tokens])),
        keys=torch.from_numpy(np.concatenate(tree.keys)),
        of_keys=Packing.of(torch.tensor([len(k) for k in tree.keys])),
    )
    tokens, positions = (torch.from_numpy(np.concatenate(parts)) for parts in (tree.tokens, tree.positions))
    where = torch.from_numpy(tree.where)
    span = int(token_ids.max()) + 1
    pairs, actions = torch.unique(where[rows] * span + token_ids[rows + 1], return_inverse=True)
    if fill and len(pairs) % fill:
        pairs = torch.cat([pairs, pairs[-1:].expand(-len(pairs) % fill)])
    return Distinct(tokens, positions, where, packing, pairs // span, pairs % span, actions)


class _Tree:
    """The stretches of the tree, one after the other: each is a sequence of queries with the keys that it sees."""

    def __init__(self, of: Beginnings) -> None:
        self._of, self.row = of, of.row
        self.tokens: list[Array] = []
        self.positions: list[Array] = []
        self.keys: list[Array] = []
        self.where = np.empty(len(of.row), np.int64)
        self.size = 0
        self.nothing = np.zeros(0, np.int64)
        self._grow()

    def add(self, ids: Array, seen: Array) -> Array:
        """Add a stretch behind tokens at the places `seen`; returns the places of all of them."""
        places = np.concatenate([seen, np.arange(self.size, self.size + len(ids))])
        self.tokens.append(ids)
        self.positions.append(np.arange(len(seen), len(places)))
        self.keys.append(places)
        self.size += len(ids)
        return places

    def _grow(self) -> None:
        """Add all trajectories. Those that go on alike share a stretch if that is worth it, and then branch; otherwise
        they part where the first of them leaves, and those that go on alike from there are looked at again."""
        of = self._of
        left = [(0, len(of.order), self.nothing, 1)]
        while left:
            first, end, seen, least = left.pop()
            for low, high in self._alike(first, end, least):
                trajectory = of.order[low]
                start, size = of.starts[trajectory], of.sizes[trajectory]
                if high - low == 1:
                    self.where[start : start + size] = self.add(of.row[start + len(seen) : start + size], seen)
                    continue
                common = int(of.common[low + 1 : high].min())
                worth = (high - low - 1) * (common - len(seen)) >= LEAST_WORTH
                behind = self.add(of.row[start + len(seen) : start + common], seen) if worth else seen
                left.append((low, high, behind, common + 1))

    def _alike(self, first: int, end: int, least: int) -> Iterator[tuple[int, int]]:
        """Runs of trajectories in the order that have at least so many tokens in common."""
        cuts = [first, *(first + 1 + np.flatnonzero(self._of.common[first + 1 : end] < least)).tolist(), end]
        yield from pairwise(cuts)
