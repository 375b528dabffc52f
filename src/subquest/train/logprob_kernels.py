# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-any-return,no-untyped-call"
"""Log-probs and entropy of rows of logits, and their slopes, as Triton kernels that read the logits once each way.

In plain torch the same takes a dozen passes over logits of 150,000 words a row (`logprobs` says what they compute).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_ROW_BLOCK = 4096
"""Logits of a row that a program reads at a time, on the way forward."""
_BLOCK = 1024


@triton.jit
def _row_kernel(
    logits, targets, logprobs, normalisers, entropies, scale, VOCABULARY: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    source = logits + row * VOCABULARY
    lane = tl.arange(0, BLOCK)
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    moment = tl.zeros((BLOCK,), tl.float32)  # sum of (x - top) exp(x - top)
    for first in range(0, VOCABULARY, BLOCK):
        i = first + lane
        x = tl.load(source + i, mask=i < VOCABULARY, other=float("-inf")) * scale
        highest = tl.maximum(top, x)
        safe = tl.where(highest == float("-inf"), 0.0, highest)
        shrink = tl.exp(top - safe)
        weight = tl.exp(x - safe)
        moment = (moment + total * tl.where(shrink > 0, top - safe, 0.0)) * shrink
        moment += weight * tl.where(weight > 0, x - safe, 0.0)
        total = total * shrink + weight
        top = highest
    all_top = tl.max(top, axis=0)
    shrink = tl.exp(top - all_top)
    all_moment = tl.sum((moment + total * tl.where(shrink > 0, top - all_top, 0.0)) * shrink, axis=0)
    all_total = tl.sum(total * shrink, axis=0)
    normaliser = all_top + tl.log(all_total)
    target = tl.load(targets + row)
    tl.store(normalisers + row, normaliser)
    tl.store(entropies + row, tl.log(all_total) - all_moment / all_total)
    tl.store(logprobs + row, tl.load(source + target) * scale - normaliser)


@triton.jit
def _slope_kernel(
    logits, targets, normalisers, entropies, on_logprobs, on_entropies, slopes, scale,
    VOCABULARY: tl.constexpr, BLOCK: tl.constexpr, SPREAD: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = i < VOCABULARY
    x = tl.load(logits + row * VOCABULARY + i, mask=live, other=float("-inf")) * scale
    log_p = x - tl.load(normalisers + row)
    p = tl.exp(log_p)
    chosen = tl.where(i == tl.load(targets + row), 1.0, 0.0)
    if SPREAD:
        upstream = tl.load(on_logprobs + row) * scale
        slope = tl.load(on_entropies + row) * scale
        away = tl.where(p > 0, log_p + tl.load(entropies + row), 0.0)
        value = p * (upstream + slope * away) - chosen * upstream
    else:
        value = p - chosen
    tl.store(slopes + row * VOCABULARY + i, value.to(slopes.dtype.element_ty), mask=live)


def rows_of(
    logits: Tensor,
    targets: Tensor,
    scale: float,
    logprobs: Tensor,
    normalisers: Tensor,
    entropies: Tensor,
    *,
    entropy: bool,
) -> None:
    """As `logprobs.rows_of`; entropies cost nothing here."""
    rows, vocabulary = logits.shape
    _row_kernel[(rows,)](
        logits, targets, logprobs, normalisers, entropies, scale,
        VOCABULARY=vocabulary, BLOCK=_ROW_BLOCK, num_warps=8,
    )  # fmt: skip


def slopes_of(
    logits: Tensor,
    targets: Tensor,
    scale: float,
    normalisers: Tensor,
    entropies: Tensor,
    on_logprobs: Tensor,
    on_entropies: Tensor | None,
    dtype: torch.dtype,
) -> Tensor:
    """As `logprobs.slopes_of`."""
    rows, vocabulary = logits.shape
    slopes = torch.empty((rows, vocabulary), dtype=dtype, device=logits.device)
    spread = on_entropies is not None
    _slope_kernel[(rows, triton.cdiv(vocabulary, _BLOCK))](
        logits, targets, normalisers, entropies, on_logprobs.contiguous(),
        on_entropies.contiguous() if on_entropies is not None else on_logprobs, slopes, scale,
        VOCABULARY=vocabulary, BLOCK=_BLOCK, SPREAD=spread, num_warps=4,
    )  # fmt: skip
    return slopes
