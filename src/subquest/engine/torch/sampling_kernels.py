# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-any-return,no-untyped-call"
"""Drawing tokens as Triton kernels: Gumbel-max over parts of the vocabulary, then the best part.

Noise comes from a hash of the request's seed, the position and the token, so it depends on nothing else in the batch.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from . import reference_operations as reference
from .step import Draw

_PARTS = 8
"""Programs that share a row's vocabulary."""
_BLOCK = 1024


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
    scores, tops, totals = torch.empty((3, rows, _PARTS), dtype=torch.float32, device=logits.device)
    places = torch.empty((rows, _PARTS), dtype=torch.int32, device=logits.device)
    ids = torch.empty(rows, dtype=torch.int32, device=logits.device)
    logprobs = torch.empty(rows, dtype=torch.float32, device=logits.device)
    share = triton.cdiv(vocabulary, _PARTS)
    _draw_part_kernel[(_PARTS, rows)](
        logits, draws.temperature, draws.seed, positions, floors, scores, places, tops, totals,
        VOCABULARY=vocabulary, PARTS=_PARTS, SHARE=share, BLOCK=_BLOCK, FILTERED=draws.filtered, num_warps=4,
    )  # fmt: skip
    _draw_join_kernel[(rows,)](
        logits, draws.temperature, scores, places, tops, totals, ids, logprobs,
        VOCABULARY=vocabulary, PARTS=_PARTS, num_warps=1,
    )  # fmt: skip
    return ids, logprobs
