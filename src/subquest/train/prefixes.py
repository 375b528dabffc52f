"""What trajectories of a packed row begin with alike goes through the model once.

The contexts of a role open with the same instructions and worked examples, often most of their tokens. In a causal
model their states depend on nothing that follows, so one copy serves all: each trajectory's own tokens attend to the
shared keys and values and then to their own. Losses and gradients are those of the whole row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .operations import Packing, to_device

SHORTEST = 256
"""Tokens that trajectories must have in common for sharing to be worth it."""
LEAST_SAVED = 0.2
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

    def to(self, device: torch.device | str) -> Distinct:
        token_ids, positions, where = (to_device(t, device) for t in (self.token_ids, self.positions, self.where))
        return Distinct(token_ids, positions, where, self.packing.to(device))


def share_prefixes(token_ids: Tensor, lengths: Tensor, *, fill: int = 0) -> Distinct | None:
    """The distinct tokens of a row; None where sharing saves too little. Both tensors must be on the CPU.

    With `fill` their number is padded to a multiple of it with a trajectory that nothing is read from.
    """
    row, sizes = token_ids.numpy(), lengths.numpy()
    starts = np.cumsum(sizes) - sizes
    groups = _groups(row, starts, sizes)
    saved = sum((len(members) - 1) * common for members, common in groups)
    if saved < LEAST_SAVED * len(row):
        return None
    shared = {n: (at, common) for at, (members, common) in enumerate(groups) for n in members}
    tokens: list[Array] = []
    positions: list[Array] = []
    keys: list[Array] = []
    where = np.empty(len(row), np.int64)
    size = 0

    def add(ids: Array, first: int, seen: Array) -> Array:
        """Add queries from the position `first` on, with the keys they see before their own; returns their places."""
        nonlocal size
        places = np.arange(size, size + len(ids))
        tokens.append(ids)
        positions.append(np.arange(first, first + len(ids)))
        keys.append(np.concatenate([seen, places]))
        size += len(ids)
        return places

    none = np.zeros(0, np.int64)
    begun = [add(row[starts[members[0]] :][:common], 0, none) for members, common in groups]
    for n, (start, length) in enumerate(zip(starts, sizes, strict=True)):
        group, common = shared.get(n, (-1, 0))
        seen = begun[group] if common else none
        where[start : start + common] = seen
        where[start + common : start + length] = add(row[start + common : start + length], common, seen)
    if fill and size % fill:
        add(np.zeros(-size % fill, row.dtype), 0, none)
    queries = torch.tensor([len(ids) for ids in tokens])
    packing = replace(
        Packing.of(queries),
        keys=torch.from_numpy(np.concatenate(keys)),
        of_keys=Packing.of(torch.tensor([len(k) for k in keys])),
    )
    flat: Callable[[list[Array]], Tensor] = lambda parts: torch.from_numpy(np.concatenate(parts))  # noqa: E731
    return Distinct(flat(tokens), flat(positions), torch.from_numpy(where), packing)


def _groups(row: Array, starts: Array, sizes: Array) -> list[tuple[list[int], int]]:
    """Trajectories that begin alike, and how many tokens a group has in common. Each keeps a token of its own."""
    alike: dict[bytes, list[int]] = {}
    for n, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if size > SHORTEST:
            alike.setdefault(row[start : start + SHORTEST].tobytes(), []).append(n)
    found = []
    for members in alike.values():
        first = row[starts[members[0]] :]
        common = int(sizes[members].min()) - 1
        for n in members[1:]:
            differs = np.flatnonzero(first[:common] != row[starts[n] : starts[n] + common])
            common = int(differs[0]) if len(differs) else common
        if len(members) > 1:
            found.append((members, common))
    return found
