"""The policy's small operations between the products: rotary positions, and the gate of the feed-forward block.

Both take the results of one product side by side, or of several. On CUDA each is one kernel forth and one back.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def turned(rotary: tuple[Tensor, Tensor], counts: tuple[int, int, int], *parts: Tensor) -> tuple[Tensor, ...]:
    """Queries and keys with their positions, and the values where they came along.

    `parts` is (q, k), or one tensor that holds q, k and v; `counts` are their heads. Every tensor is [T, heads, size],
    cosines and sines are [T, size / 2].
    """
    if parts[0].is_cuda:
        from .kernels import Turned

        found: tuple[Tensor, ...] = Turned.apply(*rotary, counts, *parts)  # type: ignore[no-untyped-call]
        return found
    if len(parts) == 2:
        return rotate(parts[0], *rotary), rotate(parts[1], *rotary)
    queries, keys, values = counts
    both, v = torch.split(parts[0], [queries + keys, values], 1)
    return *torch.split(rotate(both, *rotary), [queries, keys], 1), v


def gated(*parts: Tensor) -> Tensor:
    """silu(gate) * up; `parts` is (gate, up), or one tensor that holds both."""
    if parts[0].is_cuda:
        from .kernels import Gated

        found: Tensor = Gated.apply(*parts)  # type: ignore[no-untyped-call]
        return found
    gate, up = parts[0].chunk(2, -1) if len(parts) == 1 else parts
    return F.silu(gate) * up


def rotate(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotary position embedding; the two halves of a head are the two parts of each complex number."""
    first, second = x.float().chunk(2, -1)
    cosines, sines = cosines[:, None], sines[:, None]
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], -1).to(x.dtype)
