# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-any-return,no-untyped-call"
"""The model's small operations as Triton kernels; `reference_operations` says what each computes."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from .attention_kernels import attend
from .sampling_kernels import draw
from .step import Step, part_length

__all__ = [
    "add_norm", "attend", "choose", "draw", "embed", "norm", "part_length", "project", "rotate_store", "swiglu",
]  # fmt: skip


def _power(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


@triton.jit
def _choose_kernel(given, slots, last, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = i < n
    token = tl.load(given + i, mask=live, other=0)
    slot = tl.load(slots + i, mask=live, other=0)
    drawn = tl.load(last + slot, mask=live, other=0)
    tl.store(out + i, tl.where(token >= 0, token, drawn), mask=live)


def choose(given: Tensor, slots: Tensor, last: Tensor) -> Tensor:
    out = torch.empty_like(given)
    n = given.numel()
    _choose_kernel[(triton.cdiv(n, 256),)](given, slots, last, out, n, BLOCK=256, num_warps=2)
    return out


def embed(ids: Tensor, weight: Tensor) -> Tensor:
    return F.embedding(ids, weight)


@triton.jit
def _norm_kernel(x, residual, weight, out, epsilon, WIDTH: tl.constexpr, PAD: tl.constexpr, ADD: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, PAD)
    live = i < WIDTH
    wide = tl.load(x + row * WIDTH + i, mask=live, other=0.0).to(tl.float32)
    if ADD:
        wide += tl.load(residual + row * WIDTH + i, mask=live, other=0.0).to(tl.float32)
        rounded = wide.to(residual.dtype.element_ty)
        tl.store(residual + row * WIDTH + i, rounded, mask=live)
        wide = rounded.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, axis=0) / WIDTH + epsilon)
    normed = (wide * scale).to(out.dtype.element_ty).to(tl.float32)
    w = tl.load(weight + i, mask=live, other=0.0).to(tl.float32)
    tl.store(out + row * WIDTH + i, (normed * w).to(out.dtype.element_ty), mask=live)


def norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return _normed(x, x, weight, epsilon, add=False)


def add_norm(x: Tensor, residual: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return _normed(x, residual, weight, epsilon, add=True)


def _normed(x: Tensor, residual: Tensor, weight: Tensor, epsilon: float, *, add: bool) -> Tensor:
    out = torch.empty_like(x)
    rows, width = x.shape
    pad = _power(width)
    warps = max(1, min(8, pad // 256))
    _norm_kernel[(rows,)](x, residual, weight, out, epsilon, WIDTH=width, PAD=pad, ADD=add, num_warps=warps)
    return out


@triton.jit
def _swiglu_kernel(gate_up, out, INNER: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = i < INNER
    gate = tl.load(gate_up + row * 2 * INNER + i, mask=live, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * INNER + INNER + i, mask=live, other=0.0).to(tl.float32)
    silu = (gate / (1.0 + tl.exp(-gate))).to(out.dtype.element_ty).to(tl.float32)
    tl.store(out + row * INNER + i, (silu * up).to(out.dtype.element_ty), mask=live)


def swiglu(gate_up: Tensor) -> Tensor:
    rows, inner = gate_up.shape[0], gate_up.shape[1] // 2
    out = torch.empty((rows, inner), dtype=gate_up.dtype, device=gate_up.device)
    block = min(512, _power(inner))
    _swiglu_kernel[(rows, triton.cdiv(inner, block))](
        gate_up, out, INNER=inner, BLOCK=block, num_warps=max(1, block // 256)
    )
    return out


@triton.jit
def _rotate_store_kernel(
    qkv, q_weight, k_weight, cosines, sines, keys, values, tables, slots, positions, epsilon, table_width,
    key_block, key_token, key_head,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HEADS_PAD: tl.constexpr, KV_PAD: tl.constexpr,
    HALF: tl.constexpr, HALF_PAD: tl.constexpr, BLOCK: tl.constexpr, NORM: tl.constexpr,
):  # fmt: skip
    SIZE: tl.constexpr = 2 * HALF
    row = tl.program_id(0).to(tl.int64)
    position = tl.load(positions + row)
    slot = tl.load(slots + row)
    block = tl.load(tables + slot * table_width + position // BLOCK).to(tl.int64)
    place = block * key_block + (position % BLOCK) * key_token
    source = qkv + row * (HEADS + 2 * KV_HEADS) * SIZE

    h = tl.arange(0, HEADS_PAD)[:, None]
    d = tl.arange(0, HALF_PAD)[None, :]
    inside = d < HALF
    live = (h < HEADS + KV_HEADS) & inside
    a = tl.load(source + h * SIZE + d, mask=live, other=0.0).to(tl.float32)
    b = tl.load(source + h * SIZE + HALF + d, mask=live, other=0.0).to(tl.float32)
    if NORM:
        scale = tl.rsqrt(tl.sum(a * a + b * b, axis=1) / SIZE + epsilon)[:, None]
        q_a = tl.load(q_weight + d, mask=inside, other=0.0).to(tl.float32)
        q_b = tl.load(q_weight + HALF + d, mask=inside, other=0.0).to(tl.float32)
        k_a = tl.load(k_weight + d, mask=inside, other=0.0).to(tl.float32)
        k_b = tl.load(k_weight + HALF + d, mask=inside, other=0.0).to(tl.float32)
        a = (a * scale).to(qkv.dtype.element_ty).to(tl.float32) * tl.where(h < HEADS, q_a, k_a)
        b = (b * scale).to(qkv.dtype.element_ty).to(tl.float32) * tl.where(h < HEADS, q_b, k_b)
    cos = tl.load(cosines + position * HALF + d, mask=inside, other=0.0)
    sin = tl.load(sines + position * HALF + d, mask=inside, other=0.0)
    x = (a * cos - b * sin).to(qkv.dtype.element_ty)
    y = (b * cos + a * sin).to(qkv.dtype.element_ty)
    query = h < HEADS
    tl.store(source + h * SIZE + d, x, mask=live & query)
    tl.store(source + h * SIZE + HALF + d, y, mask=live & query)
    key = keys + place + (h - HEADS) * key_head
    tl.store(key + d, x, mask=live & (h >= HEADS))
    tl.store(key + HALF + d, y, mask=live & (h >= HEADS))

    g = tl.arange(0, KV_PAD)[:, None]
    e = tl.arange(0, 2 * HALF_PAD)[None, :]
    seen = (g < KV_HEADS) & (e < SIZE)
    v = tl.load(source + (HEADS + KV_HEADS + g) * SIZE + e, mask=seen, other=0.0)
    tl.store(values + place + g * key_head + e, v, mask=seen)


def rotate_store(
    qkv: Tensor,
    q_norm: Tensor | None,
    k_norm: Tensor | None,
    epsilon: float,
    cosines: Tensor,
    sines: Tensor,
    keys: Tensor,
    values: Tensor,
    heads: int,
    step: Step,
) -> Tensor:
    """Queries are rotated where they are; what comes back is a view of the fused projection."""
    kv_heads, size = keys.shape[2], keys.shape[3]
    q_weight, k_weight = (q_norm, k_norm) if q_norm is not None and k_norm is not None else (qkv, qkv)
    _rotate_store_kernel[(qkv.shape[0],)](
        qkv, q_weight, k_weight, cosines, sines, keys, values, step.tables, step.slots, step.positions, epsilon,
        step.tables.shape[1], keys.stride(0), keys.stride(1), keys.stride(2),
        HEADS=heads, KV_HEADS=kv_heads, HEADS_PAD=_power(heads + kv_heads), KV_PAD=_power(kv_heads),
        HALF=size // 2, HALF_PAD=_power(size // 2), BLOCK=keys.shape[1], NORM=q_norm is not None,
        num_warps=4 if heads * size > 2048 else 2,
    )  # fmt: skip
    return qkv.view(qkv.shape[0], -1, size)[:, :heads]


def project(x: Tensor, weight: Tensor) -> Tensor:
    """Logits in fp32, not rounded to the weights' dtype on the way."""
    if x.dtype == torch.float32:
        return F.linear(x, weight)
    return torch.mm(x, weight.t(), out_dtype=torch.float32)
