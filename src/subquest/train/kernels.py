# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-any-return,no-untyped-call"
"""Rotary positions, norms and the gate of the feed-forward block as Triton kernels, one a direction; `operations` says
what they compute.

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
def _turned(first, second, cos, sin):
    return first * cos - second * sin, second * cos + first * sin


@triton.jit
def _halves_of(source, at, live, HALF: tl.constexpr):
    first = tl.load(source + at, mask=live, other=0.0).to(tl.float32)
    return first, tl.load(source + at + HALF, mask=live, other=0.0).to(tl.float32)


@triton.jit
def _store_halves(target, at, live, first, second, HALF: tl.constexpr):
    tl.store(target + at, first.to(target.dtype.element_ty), mask=live)
    tl.store(target + at + HALF, second.to(target.dtype.element_ty), mask=live)


@triton.jit
def _turn_kernel(
    q, k, v, cosines, sines, starts, places, new_q, new_k, new_v, q_row, k_row, v_row, new_q_row, new_k_row, new_v_row,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HEADS_PAD: tl.constexpr, KV_PAD: tl.constexpr,
    HALF: tl.constexpr, HALF_PAD: tl.constexpr, BACK: tl.constexpr, VALUES: tl.constexpr, SPREAD: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, HALF_PAD)[None, :]
    cos = tl.load(cosines + row * HALF + d, mask=d < HALF, other=0.0)
    sin = tl.load(sines + row * HALF + d, mask=d < HALF, other=0.0)
    if BACK:
        sin = -sin
    h = tl.arange(0, HEADS_PAD)[:, None]
    live = (h < HEADS) & (d < HALF)
    at = h * 2 * HALF + d
    first, second = _halves_of(q + row * q_row, at, live, HALF)
    first, second = _turned(first, second, cos, sin)
    _store_halves(new_q + row * new_q_row, at, live, first, second, HALF)

    g = tl.arange(0, KV_PAD)[:, None]
    live = (g < KV_HEADS) & (d < HALF)
    at = g * 2 * HALF + d
    if SPREAD:  # keys and values of one token have several places in what queries read
        begin = tl.load(starts + row)
        end = tl.load(starts + row + 1)
    if SPREAD and BACK:
        first = tl.zeros((KV_PAD, HALF_PAD), tl.float32)
        second = tl.zeros((KV_PAD, HALF_PAD), tl.float32)
        value = tl.zeros((KV_PAD, HALF_PAD), tl.float32)
        other = tl.zeros((KV_PAD, HALF_PAD), tl.float32)
        for n in range(begin, end):
            place = tl.load(places + n)
            a, b = _halves_of(k + place * k_row, at, live, HALF)
            first += a
            second += b
            a, b = _halves_of(v + place * v_row, at, live, HALF)
            value += a
            other += b
    else:
        first, second = _halves_of(k + row * k_row, at, live, HALF)
        if VALUES:
            value, other = _halves_of(v + row * v_row, at, live, HALF)
    first, second = _turned(first, second, cos, sin)
    if SPREAD and not BACK:
        for n in range(begin, end):
            place = tl.load(places + n)
            _store_halves(new_k + place * new_k_row, at, live, first, second, HALF)
            _store_halves(new_v + place * new_v_row, at, live, value, other, HALF)
    else:
        _store_halves(new_k + row * new_k_row, at, live, first, second, HALF)
        if VALUES:
            _store_halves(new_v + row * new_v_row, at, live, value, other, HALF)


def _turn(
    old: Sequence[Tensor], new: Sequence[Tensor], rotary: Sequence[Tensor], readers: Sequence[Tensor], *, back: bool
) -> None:
    """Two or three tensors [T, heads, size] into others; only rows may lie apart. The third is copied."""
    (q, k, *v), (new_q, new_k, *new_v) = old, new
    (rows, heads, size), kv_heads = q.shape, k.shape[1]
    values, new_values = (v[0], new_v[0]) if v else (k, new_k)
    starts, places = readers or rotary
    with torch.cuda.device_of(q):
        _turn_kernel[(rows,)](
            q, k, values, *rotary, starts, places, new_q, new_k, new_values,
            q.stride(0), k.stride(0), values.stride(0), new_q.stride(0), new_k.stride(0), new_values.stride(0),
            HEADS=heads, KV_HEADS=kv_heads, HEADS_PAD=_power(heads), KV_PAD=_power(kv_heads),
            HALF=size // 2, HALF_PAD=_power(size // 2), BACK=back, VALUES=bool(v), SPREAD=bool(readers),
            num_warps=4 if heads * size > 2048 else 2,
        )  # fmt: skip


class Turned(torch.autograd.Function):
    """Queries and keys turned. Takes (q, k), or (q, k, v) or (qkv,) and then gives the values too; heads are
    [T, n, size].

    With `readers` (`operations.Packing`) keys and values come in the order in which queries read them, and gradients of
    one that is read several times add up in float32.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rotary: tuple[Tensor, Tensor],
        readers: Sequence[Tensor],
        counts: tuple[int, ...],
        *parts: Tensor,
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(*rotary, *readers)
        ctx.counts, ctx.fused = counts, len(parts) == 1
        old = parts[0].split(counts, 1) if ctx.fused else parts
        rows = [len(old[0]), *(len(readers[1]) if readers else len(x) for x in old[1:])]
        new = tuple(x.new_empty((n, *x.shape[1:])) for n, x in zip(rows, old, strict=True))
        _turn(old, new, rotary, readers, back=False)
        return new

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        cosines, sines, *readers = ctx.saved_tensors
        old = [slope.contiguous() for slope in slopes]
        rows, _, size = old[0].shape
        if ctx.fused:
            whole = (old[0].new_empty((rows, sum(ctx.counts), size)),)
            new = whole[0].split(ctx.counts, 1)
        else:
            whole = new = tuple(x.new_empty((rows, *x.shape[1:])) for x in old)
        _turn(old, new, (cosines, sines), readers, back=True)
        return None, None, None, *whole


@triton.jit
def _norm_kernel(
    x, added, weight, total, out, epsilon, out_row, WIDTH: tl.constexpr, PAD: tl.constexpr, ADD: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, PAD)
    live = i < WIDTH
    wide = tl.load(x + row * WIDTH + i, mask=live, other=0.0).to(tl.float32)
    if ADD:
        rounded = (wide + tl.load(added + row * WIDTH + i, mask=live, other=0.0)).to(total.dtype.element_ty)
        tl.store(total + row * WIDTH + i, rounded, mask=live)
        wide = rounded.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, axis=0) / WIDTH + epsilon)
    w = tl.load(weight + i, mask=live, other=0.0).to(tl.float32)
    tl.store(out + row * out_row + i, (wide * scale * w).to(out.dtype.element_ty), mask=live)


@triton.jit
def _norm_back_kernel(
    total, weight, slope, beside, out, epsilon, slope_row,
    WIDTH: tl.constexpr, PAD: tl.constexpr, ADD: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, PAD)
    live = i < WIDTH
    wide = tl.load(total + row * WIDTH + i, mask=live, other=0.0).to(tl.float32)
    w = tl.load(weight + i, mask=live, other=0.0).to(tl.float32)
    s = tl.load(slope + row * slope_row + i, mask=live, other=0.0).to(tl.float32) * w
    scale = tl.rsqrt(tl.sum(wide * wide, axis=0) / WIDTH + epsilon)
    found = scale * (s - wide * (tl.sum(s * wide, axis=0) * scale * scale / WIDTH))
    if ADD:
        found += tl.load(beside + row * WIDTH + i, mask=live, other=0.0)
    tl.store(out + row * WIDTH + i, found.to(out.dtype.element_ty), mask=live)


class AddedNorm(torch.autograd.Function):
    """x normalised; or, where something is added to it, the sum and the sum normalised (`operations.add_norm`)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, added: Tensor | None, weight: Tensor, epsilon: float, columns: int
    ) -> tuple[Tensor, ...]:
        x = x.contiguous()
        rows, width = x.shape
        total = x if added is None else torch.empty_like(x)
        out = _with_room(x, width, columns)
        with torch.cuda.device_of(x):
            _norm_kernel[(rows,)](
                x, x if added is None else added.contiguous(), weight, total, out, epsilon, out.stride(0),
                ADD=added is not None, **_norm_shape(width),
            )  # fmt: skip
        ctx.save_for_backward(total, weight)
        ctx.epsilon = epsilon
        ctx.set_materialize_grads(False)  # nothing but the norm may read the last sum
        return (out,) if added is None else (total, out)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor | None) -> tuple[Tensor | None, ...]:
        beside, slope = (None, *slopes)[-2:]
        if slope is None:
            return beside, beside, None, None, None
        total, weight = ctx.saved_tensors
        out = torch.empty_like(total)
        slope = slope if slope.stride(1) == 1 else slope.contiguous()
        with torch.cuda.device_of(total):
            _norm_back_kernel[(total.shape[0],)](
                total, weight, slope, total if beside is None else beside.contiguous(), out, ctx.epsilon,
                slope.stride(0), ADD=beside is not None, **_norm_shape(total.shape[1]),
            )  # fmt: skip
        return out, out if ctx.needs_input_grad[1] else None, None, None, None


def _norm_shape(width: int) -> dict[str, int]:
    pad = _power(width)
    return {"WIDTH": width, "PAD": pad, "num_warps": max(1, min(8, pad // 256))}


def _with_room(like: Tensor, width: int, columns: int) -> Tensor:
    """[T, width], new; the rows lie `columns` apart where that is more (`lora_products`). No view for autograd: what is
    written between the rows later does not change them."""
    whole = like.new_empty((like.shape[0], max(width, columns)))
    return like.new_empty(0).set_(whole.untyped_storage(), 0, (len(whole), width), whole.stride())


@triton.jit
def _gate_kernel(gate, up, out, gate_row, up_row, out_row, INNER: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = i < INNER
    g = tl.load(gate + row * gate_row + i, mask=live, other=0.0).to(tl.float32)
    u = tl.load(up + row * up_row + i, mask=live, other=0.0).to(tl.float32)
    silu = (g / (1.0 + tl.exp(-g))).to(out.dtype.element_ty).to(tl.float32)
    tl.store(out + row * out_row + i, (silu * u).to(out.dtype.element_ty), mask=live)


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
    """silu(gate) * up. Takes (gate, up), or both side by side in one tensor; `columns` as in `operations.swiglu`."""

    @staticmethod
    def forward(ctx: Any, columns: int, *parts: Tensor) -> Tensor:
        ctx.save_for_backward(*parts)
        gate, up = _halves(parts)
        rows, inner = gate.shape
        out = _with_room(gate, inner, columns)
        with torch.cuda.device_of(gate):
            _gate_kernel[(rows, triton.cdiv(inner, _BLOCK))](
                gate, up, out, gate.stride(0), up.stride(0), out.stride(0), INNER=inner, BLOCK=_BLOCK, num_warps=2
            )
        return out

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
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
        return None, *found


def _halves(parts: Sequence[Tensor]) -> Sequence[Tensor]:
    return parts[0].chunk(2, -1) if len(parts) == 1 else parts
