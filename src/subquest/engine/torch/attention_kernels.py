# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-any-return,no-untyped-call"
"""Attention as Triton kernels over the block cache; `reference_operations.attend` says what they compute.

Decode attention is bound by memory: one program reads one key-value head of one part of one context, through the block
table, and serves all query heads that share it. Parts have a fixed length (`step.part_length`), so short and long
contexts in a batch keep all processors busy, and a small batch of long contexts is spread over the whole device; a
second kernel puts the parts together by their softmax sums.

Where many rows begin with the same blocks (`step.shared`), another kernel reads these once for a tile of rows: their
queries are the rows of one matrix product. Its results are further parts of each row.

Tiles need sides that are powers of two. Heads of another size (`SIZE`) are padded to the next one (`PAD`) while they
are loaded; in the cache they have their own size.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from .step import SHARED_PARTS, SHARED_QUERIES, TILE, Step

_LOG2_E = 1.4426950408889634
_JOINED = 16
"""Parts of a context that are loaded at a time when they are put together."""


class _Streams(threading.local):
    """A second stream of each thread for each device: one engine may capture a graph while another one runs."""

    def __init__(self) -> None:
        self.of: dict[torch.device, torch.cuda.Stream] = {}


_streams = _Streams()


def _precision(x: Tensor) -> str:
    return "ieee" if x.dtype == torch.float32 else "tf32"


def _power(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def _decode_shape(pad: int, itemsize: int, programs: int) -> dict[str, int]:
    """Tokens that a program of the decode kernel loads at a time, its warps, and tiles under way (measured:
    docs/rollout-engine.md). Two programs with three tiles of 64 tokens and 128 bfloat16 channels fill a processor's
    shared memory; where there are many more programs, four smaller ones do."""
    if pad * itemsize > 256:
        return {"TILE": 32, "num_warps": 1, "num_stages": 2}
    if pad * itemsize == 256 and programs >= 640:
        return {"TILE": 32, "num_warps": 1, "num_stages": 3}
    return {"TILE": 64, "num_warps": 2, "num_stages": 3}


def _prefill_shape(pad: int, itemsize: int) -> dict[str, int]:
    """Tokens of a tile and warps, for 64 queries: three programs fit into a processor's shared memory if a head has 256
    bytes, with two tiles under way. The same shape serves shared prefixes."""
    return {"TILE": 64 if pad * itemsize <= 256 else 32, "num_warps": 4, "num_stages": 2}


@triton.jit
def _mix(scores, v, top, total, mixed, PRECISION: tl.constexpr):
    """Take a tile of values into the running softmax: its highest score, its sum, the values by their weights."""
    highest = tl.maximum(top, tl.max(scores, axis=1))
    shrink = tl.exp2(top - highest)
    weights = tl.exp2(scores - highest[:, None])
    total = total * shrink + tl.sum(weights, axis=1)
    mixed = mixed * shrink[:, None] + tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
    return highest, total, mixed


@triton.jit
def _mix_whole(
    query, keys, values, table, start, end, shift, key_block, key_token, scale, top, total, mixed,
    SIZE: tl.constexpr, PAD: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Take whole tiles of a context, all of which every query sees, into the running softmax."""
    d = tl.arange(0, PAD)
    n = tl.arange(0, TILE)
    for first in range(start, end, TILE):
        at = first + n
        block = tl.load(table + at // BLOCK).to(tl.int64)
        place = block * key_block + (at % BLOCK) * key_token + shift
        if SIZE != PAD:
            k = tl.load(keys + place[None, :] + d[:, None], mask=(d < SIZE)[:, None], other=0.0)
            v = tl.load(values + place[:, None] + d[None, :], mask=(d < SIZE)[None, :], other=0.0)
        else:
            k = tl.load(keys + place[None, :] + d[:, None])
            v = tl.load(values + place[:, None] + d[None, :])
        scores = tl.dot(query, k, input_precision=PRECISION) * scale
        top, total, mixed = _mix(scores, v, top, total, mixed, PRECISION)
    return top, total, mixed


@triton.jit
def _decode_kernel(
    q, keys, values, tables, slots, positions, shared_lengths, shared_parts, out, parts, sums, scale, q_row,
    table_width, key_block, key_token, key_head, split, splits,
    HEADS: tl.constexpr, GROUP: tl.constexpr, GROUP_PAD: tl.constexpr, SIZE: tl.constexpr, PAD: tl.constexpr,
    BLOCK: tl.constexpr, TILE: tl.constexpr, WHOLE: tl.constexpr, SHARED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    kv_head = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    part = tl.program_id(2)
    length = tl.load(positions + row) + 1
    start = part * split
    if SHARED:
        start += tl.load(shared_lengths + row)
        part += tl.load(shared_parts + row)
    if start < length:
        end = tl.minimum(start + split, length)
        table = tables + tl.load(slots + row) * table_width
        g = tl.arange(0, GROUP_PAD)
        d = tl.arange(0, PAD)
        head = kv_head * GROUP + g
        mask = (g < GROUP)[:, None] & (d < SIZE)[None, :]
        query = tl.load(q + row * q_row + head[:, None] * SIZE + d[None, :], mask=mask, other=0.0)
        n = tl.arange(0, TILE)
        top = tl.full((GROUP_PAD,), float("-inf"), tl.float32)
        total = tl.zeros((GROUP_PAD,), tl.float32)
        mixed = tl.zeros((GROUP_PAD, PAD), tl.float32)
        for first in range(start, end, TILE):
            at = first + n
            live = at < end
            block = tl.load(table + at // BLOCK, mask=live, other=0).to(tl.int64)
            place = block * key_block + (at % BLOCK) * key_token + kv_head * key_head
            k_live = live[None, :]
            v_live = live[:, None]
            if SIZE != PAD:
                k_live = k_live & (d < SIZE)[:, None]
                v_live = v_live & (d < SIZE)[None, :]
            k = tl.load(keys + place[None, :] + d[:, None], mask=k_live, other=0.0)
            v = tl.load(values + place[:, None] + d[None, :], mask=v_live, other=0.0)
            scores = tl.dot(query, k, input_precision=PRECISION) * scale
            scores = tl.where(live[None, :], scores, float("-inf"))
            top, total, mixed = _mix(scores, v, top, total, mixed, PRECISION)
        mixed = mixed / total[:, None]
        if WHOLE:
            target = out + row * HEADS * SIZE + head[:, None] * SIZE + d[None, :]
            tl.store(target, mixed.to(out.dtype.element_ty), mask=mask)
        else:
            place = (row * splits + part) * HEADS + head
            tl.store(parts + place[:, None] * SIZE + d[None, :], mixed, mask=mask)
            tl.store(sums + place, top + tl.log2(total), mask=g < GROUP)


@triton.jit
def _shared_kernel(
    q, keys, values, tables, slots, members, tiles, parts, sums, scale, q_row, table_width,
    key_block, key_token, key_head, splits,
    HEADS: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr, QUERIES: tl.constexpr, SIZE: tl.constexpr,
    PAD: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    kv_head = tl.program_id(0)
    tile = tiles + tl.program_id(1) * 4
    end = tl.load(tile + 2)
    if end > 0:
        member = members + tl.load(tile) * ROWS
        start = tl.load(tile + 1)
        m = tl.arange(0, QUERIES)
        d = tl.arange(0, PAD)
        row = tl.load(member + m // GROUP, mask=m < ROWS * GROUP, other=-1).to(tl.int64)
        used = row >= 0
        head = kv_head * GROUP + m % GROUP
        mask = used[:, None] & (d < SIZE)[None, :]
        query = tl.load(q + row[:, None] * q_row + head[:, None] * SIZE + d[None, :], mask=mask, other=0.0)
        table = tables + tl.load(slots + tl.load(member)) * table_width
        top = tl.full((QUERIES,), float("-inf"), tl.float32)
        total = tl.zeros((QUERIES,), tl.float32)
        mixed = tl.zeros((QUERIES, PAD), tl.float32)
        top, total, mixed = _mix_whole(
            query, keys, values, table, start, end, kv_head * key_head, key_block, key_token, scale,
            top, total, mixed, SIZE, PAD, BLOCK, TILE, PRECISION,
        )  # fmt: skip
        place = (row * splits + tl.load(tile + 3)) * HEADS + head
        tl.store(parts + place[:, None] * SIZE + d[None, :], mixed / total[:, None], mask=mask)
        tl.store(sums + place, top + tl.log2(total), mask=used)


@triton.jit
def _join_kernel(
    parts, sums, positions, shared_lengths, shared_parts, out, split, splits,
    HEADS: tl.constexpr, SIZE: tl.constexpr, PAD: tl.constexpr, AT_ONCE: tl.constexpr, SHARED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    last = tl.load(positions + row)
    count = 1
    if SHARED:
        last -= tl.load(shared_lengths + row)
        count += tl.load(shared_parts + row)
    count += last // split
    n = tl.arange(0, AT_ONCE)
    d = tl.arange(0, PAD)
    top = tl.full((1,), float("-inf"), tl.float32)
    total = tl.zeros((1,), tl.float32)
    mixed = tl.zeros((PAD,), tl.float32)
    for first in range(0, count, AT_ONCE):
        live = first + n < count
        place = (row * splits + first + n) * HEADS + head
        weight = tl.load(sums + place, mask=live, other=float("-inf"))
        mask = live[:, None] & (d < SIZE)[None, :]
        values = tl.load(parts + place[:, None] * SIZE + d[None, :], mask=mask, other=0.0)
        highest = tl.maximum(top, tl.max(weight, axis=0))
        shrink = tl.exp2(top - highest)
        grow = tl.exp2(weight - highest)
        total = total * shrink + tl.sum(grow, axis=0)
        mixed = mixed * shrink + tl.sum(values * grow[:, None], axis=0)
        top = highest
    target = out + (row * HEADS + head) * SIZE + d
    tl.store(target, (mixed / total).to(out.dtype.element_ty), mask=d < SIZE)


@triton.jit
def _prefill_kernel(
    q, keys, values, tables, tiles, out, scale, q_row, table_width, key_block, key_token, key_head,
    HEADS: tl.constexpr, GROUP: tl.constexpr, SIZE: tl.constexpr, PAD: tl.constexpr, BLOCK: tl.constexpr,
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
        d = tl.arange(0, PAD)
        n = tl.arange(0, TILE)
        mask = (m < count)[:, None] & (d < SIZE)[None, :]
        query = tl.load(q + (row + m)[:, None] * q_row + head * SIZE + d[None, :], mask=mask, other=0.0)
        table = tables + slot * table_width
        shift = (head // GROUP) * key_head
        top = tl.full((ROWS,), float("-inf"), tl.float32)
        total = tl.zeros((ROWS,), tl.float32)
        mixed = tl.zeros((ROWS, PAD), tl.float32)
        seen_by_all = (position + 1) // TILE * TILE
        top, total, mixed = _mix_whole(
            query, keys, values, table, 0, seen_by_all, shift, key_block, key_token, scale,
            top, total, mixed, SIZE, PAD, BLOCK, TILE, PRECISION,
        )  # fmt: skip
        end = position + count
        for first in range(seen_by_all, end, TILE):
            at = first + n
            live = at < end
            block = tl.load(table + at // BLOCK, mask=live, other=0).to(tl.int64)
            place = block * key_block + (at % BLOCK) * key_token + shift
            k_live = live[None, :]
            v_live = live[:, None]
            if SIZE != PAD:
                k_live = k_live & (d < SIZE)[:, None]
                v_live = v_live & (d < SIZE)[None, :]
            k = tl.load(keys + place[None, :] + d[:, None], mask=k_live, other=0.0)
            v = tl.load(values + place[:, None] + d[None, :], mask=v_live, other=0.0)
            scores = tl.dot(query, k, input_precision=PRECISION) * scale
            seen = live[None, :] & (at[None, :] <= position + m[:, None])
            scores = tl.where(seen, scores, float("-inf"))
            top, total, mixed = _mix(scores, v, top, total, mixed, PRECISION)
        target = out + ((row + m)[:, None] * HEADS + head) * SIZE + d[None, :]
        tl.store(target, (mixed / total[:, None]).to(out.dtype.element_ty), mask=mask)


def _prefill(q: Tensor, keys: Tensor, values: Tensor, step: Step, scale: float, out: Tensor) -> None:
    """The tokens of prompts, in tiles."""
    assert step.tiles is not None
    layout, common = _layout(q, keys, step), _common(q, keys)
    shape = _prefill_shape(common["PAD"], q.element_size())
    _prefill_kernel[(step.tiles.shape[0], q.shape[1])](
        q, keys, values, step.tables, step.tiles, out, scale, *layout, ROWS=TILE, **shape, **common
    )  # fmt: skip


def _decode(q: Tensor, keys: Tensor, values: Tensor, step: Step, scale: float, out: Tensor) -> None:
    """One token of each context."""
    rows, heads, size = q.shape
    kv_heads = keys.shape[2]
    layout, common = _layout(q, keys, step), _common(q, keys)
    pad = common["PAD"]
    splits, shared = step.splits, step.shared
    parts = sums = out
    prefixes = (step.slots, step.slots)  # not read
    if shared is not None:
        splits += SHARED_PARTS
        prefixes = (shared.lengths, shared.parts)
    if splits > 1:
        parts = torch.empty((rows, splits, heads, size), dtype=torch.float32, device=q.device)
        sums = torch.empty((rows, splits, heads), dtype=torch.float32, device=q.device)
    if shared is not None:
        _shared_kernel[(kv_heads, shared.tiles.shape[0])](
            q, keys, values, step.tables, step.slots, shared.members, shared.tiles, parts, sums, scale, *layout, splits,
            ROWS=shared.members.shape[1], QUERIES=SHARED_QUERIES, **_prefill_shape(pad, q.element_size()), **common,
        )  # fmt: skip
    _decode_kernel[(kv_heads, rows, step.splits)](
        q, keys, values, step.tables, step.slots, step.positions, *prefixes, out, parts, sums, scale, *layout,
        step.part, splits, GROUP_PAD=max(16, _power(heads // kv_heads)), WHOLE=splits == 1, SHARED=shared is not None,
        **_decode_shape(pad, q.element_size(), rows * kv_heads), **common,
    )  # fmt: skip
    if splits > 1:
        _join_kernel[(rows, heads)](
            parts, sums, step.positions, *prefixes, out, step.part, splits,
            HEADS=heads, SIZE=size, PAD=pad, AT_ONCE=_JOINED, SHARED=shared is not None, num_warps=2,
        )  # fmt: skip


def _layout(q: Tensor, keys: Tensor, step: Step) -> tuple[int, ...]:
    return q.stride(0), step.tables.shape[1], keys.stride(0), keys.stride(1), keys.stride(2)


def _common(q: Tensor, keys: Tensor) -> dict[str, Any]:
    _, heads, size = q.shape
    return {
        "HEADS": heads, "GROUP": heads // keys.shape[2], "SIZE": size, "PAD": max(16, _power(size)),
        "BLOCK": keys.shape[1], "PRECISION": _precision(q),
    }  # fmt: skip


def attend(q: Tensor, keys: Tensor, values: Tensor, step: Step, scale: float) -> Tensor:
    rows, heads, size = q.shape
    out = torch.empty((rows, heads * size), dtype=q.dtype, device=q.device)
    arguments = keys, values, step, scale * _LOG2_E, out
    if step.tiles is None:
        _decode(q, *arguments)
    elif not step.rows:
        _prefill(q, *arguments)
    elif not q.is_cuda:  # Triton interprets
        _decode(q[: step.rows], *arguments)
        _prefill(q, *arguments)
    else:  # one kernel waits for memory while the other one computes
        here, beside = torch.cuda.current_stream(q.device), _second_stream(q.device)
        beside.wait_stream(here)
        try:
            with torch.cuda.stream(beside):
                _prefill(q, *arguments)  # first: its programs take longer
            _decode(q[: step.rows], *arguments)
        finally:  # a graph that is being captured ends on one stream
            here.wait_stream(beside)
    return out


def _second_stream(device: torch.device) -> torch.cuda.Stream:
    if device not in _streams.of:
        _streams.of[device] = torch.cuda.Stream(device)
    return _streams.of[device]
