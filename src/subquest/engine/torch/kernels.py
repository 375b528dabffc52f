# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-any-return,no-untyped-call"
"""The model's small operations as Triton kernels; `reference` says what each computes.

Decode attention is bound by memory: one program reads one key-value head of one part of one context, through the block
table, and serves all query heads that share it. Parts have a fixed length, so short and long contexts in a batch keep
all processors busy, and a small batch of long contexts is spread over the whole device; a second kernel puts the parts
together by their softmax sums.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from . import reference
from .step import TILE, Draw, Step

_DECODE_TILE = 32
"""Tokens that a program of the decode kernel, one warp, loads at a time (measured: docs/rollout-engine.md)."""
_DRAW_PARTS = 8
_DRAW_BLOCK = 1024


def part_length(rows: int, kv_heads: int) -> int:
    """Tokens of a part of a context in decode steps: long where the rows alone fill the device."""
    return next(
        (length for length, programs in ((1024, 768), (512, 384), (256, 96)) if rows * kv_heads >= programs), 128
    )


def _power(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def _precision(x: Tensor) -> str:
    return "ieee" if x.dtype == torch.float32 else "tf32"


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
    HALF: tl.constexpr, BLOCK: tl.constexpr, NORM: tl.constexpr,
):  # fmt: skip
    SIZE: tl.constexpr = 2 * HALF
    row = tl.program_id(0).to(tl.int64)
    position = tl.load(positions + row)
    slot = tl.load(slots + row)
    block = tl.load(tables + slot * table_width + position // BLOCK).to(tl.int64)
    place = block * key_block + (position % BLOCK) * key_token
    source = qkv + row * (HEADS + 2 * KV_HEADS) * SIZE

    h = tl.arange(0, HEADS_PAD)[:, None]
    d = tl.arange(0, HALF)[None, :]
    live = (h < HEADS + KV_HEADS) & (d < HALF)
    a = tl.load(source + h * SIZE + d, mask=live, other=0.0).to(tl.float32)
    b = tl.load(source + h * SIZE + HALF + d, mask=live, other=0.0).to(tl.float32)
    if NORM:
        scale = tl.rsqrt(tl.sum(a * a + b * b, axis=1) / SIZE + epsilon)[:, None]
        is_query = h < HEADS
        weight_a = tl.where(is_query, tl.load(q_weight + d).to(tl.float32), tl.load(k_weight + d).to(tl.float32))
        weight_b = tl.where(
            is_query, tl.load(q_weight + HALF + d).to(tl.float32), tl.load(k_weight + HALF + d).to(tl.float32)
        )
        a = (a * scale).to(qkv.dtype.element_ty).to(tl.float32) * weight_a
        b = (b * scale).to(qkv.dtype.element_ty).to(tl.float32) * weight_b
    cos = tl.load(cosines + position * HALF + d)
    sin = tl.load(sines + position * HALF + d)
    x = (a * cos - b * sin).to(qkv.dtype.element_ty)
    y = (b * cos + a * sin).to(qkv.dtype.element_ty)
    query = h < HEADS
    tl.store(source + h * SIZE + d, x, mask=live & query)
    tl.store(source + h * SIZE + HALF + d, y, mask=live & query)
    key = keys + place + (h - HEADS) * key_head
    tl.store(key + d, x, mask=live & (h >= HEADS))
    tl.store(key + HALF + d, y, mask=live & (h >= HEADS))

    g = tl.arange(0, KV_PAD)[:, None]
    e = tl.arange(0, SIZE)[None, :]
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
        HALF=size // 2, BLOCK=keys.shape[1], NORM=q_norm is not None, num_warps=4 if heads * size > 2048 else 2,
    )  # fmt: skip
    return qkv.view(qkv.shape[0], -1, size)[:, :heads]


@triton.jit
def _decode_kernel(
    q, keys, values, tables, slots, positions, out, parts, sums, scale, q_row, table_width,
    key_block, key_token, key_head, split, splits,
    HEADS: tl.constexpr, GROUP: tl.constexpr, GROUP_PAD: tl.constexpr, SIZE: tl.constexpr,
    BLOCK: tl.constexpr, TILE: tl.constexpr, WHOLE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    kv_head = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    part = tl.program_id(2)
    length = tl.load(positions + row) + 1
    start = part * split
    if start < length:
        end = tl.minimum(start + split, length)
        table = tables + tl.load(slots + row) * table_width
        g = tl.arange(0, GROUP_PAD)
        d = tl.arange(0, SIZE)
        head = kv_head * GROUP + g
        query = tl.load(q + row * q_row + head[:, None] * SIZE + d[None, :], mask=(g < GROUP)[:, None], other=0.0)
        n = tl.arange(0, TILE)
        top = tl.full((GROUP_PAD,), float("-inf"), tl.float32)
        total = tl.zeros((GROUP_PAD,), tl.float32)
        mixed = tl.zeros((GROUP_PAD, SIZE), tl.float32)
        for first in range(start, end, TILE):
            at = first + n
            live = at < end
            block = tl.load(table + at // BLOCK, mask=live, other=0).to(tl.int64)
            place = block * key_block + (at % BLOCK) * key_token + kv_head * key_head
            k = tl.load(keys + place[None, :] + d[:, None], mask=live[None, :], other=0.0)
            v = tl.load(values + place[:, None] + d[None, :], mask=live[:, None], other=0.0)
            scores = tl.dot(query, k, input_precision=PRECISION) * scale
            scores = tl.where(live[None, :], scores, float("-inf"))
            highest = tl.maximum(top, tl.max(scores, axis=1))
            shrink = tl.exp2(top - highest)
            weights = tl.exp2(scores - highest[:, None])
            total = total * shrink + tl.sum(weights, axis=1)
            mixed = mixed * shrink[:, None] + tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
            top = highest
        mixed = mixed / total[:, None]
        mask = (g < GROUP)[:, None] & (d < SIZE)[None, :]
        if WHOLE:
            target = out + row * HEADS * SIZE + head[:, None] * SIZE + d[None, :]
            tl.store(target, mixed.to(out.dtype.element_ty), mask=mask)
        else:
            place = (row * splits + part) * HEADS + head
            tl.store(parts + place[:, None] * SIZE + d[None, :], mixed, mask=mask)
            tl.store(sums + place, top + tl.log2(total), mask=g < GROUP)


@triton.jit
def _join_kernel(
    parts, sums, positions, out, split, splits, HEADS: tl.constexpr, HEADS_PAD: tl.constexpr, SIZE: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    count = tl.load(positions + row) // split + 1
    h = tl.arange(0, HEADS_PAD)
    d = tl.arange(0, SIZE)
    live = h < HEADS
    top = tl.full((HEADS_PAD,), float("-inf"), tl.float32)
    total = tl.zeros((HEADS_PAD,), tl.float32)
    mixed = tl.zeros((HEADS_PAD, SIZE), tl.float32)
    for part in range(count):
        place = (row * splits + part) * HEADS + h
        weight = tl.load(sums + place, mask=live, other=0.0)
        values = tl.load(parts + place[:, None] * SIZE + d[None, :], mask=live[:, None], other=0.0)
        highest = tl.maximum(top, weight)
        shrink = tl.exp2(top - highest)
        grow = tl.exp2(weight - highest)
        total = total * shrink + grow
        mixed = mixed * shrink[:, None] + values * grow[:, None]
        top = highest
    target = out + (row * HEADS + h[:, None]) * SIZE + d[None, :]
    tl.store(target, (mixed / total[:, None]).to(out.dtype.element_ty), mask=live[:, None] & (d < SIZE)[None, :])


@triton.jit
def _prefill_kernel(
    q, keys, values, tables, tiles, out, scale, q_row, table_width, key_block, key_token, key_head,
    HEADS: tl.constexpr, GROUP: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr,
    ROWS: tl.constexpr, TILE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    tile = tiles + tl.program_id(0) * 4
    head = tl.program_id(1)
    count = tl.load(tile + 3)
    if count > 0:
        slot = tl.load(tile)
        row = tl.load(tile + 1).to(tl.int64)
        position = tl.load(tile + 2)
        m = tl.arange(0, ROWS)
        d = tl.arange(0, SIZE)
        n = tl.arange(0, TILE)
        mine = m < count
        query = tl.load(q + (row + m)[:, None] * q_row + head * SIZE + d[None, :], mask=mine[:, None], other=0.0)
        table = tables + slot * table_width
        shift = (head // GROUP) * key_head
        top = tl.full((ROWS,), float("-inf"), tl.float32)
        total = tl.zeros((ROWS,), tl.float32)
        mixed = tl.zeros((ROWS, SIZE), tl.float32)
        end = position + count
        for first in range(0, end, TILE):
            at = first + n
            live = at < end
            block = tl.load(table + at // BLOCK, mask=live, other=0).to(tl.int64)
            place = block * key_block + (at % BLOCK) * key_token + shift
            k = tl.load(keys + place[None, :] + d[:, None], mask=live[None, :], other=0.0)
            v = tl.load(values + place[:, None] + d[None, :], mask=live[:, None], other=0.0)
            scores = tl.dot(query, k, input_precision=PRECISION) * scale
            seen = live[None, :] & (at[None, :] <= position + m[:, None])
            scores = tl.where(seen, scores, float("-inf"))
            highest = tl.maximum(top, tl.max(scores, axis=1))
            shrink = tl.exp2(top - highest)
            weights = tl.exp2(scores - highest[:, None])
            total = total * shrink + tl.sum(weights, axis=1)
            mixed = mixed * shrink[:, None] + tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
            top = highest
        target = out + ((row + m)[:, None] * HEADS + head) * SIZE + d[None, :]
        tl.store(target, (mixed / total[:, None]).to(out.dtype.element_ty), mask=mine[:, None] & (d < SIZE)[None, :])


_LOG2_E = 1.4426950408889634


def attend(q: Tensor, keys: Tensor, values: Tensor, step: Step, scale: float) -> Tensor:
    rows, heads, size = q.shape
    kv_heads = keys.shape[2]
    group = heads // kv_heads
    out = torch.empty((rows, heads * size), dtype=q.dtype, device=q.device)
    cache = (keys.stride(0), keys.stride(1), keys.stride(2))
    common: dict[str, Any] = {"HEADS": heads, "GROUP": group, "SIZE": size, "BLOCK": keys.shape[1]}
    common["PRECISION"] = _precision(q)
    if step.tiles is not None:
        _prefill_kernel[(step.tiles.shape[0], heads)](
            q, keys, values, step.tables, step.tiles, out, scale * _LOG2_E, q.stride(0), step.tables.shape[1], *cache,
            ROWS=TILE, TILE=64, num_warps=4, num_stages=3, **common,
        )  # fmt: skip
        return out
    splits = step.splits
    parts = sums = out
    if splits > 1:
        parts = torch.empty((rows, splits, heads, size), dtype=torch.float32, device=q.device)
        sums = torch.empty((rows, splits, heads), dtype=torch.float32, device=q.device)
    _decode_kernel[(kv_heads, rows, splits)](
        q, keys, values, step.tables, step.slots, step.positions, out, parts, sums, scale * _LOG2_E, q.stride(0),
        step.tables.shape[1], *cache, step.part, splits,
        GROUP_PAD=max(16, _power(group)), TILE=_DECODE_TILE, WHOLE=splits == 1, num_warps=1, num_stages=2, **common,
    )  # fmt: skip
    if splits > 1:
        _join_kernel[(rows,)](
            parts, sums, step.positions, out, step.part, splits, HEADS=heads, HEADS_PAD=_power(heads), SIZE=size
        )
    return out


def project(x: Tensor, weight: Tensor) -> Tensor:
    """Logits in fp32, not rounded to the weights' dtype on the way."""
    if x.dtype == torch.float32:
        return F.linear(x, weight)
    return torch.mm(x, weight.t(), out_dtype=torch.float32)


@triton.jit
def _mix(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _draw_part_kernel(
    logits, temperatures, seeds, positions, floors, scores, places, tops, totals,
    VOCABULARY: tl.constexpr, PARTS: tl.constexpr, SHARE: tl.constexpr, BLOCK: tl.constexpr, FILTERED: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(0)
    row = tl.program_id(1)
    temperature = tl.load(temperatures + row)
    greedy = temperature <= 0.0
    factor = tl.where(greedy, 1.0, 1.0 / tl.where(greedy, 1.0, temperature)) * 1.4426950408889634
    seed = tl.load(seeds + row).to(tl.uint32)
    position = tl.load(positions + row).to(tl.uint32)
    key = _mix(seed ^ _mix(position * 0x9E3779B9))
    source = logits + row.to(tl.int64) * VOCABULARY
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    where = tl.zeros((BLOCK,), tl.int32)
    lane = tl.arange(0, BLOCK)
    for first in range(0, SHARE, BLOCK):
        i = part * SHARE + first + lane
        live = (first + lane < SHARE) & (i < VOCABULARY)
        raw = tl.load(source + i, mask=live, other=float("-inf"))
        x = raw * factor
        highest = tl.maximum(top, x)
        safe = tl.where(highest == float("-inf"), 0.0, highest)
        total = total * tl.exp2(top - safe) + tl.exp2(x - safe)
        top = highest
        # minus the logarithm of an exponential variable is Gumbel noise; a series keeps small exponentials exact
        u = (_mix(i.to(tl.uint32) * 0x9E3779B9 + key).to(tl.float32) + 0.5) * 2.3283064365386963e-10
        series = (u + 0.5 * u * u) * 1.4426950408889634
        exponential = tl.where(u < 0.001, series, -tl.log2(1.0 - tl.minimum(u, 0.99999994)))
        score = tl.where(greedy, x, x - tl.log2(exponential))
        score = tl.where(live, score, float("-inf"))
        if FILTERED:
            score = tl.where(raw >= tl.load(floors + row), score, float("-inf"))
        better = score > best
        best = tl.where(better, score, best)
        where = tl.where(better, i, where)
    all_top = tl.max(top, axis=0)
    shift = tl.where(top == float("-inf"), 0.0, tl.exp2(top - all_top))
    all_total = tl.sum(total * shift, axis=0)
    winner = tl.max(best, axis=0)
    index = tl.min(tl.where(best == winner, where, 2147483647), axis=0)
    place = row * PARTS + part
    tl.store(scores + place, winner)
    tl.store(places + place, index)
    tl.store(tops + place, all_top)
    tl.store(totals + place, all_total)


@triton.jit
def _draw_join_kernel(
    logits, temperatures, scores, places, tops, totals, ids, logprobs,
    VOCABULARY: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    at = row * PARTS + tl.arange(0, PARTS)
    score = tl.load(scores + at)
    place = tl.load(places + at)
    top = tl.load(tops + at)
    total = tl.load(totals + at)
    winner = tl.max(score, axis=0)
    index = tl.min(tl.where(score == winner, place, 2147483647), axis=0)
    temperature = tl.load(temperatures + row)
    greedy = temperature <= 0.0
    factor = tl.where(greedy, 1.0, 1.0 / tl.where(greedy, 1.0, temperature))
    all_top = tl.max(top, axis=0)
    normaliser = (all_top + tl.log2(tl.sum(total * tl.exp2(top - all_top), axis=0))) * 0.6931471805599453
    tl.store(ids + row, index)
    tl.store(logprobs + row, tl.load(logits + row * VOCABULARY + index) * factor - normaliser)


def draw(logits: Tensor, draws: Draw, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Gumbel-max, in units of log 2: every token gets noise of its own from the seed, the position and its id."""
    rows, vocabulary = logits.shape
    floors = draws.temperature
    if draws.filtered:
        floors = reference.floor(logits, draws)
    scores, tops, totals = torch.empty((3, rows, _DRAW_PARTS), dtype=torch.float32, device=logits.device)
    places = torch.empty((rows, _DRAW_PARTS), dtype=torch.int32, device=logits.device)
    ids = torch.empty(rows, dtype=torch.int32, device=logits.device)
    logprobs = torch.empty(rows, dtype=torch.float32, device=logits.device)
    share = triton.cdiv(vocabulary, _DRAW_PARTS)
    _draw_part_kernel[(_DRAW_PARTS, rows)](
        logits, draws.temperature, draws.seed, positions, floors, scores, places, tops, totals,
        VOCABULARY=vocabulary, PARTS=_DRAW_PARTS, SHARE=share, BLOCK=_DRAW_BLOCK, FILTERED=draws.filtered, num_warps=4,
    )  # fmt: skip
    _draw_join_kernel[(rows,)](
        logits, draws.temperature, scores, places, tops, totals, ids, logprobs,
        VOCABULARY=vocabulary, PARTS=_DRAW_PARTS, num_warps=1,
    )  # fmt: skip
    return ids, logprobs
