"""Random numbers that depend on a request's seed and a position, and on nothing else.

A counter-based generator: an integer hash of (seed, position) instead of a state that advances. So a rollout can be
drawn again whatever it shared a batch with, after a preemption, or on its own.
"""

from __future__ import annotations

from torch import Tensor

from ..interface import Sampling

_MASK = 0xFFFFFFFF
GOLDEN = 0x9E3779B9
"""2^32 over the golden ratio: an odd step that spreads neighbouring counters over all bits."""


def mix(x: Tensor) -> Tensor:
    """A bijective hash of 32-bit integers held in int64 (two rounds of xor-shift and multiply)."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _MASK
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _MASK
    return x ^ (x >> 16)


def uniform(seeds: Tensor, positions: Tensor) -> Tensor:
    """One number in (0, 1) for each pair, float64."""
    key = mix((seeds.long() & _MASK) ^ mix(positions.long() * GOLDEN & _MASK))
    return (key.double() + 0.5) / 2**32


def fold_seed(seed: int) -> int:
    """Any integer as a signed 32-bit seed."""
    folded = (seed ^ (seed >> 32)) & _MASK
    return folded - (1 << 32) if folded >= 1 << 31 else folded


def is_filtered(sampling: Sampling) -> bool:
    return sampling.temperature > 0 and (sampling.top_k > 0 or sampling.top_p < 1 or sampling.min_p > 0)
