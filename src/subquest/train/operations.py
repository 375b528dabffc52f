"""The policy's operations between matrix products: attention, rotary positions, norms, and the gate of the feed-forward
block.

Attention runs over trajectories laid end to end: causal inside each, blind to its neighbours. On CUDA torch's
variable-length kernel reads the packed row directly. Elsewhere each trajectory goes through attention by itself, so
there is no padding and no mask over the whole row. On CUDA the other operations are one Triton kernel each in
each direction (`kernels`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

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
    keys: Tensor | None = None
    """[K] the tokens that queries see, trajectory by trajectory, where they see more than their own (`prefixes`); the
    last query of a trajectory sees all of its keys, each one before it one key less"""
    of_keys: Packing | None = None
    """Where the keys of each trajectory begin and end in `keys`."""
    readers: tuple[Tensor, ...] = ()
    """[T + 1] and [K]: the places of token t in `keys` are those of the second from `first[t]` to `first[t + 1]`; the
    kernels need it"""

    @classmethod
    def of(cls, lengths: Tensor, device: torch.device | str = "cpu") -> Packing:
        """`lengths` must be on the CPU: reading them from the device would wait for it."""
        starts = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(torch.int32)
        sizes = tuple(lengths.tolist())
        return cls(to_device(starts, device), sizes, max(sizes))

    def to(self, device: torch.device | str) -> Packing:
        keys = None if self.keys is None else to_device(self.keys, device)
        of_keys = None if self.of_keys is None else self.of_keys.to(device)
        return Packing(to_device(self.cu_seqlens, device), self.sizes, self.longest, keys, of_keys)

    def with_readers(self) -> Packing:
        """The packing with `readers`, where queries see more than their own keys; the device does not wait."""
        if self.keys is None:
            return self
        tokens, places = self.keys.sort(stable=True)
        starts = torch.searchsorted(tokens, torch.arange(sum(self.sizes) + 1, device=tokens.device))
        return replace(self, readers=(starts, places))


def to_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Copy a tensor to a device without waiting for the work under way there."""
    if torch.device(device).type == "cuda" and not tensor.is_cuda:
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def fused(x: Tensor) -> bool:
    """Whether operations on this tensor are Triton kernels."""
    return x.is_cuda


def attend(q: Tensor, k: Tensor, v: Tensor, packing: Packing, scale: float) -> Tensor:
    """q [T, heads, d], k and v [T or K, kv_heads, d], as queries read them, to [T, heads, d]."""
    if q.is_cuda and q.dtype in (torch.bfloat16, torch.float16):
        return _attend_packed(q, k, v, packing, scale)
    return _attend_one_by_one(q, k, v, packing, scale)


def _attend_one_by_one(q: Tensor, k: Tensor, v: Tensor, packing: Packing, scale: float) -> Tensor:
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    sizes = list(packing.sizes)
    of_keys = list((packing.of_keys or packing).sizes)
    # [1, heads, n, d]: torch's fast kernel for CPUs wants four dimensions
    parts = ((q, sizes), (k, of_keys), (v, of_keys))
    heads_first = (torch.split(x.transpose(0, 1)[None], sizes, dim=2) for x, sizes in parts)
    out = [_attend_one(q, k, v, scale) for q, k, v in zip(*heads_first, strict=True)]
    return torch.cat(out, dim=2)[0].transpose(0, 1)


def _attend_one(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    n, seen = q.shape[2], k.shape[2]
    if n == seen:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
    mask = torch.ones(n, seen, dtype=torch.bool, device=q.device).tril(seen - n)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)


def _attend_packed(q: Tensor, k: Tensor, v: Tensor, packing: Packing, scale: float) -> Tensor:
    """Flash attention over the packed row, called in ATen: its Python wrapper changes from version to version.

    With more keys than queries its causal mask is aligned to the last ones.
    """
    of_keys = packing.of_keys or packing
    starts, longest = (packing.cu_seqlens, of_keys.cu_seqlens), (packing.longest, of_keys.longest)
    forward = torch.ops.aten._flash_attention_forward
    out: Tensor = forward(q, k, v, *starts, *longest, 0.0, True, False, scale=scale)[0]
    return out


class Repeated(torch.autograd.Function):
    """Rows of a tensor by index. Gradients of a row that is taken several times add up in float32."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.rows = x.shape[0]
        return x.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        grad = grads[0]
        out = torch.zeros((ctx.rows, *grad.shape[1:]), dtype=torch.float32, device=grad.device)
        return out.index_add_(0, index, grad.float()).to(grad.dtype), None


def rotate_heads(
    rotary: tuple[Tensor, Tensor], counts: tuple[int, int, int], packing: Packing, *parts: Tensor
) -> tuple[Tensor, ...]:
    """Queries and keys rotated by their positions, and the values; keys and values in the order in which queries read
    them.

    `parts` is (q, k, v), or one tensor that holds all three; `counts` are their heads. All are [T, heads, size], the
    cosines and sines [T, size / 2].
    """
    if fused(parts[0]):
        from .kernels import Turned

        alone = parts[2:] if not packing.readers else ()  # values that stay where they are
        turned: tuple[Tensor, ...] = Turned.apply(rotary, packing.readers, counts, *parts[: 3 - len(alone)])  # type: ignore[no-untyped-call]
        return *turned, *alone
    if len(parts) == 1:
        both, v = torch.split(parts[0], [counts[0] + counts[1], counts[2]], 1)
        q, k = torch.split(rotate(both, *rotary), list(counts[:2]), 1)
    else:
        q, k, v = rotate(parts[0], *rotary), rotate(parts[1], *rotary), parts[2]
    if packing.keys is not None:
        k, v = Repeated.apply(k, packing.keys), Repeated.apply(v, packing.keys)  # type: ignore[no-untyped-call]
    return q, k, v


def rotate(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotary position embedding; the two halves of a head are the two parts of each complex number."""
    first, second = x.float().chunk(2, -1)
    cosines, sines = cosines[:, None], sines[:, None]
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], -1).to(x.dtype)


def add_norm(
    x: Tensor, added: Tensor | None, weight: Tensor, epsilon: float, columns: int = 0
) -> tuple[Tensor, Tensor]:
    """The sum (x itself where nothing is added), and its root-mean-square normalisation, accumulated in float32.

    With `columns` a kernel leaves room in the rows of the result for a matrix product that needs so many
    (`lora_products`).
    """
    if fused(x) and x.ndim == 2 and not weight.requires_grad:
        from .kernels import AddedNorm

        found: tuple[Tensor, ...] = AddedNorm.apply(x, added, weight, epsilon, columns)  # type: ignore[no-untyped-call]
        total, out = (x, *found)[-2:]
        return total, out
    total = x if added is None else x + added
    # autocast on CUDA makes it return float32: attention could not use its packed kernel where heads are normalised
    return total, F.rms_norm(total, total.shape[-1:], weight.to(total.dtype), epsilon).to(total.dtype)


def swiglu(*parts: Tensor, columns: int = 0) -> Tensor:
    """silu(gate) * up; `parts` is (gate, up), or one tensor that holds both. `columns` as in `add_norm`."""
    if fused(parts[0]):
        from .kernels import Gated

        found: Tensor = Gated.apply(columns, *parts)  # type: ignore[no-untyped-call]
        return found
    gate, up = parts[0].chunk(2, -1) if len(parts) == 1 else parts
    return F.silu(gate) * up
