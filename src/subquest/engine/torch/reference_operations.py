"""The model's small operations in plain torch: what the kernels must compute, and what CPUs run.

Attention here goes context by context, each over exactly its own length, so a row's result does not depend on what else
is in the batch.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from .step import Draw, Step


def part_length(rows: int, kv_heads: int) -> int:
    """Tokens of a part of a context in decode steps: contexts are not cut here."""
    return 1 << 30


def embed(ids: Tensor, weight: Tensor) -> Tensor:
    return F.embedding(ids, weight)


def choose(given: Tensor, slots: Tensor, last: Tensor) -> Tensor:
    """The token each row feeds: the given one, or where that is -1 the one its slot drew last."""
    return torch.where(given >= 0, given, last[slots])


def norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)).to(x.dtype)


def add_norm(x: Tensor, residual: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Add to the residual stream in place and normalise the sum."""
    residual += x
    return norm(residual, weight, epsilon)


def swiglu(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up


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
    """Rotate queries and keys, put keys and values into the cache; queries [T, heads, head_size] come back."""
    size = keys.shape[-1]
    q, k, v = qkv.view(qkv.shape[0], -1, size).split([heads, keys.shape[2], keys.shape[2]], dim=1)  # type: ignore[no-untyped-call]
    if q_norm is not None and k_norm is not None:
        q, k = norm(q, q_norm, epsilon), norm(k, k_norm, epsilon)
    positions = step.positions.long()
    cos, sin = cosines[positions][:, None].to(q.dtype), sines[positions][:, None].to(q.dtype)
    blocks = step.tables[step.slots.long(), positions // keys.shape[1]].long()
    keys[blocks, positions % keys.shape[1]] = _rotate(k, cos, sin)
    values[blocks, positions % keys.shape[1]] = v
    return _rotate(q, cos, sin)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def attend(q: Tensor, keys: Tensor, values: Tensor, step: Step, scale: float) -> Tensor:
    """Causal attention of each token over its own context; [T, heads * head_size]. Padding in no tile gets 0."""
    out = torch.zeros_like(q)  # what is left of memory may be no number, which the next layer would put into the cache
    if step.tiles is None:
        slots, lengths = step.slots.long(), step.positions + 1
        alike = _alike(lengths.tolist())
        if len(alike) == 1:
            return _attend_rows(q, keys, values, slots, step.tables, lengths, scale).flatten(1)
        for rows in alike:
            out[rows] = _attend_rows(q[rows], keys, values, slots[rows], step.tables, lengths[rows], scale)
        return out.flatten(1)
    if step.rows:
        out[: step.rows] = attend(q[: step.rows], keys, values, step.decoding(), scale).view(step.rows, *q.shape[1:])
    for slot, row, position, count in _joined(step.tiles.tolist()):
        length = position + count
        blocks = step.tables[slot, : -(-length // keys.shape[1])]
        k = keys.index_select(0, blocks).flatten(0, 1)[:length]
        v = values.index_select(0, blocks).flatten(0, 1)[:length]
        out[row : row + count] = _attend(q[row : row + count], k, v, scale)
    return out.flatten(1)


def _joined(tiles: list[list[int]]) -> list[tuple[int, int, int, int]]:
    """Neighbouring tiles of one context as one stretch."""
    joined: list[tuple[int, int, int, int]] = []
    for slot, row, position, count in tiles:
        if not count:
            continue
        if joined and joined[-1][0] == slot and sum(joined[-1][2:]) == position:
            before = joined.pop()
            joined.append((slot, before[1], before[2], before[3] + count))
        else:
            joined.append((slot, row, position, count))
    return joined


def _alike(lengths: list[int]) -> list[list[int]]:
    """Rows whose contexts are of similar length, the longest at most twice the shortest."""
    found: dict[int, list[int]] = {}
    for row, length in enumerate(lengths):
        found.setdefault(length.bit_length(), []).append(row)
    return list(found.values())


def _attend_rows(
    q: Tensor, keys: Tensor, values: Tensor, slots: Tensor, tables: Tensor, lengths: Tensor, scale: float
) -> Tensor:
    """One token each, q [rows, heads, size], over contexts of at most as many tokens as the longest."""
    rows, heads, size = q.shape
    block, kv_heads = keys.shape[1:3]
    longest = int(lengths.max())
    blocks = tables[slots, : -(-longest // block)].flatten()
    k = keys.index_select(0, blocks).view(rows, -1, kv_heads, size)[:, :longest]
    v = values.index_select(0, blocks).view(rows, -1, kv_heads, size)[:, :longest]
    seen = (torch.arange(longest, device=q.device) < lengths[:, None])[:, None, None]
    grouped = q.view(rows, kv_heads, heads // kv_heads, size)  # the query heads of a key-value head, as if positions
    out = F.scaled_dot_product_attention(grouped, k.transpose(1, 2), v.transpose(1, 2), attn_mask=seen, scale=scale)
    return out.reshape(rows, heads, size)


def _attend(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """q [n, heads, size] of the last n positions over k, v [length, kv_heads, size]."""
    n, length = q.shape[0], k.shape[0]
    seen = torch.ones(n, length, dtype=torch.bool, device=q.device).tril(length - n)
    out = F.scaled_dot_product_attention(
        q.transpose(0, 1)[None],
        k.transpose(0, 1)[None],
        v.transpose(0, 1)[None],
        attn_mask=seen,
        scale=scale,
        enable_gqa=True,
    )
    return out[0].transpose(0, 1)


def project(x: Tensor, weight: Tensor) -> Tensor:
    """Logits in fp32."""
    return F.linear(x, weight).float()


def draw(logits: Tensor, draws: Draw, positions: Tensor) -> tuple[Tensor, Tensor]:
    """The next token of each row and its log-probability at the row's temperature (at 1 for greedy rows).

    Drawn by inverting the cumulative distribution at one uniform number a row, which depends on the request's seed and
    the position alone.
    """
    scaled = logits / divisor(draws)[:, None]
    top, chosen = scaled.max(-1)
    weights = (scaled - top[:, None]).exp()
    normaliser = weights.sum(-1).log()
    sampled = draws.temperature > 0
    if bool(sampled.any()):
        if draws.filtered:
            weights = weights.masked_fill(logits < floor(logits, draws)[:, None], 0.0)
        drawn = _invert(weights, uniform(draws.seed, positions))
        chosen = torch.where(sampled, drawn, chosen)
    logprobs = scaled.gather(1, chosen[:, None])[:, 0] - top - normaliser
    return chosen.int(), logprobs


def _invert(weights: Tensor, at: Tensor) -> Tensor:
    """The index of each row where its running sum passes the share `at` of its total: first the block, then inside."""
    rows, size = weights.shape
    blocks = F.pad(weights, (0, -size % 128)).view(rows, -1, 128)
    sums = blocks.sum(-1, dtype=torch.float64).cumsum(-1)
    target = (at * sums[:, -1])[:, None]
    block = torch.searchsorted(sums, target, right=True).clamp(max=blocks.shape[1] - 1)
    inside = blocks.gather(1, block[:, :, None].expand(-1, -1, 128))[:, 0].double().cumsum(-1)
    before = torch.where(block > 0, sums.gather(1, (block - 1).clamp(min=0)), 0.0)
    rest = torch.minimum(target - before, inside[:, -1:] * (1 - 1e-12))
    found = block * 128 + torch.searchsorted(inside, rest, right=True)
    return found[:, 0]


def divisor(draws: Draw) -> Tensor:
    """What a row's logits are divided by."""
    return torch.where(draws.temperature <= 0, 1.0, draws.temperature)


def floor(logits: Tensor, draws: Draw) -> Tensor:
    """The lowest logit of each row that top-k, then top-p, then min-p leave in; ties with it stay in too."""
    ordered = logits.sort(-1, descending=True).values
    scaled = ordered / divisor(draws)[:, None]
    rank = torch.arange(ordered.shape[1], device=logits.device)
    left = rank < torch.where(draws.top_k > 0, draws.top_k, ordered.shape[1])[:, None]
    probabilities = scaled.masked_fill(~left, float("-inf")).softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    left &= (before < draws.top_p[:, None]) & (scaled >= scaled[:, :1] + draws.min_p.log()[:, None])
    left |= rank == 0
    return ordered.masked_fill(~left, float("inf")).amin(-1)


_MASK = 0xFFFFFFFF
GOLDEN = 0x9E3779B9
"""2^32 over the golden ratio: an odd step that spreads neighbouring counters over all bits."""


def mix(x: Tensor) -> Tensor:
    """A bijective hash of 32-bit integers held in int64 (two rounds of xor-shift and multiply)."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _MASK
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _MASK
    return x ^ (x >> 16)


def uniform(seeds: Tensor, positions: Tensor) -> Tensor:
    """One number in (0, 1) for each pair, float64: a hash instead of a generator's state.

    It depends on the seed and the position alone, so a turn is sampled the same way in any batch, or after a
    preemption.
    """
    key = mix((seeds.long() & _MASK) ^ mix(positions.long() * GOLDEN & _MASK))
    return (key.double() + 0.5) / 2**32
