# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-any-return,no-untyped-call"
"""Rotary positions and the gate of the feed-forward block as Triton kernels, one a direction; `operations` says what
they compute.

Launched as they are: a compiled torch function would check its guards at each of a thousand calls a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 512
"""Channels of the feed-forward block that one program computes."""


def _power(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


@triton.jit
def _turn_heads(source, target, cos, sin, HEADS: tl.constexpr, HEADS_PAD: tl.constexpr,
                HALF: tl.constexpr, HALF_PAD: tl.constexpr):  # fmt: skip
    h = tl.arange(0, HEADS_PAD)[:, None]
    d = tl.arange(0, HALF_PAD)[None, :]
    live = (h < HEADS) & (d < HALF)
    at = h * 2 * HALF + d
    first = tl.load(source + at, mask=live, other=0.0).to(tl.float32)
    second = tl.load(source + at + HALF, mask=live, other=0.0).to(tl.float32)
    tl.store(target + at, (first * cos - second * sin).to(target.dtype.element_ty), mask=live)
    tl.store(target + at + HALF, (second * cos + first * sin).to(target.dtype.element_ty), mask=live)


@triton.jit
def _turn_kernel(
    q, k, v, cosines, sines, new_q, new_k, new_v, q_row, k_row, v_row, new_q_row, new_k_row, new_v_row,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HEADS_PAD: tl.constexpr, KV_PAD: tl.constexpr,
    HALF: tl.constexpr, HALF_PAD: tl.constexpr, BACK: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, HALF_PAD)[None, :]
    cos = tl.load(cosines + row * HALF + d, mask=d < HALF, other=0.0)
    sin = tl.load(sines + row * HALF + d, mask=d < HALF, other=0.0)
    if BACK:
        sin = -sin
    _turn_heads(q + row * q_row, new_q + row * new_q_row, cos, sin, HEADS, HEADS_PAD, HALF, HALF_PAD)
    _turn_heads(k + row * k_row, new_k + row * new_k_row, cos, sin, KV_HEADS, KV_PAD, HALF, HALF_PAD)
    if VALUES:
        g = tl.arange(0, KV_PAD)[:, None]
        e = tl.arange(0, 2 * HALF_PAD)[None, :]
        seen = (g < KV_HEADS) & (e < 2 * HALF)
        at = g * 2 * HALF + e
        tl.store(new_v + row * new_v_row + at, tl.load(v + row * v_row + at, mask=seen, other=0.0), mask=seen)


def _turn(old: Sequence[Tensor], new: Sequence[Tensor], rotary: tuple[Tensor, Tensor], *, back: bool) -> None:
    """Two or three tensors [T, heads, size] into others; only rows may lie apart. The third is copied."""
    (q, k, *v), (new_q, new_k, *new_v) = old, new
    cosines, sines = rotary
    (rows, heads, size), kv_heads = q.shape, k.shape[1]
    values, new_values = (v[0], new_v[0]) if v else (k, new_k)
    with torch.cuda.device_of(q):
        _turn_kernel[(rows,)](
            q, k, values, cosines, sines, new_q, new_k, new_values,
            q.stride(0), k.stride(0), values.stride(0), new_q.stride(0), new_k.stride(0), new_values.stride(0),
            HEADS=heads, KV_HEADS=kv_heads, HEADS_PAD=_power(heads), KV_PAD=_power(kv_heads),
            HALF=size // 2, HALF_PAD=_power(size // 2), BACK=back, VALUES=bool(v),
            num_warps=4 if heads * size > 2048 else 2,
        )  # fmt: skip


class Turned(torch.autograd.Function):
    """Queries and keys turned. Takes (q, k), or (qkv,) and then gives the values too; heads are [T, n, size]."""

    @staticmethod
    def forward(
        ctx: Any, cosines: Tensor, sines: Tensor, counts: tuple[int, ...], *parts: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(cosines, sines)
        ctx.counts, ctx.fused = counts, len(parts) == 1
        old = parts[0].split(counts, 1) if ctx.fused else parts
        new = tuple(torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in old)
        _turn(old, new, (cosines, sines), back=False)
        return new

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        cosines, sines = ctx.saved_tensors
        old = [slope.contiguous() for slope in slopes]
        rows, _, size = old[0].shape
        if ctx.fused:
            whole = (torch.empty((rows, sum(ctx.counts), size), dtype=old[0].dtype, device=old[0].device),)
            new = whole[0].split(ctx.counts, 1)
        else:
            whole = new = tuple(torch.empty_like(x) for x in old)
        _turn(old, new, (cosines, sines), back=True)
        return None, None, None, *whole


@triton.jit
def _gate_kernel(gate, up, out, gate_row, up_row, INNER: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = i < INNER
    g = tl.load(gate + row * gate_row + i, mask=live, other=0.0).to(tl.float32)
    u = tl.load(up + row * up_row + i, mask=live, other=0.0).to(tl.float32)
    silu = (g / (1.0 + tl.exp(-g))).to(out.dtype.element_ty).to(tl.float32)
    tl.store(out + row * INNER + i, (silu * u).to(out.dtype.element_ty), mask=live)


@triton.jit
def _gate_back_kernel(
    gate, up, slope, on_gate, on_up, gate_row, up_row, on_gate_row, on_up_row,
    INNER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = i < INNER
    g = tl.load(gate + row * gate_row + i, mask=live, other=0.0).to(tl.float32)
    u = tl.load(up + row * up_row + i, mask=live, other=0.0).to(tl.float32)
    s = tl.load(slope + row * INNER + i, mask=live, other=0.0).to(tl.float32)
    sigmoid = 1.0 / (1.0 + tl.exp(-g))
    d_gate = s * u * sigmoid * (1.0 + g * (1.0 - sigmoid))
    tl.store(on_gate + row * on_gate_row + i, d_gate.to(on_gate.dtype.element_ty), mask=live)
    tl.store(on_up + row * on_up_row + i, (s * g * sigmoid).to(on_up.dtype.element_ty), mask=live)


class Gated(torch.autograd.Function):
    """silu(gate) * up. Takes (gate, up), or both side by side in one tensor."""

    @staticmethod
    def forward(ctx: Any, *parts: Tensor) -> Tensor:
        ctx.save_for_backward(*parts)
        gate, up = _halves(parts)
        rows, inner = gate.shape
        out = torch.empty((rows, inner), dtype=gate.dtype, device=gate.device)
        with torch.cuda.device_of(gate):
            _gate_kernel[(rows, triton.cdiv(inner, _BLOCK))](
                gate, up, out, gate.stride(0), up.stride(0), INNER=inner, BLOCK=_BLOCK, num_warps=2
            )
        return out

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, ...]:
        parts = ctx.saved_tensors
        gate, up = _halves(parts)
        found = tuple(torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in parts)
        on_gate, on_up = _halves(found)
        rows, inner = gate.shape
        with torch.cuda.device_of(gate):
            _gate_back_kernel[(rows, triton.cdiv(inner, _BLOCK))](
                gate, up, slope.contiguous(), on_gate, on_up,
                gate.stride(0), up.stride(0), on_gate.stride(0), on_up.stride(0),
                INNER=inner, BLOCK=_BLOCK, num_warps=2,
            )  # fmt: skip
        return found


def _halves(parts: Sequence[Tensor]) -> Sequence[Tensor]:
    return parts[0].chunk(2, -1) if len(parts) == 1 else parts
