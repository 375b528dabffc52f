"""Attention over trajectories laid end to end: causal inside each, blind to its neighbours.

On CUDA torch's variable-length kernel reads the packed row as it is. Elsewhere each trajectory goes through
scaled-dot-product attention by itself: no padding there either, and no mask of the whole row squared.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True, slots=True)
class Packing:
    """Where trajectories begin and end in a packed row."""

    cu_seqlens: Tensor
    """[N + 1] int32, on the device"""
    sizes: tuple[int, ...]
    longest: int

    @classmethod
    def of(cls, lengths: Tensor, device: torch.device | str = "cpu") -> Packing:
        """From lengths on the CPU: read from the device, they would have to be waited for."""
        starts = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(torch.int32)
        sizes = tuple(lengths.tolist())
        return cls(moved(starts, device), sizes, max(sizes))


def moved(tensor: Tensor, device: torch.device | str) -> Tensor:
    """The tensor on another device, without waiting for what that computes now."""
    if torch.device(device).type == "cuda" and not tensor.is_cuda:
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def attend(q: Tensor, k: Tensor, v: Tensor, packing: Packing, scale: float) -> Tensor:
    """q [T, heads, d], k and v [T, kv_heads, d] to [T, heads, d]."""
    if q.is_cuda and q.dtype in (torch.bfloat16, torch.float16):
        return _varlen(q, k, v, packing, scale)
    return _one_by_one(q, k, v, packing, scale)


def _one_by_one(q: Tensor, k: Tensor, v: Tensor, packing: Packing, scale: float) -> Tensor:
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    # [1, heads, n, d]: torch's fast kernel for CPUs wants four dimensions
    heads_first = (torch.split(x.transpose(0, 1)[None], list(packing.sizes), dim=2) for x in (q, k, v))
    out = [
        F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        for q, k, v in zip(*heads_first, strict=True)
    ]
    return torch.cat(out, dim=2)[0].transpose(0, 1)


def _varlen(q: Tensor, k: Tensor, v: Tensor, packing: Packing, scale: float) -> Tensor:
    """Flash attention over the packed row, straight from ATen: its Python wrapper changes from version to version."""
    starts, longest = packing.cu_seqlens, packing.longest
    forward = torch.ops.aten._flash_attention_forward
    out: Tensor = forward(q, k, v, starts, starts, longest, longest, 0.0, True, False, scale=scale)[0]
    return out
