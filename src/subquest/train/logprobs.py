"""Log-probabilities of chosen tokens, without ever holding the logits of more than a few rows.

64k tokens over a vocabulary of 49k are 12.9 GB of float32 logits, and autograd would keep several such tensors. Here
the rows go through the output layer in chunks; only the log-normaliser of each row is kept, and the backward pass
computes each chunk's logits again. The softmax is in float32 and at the sampling temperature, as the ratio of two
policies clipped at 3e-4 needs: half-precision products are accumulated and returned in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import UsageError

CHUNK_LOGITS = 1 << 27
"""Logits held at once, at most: 512 MB in float32."""


class TokenLogprobs(NamedTuple):
    logprobs: Tensor
    """Log-probability of each target, float32."""
    entropy: Tensor | None
    """Entropy of each row's distribution in nats, where asked for."""


def token_logprobs(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    bias: Tensor | None = None,
    temperature: float = 1.0,
    entropy: bool = False,
    chunk: int | None = None,
) -> TokenLogprobs:
    """log softmax(hidden @ weight.T + bias, over temperature) at the targets.

    `hidden` [rows, width] are the last layer's states of the rows wanted, `weight` [vocabulary, width] the output
    layer (tied to the embeddings or not), `targets` [rows] the token each row should predict. Gradients reach hidden,
    weight and bias. `chunk` rows are held at once; by default as many as `CHUNK_LOGITS` allows.
    """
    if not temperature > 0:
        raise UsageError(
            f"log-probs need a positive temperature, not {temperature}: greedy rollouts cannot be trained on"
        )
    rows = chunk or max(1, CHUNK_LOGITS // weight.shape[0])
    apply: Callable[..., tuple[Tensor, Tensor]] = _ChunkedLogprobs.apply
    with torch.autocast(hidden.device.type, enabled=False):  # the precision is chosen here, not by the caller
        logprobs, spread = apply(hidden, weight, bias, targets, 1.0 / temperature, entropy, rows)
    return TokenLogprobs(logprobs, spread if entropy else None)


def _logits(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """float32 logits of some rows."""
    out = _product(hidden.to(weight.dtype), weight.t())
    if bias is not None:
        out += bias.float()
    return out


def _product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b, accumulated and returned in float32."""
    return a @ b if a.dtype == torch.float32 else torch.mm(a, b, out_dtype=torch.float32)


def _fill_rows(
    logits: Tensor,
    targets: Tensor,
    scale: float,
    logprobs: Tensor,
    normalisers: Tensor,
    entropies: Tensor,
    *,
    entropy: bool,
) -> None:
    """Fill the three tensors, one entry a row, from logits that are multiplied by `scale`; entropies where asked."""
    z = logits.mul_(scale) if scale != 1.0 else logits
    chosen = z.gather(1, targets[:, None]).squeeze(1)
    log_p = z.log_softmax(-1)  # one pass; logsumexp takes several
    logprobs.copy_(log_p.gather(1, targets[:, None]).squeeze(1))
    normalisers.copy_(chosen - logprobs)
    if entropy:
        entropies.copy_(-torch.linalg.vecdot(log_p.exp(), log_p))


def _slopes(
    logits: Tensor,
    targets: Tensor,
    scale: float,
    normalisers: Tensor,
    entropies: Tensor,
    on_logprobs: Tensor,
    on_entropies: Tensor | None,
    dtype: torch.dtype,
) -> Tensor:
    """Minus the slope of the loss on the logits; without slopes on the entropies, p less 1 at the target, which a row's
    `on_logprobs * scale` still has to multiply: that is left for the narrow side of the products."""
    z = logits.mul_(scale) if scale != 1.0 else logits
    upstream = on_logprobs[:, None] * scale
    p = z.softmax(-1)
    if on_entropies is None:
        return p.scatter_add_(1, targets[:, None], torch.full_like(upstream, -1.0)).to(dtype)
    # p * (upstream + on_entropy * (log p + entropy)), with log p = z - normaliser
    slope = on_entropies[:, None] * scale
    z = torch.addcmul(upstream + slope * (entropies - normalisers)[:, None], slope, z)
    return p.mul_(z).scatter_add_(1, targets[:, None], -upstream).to(dtype)


class _ChunkedLogprobs(torch.autograd.Function):
    """Forward keeps the normaliser (and entropy) of each row; backward recomputes each chunk's probabilities.

    With p = softmax(z): d log p_y / dz = 1_y - p and d entropy / dz = -p * (log p + entropy).
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        scale: float,
        entropy: bool,
        chunk: int,
    ) -> tuple[Tensor, Tensor]:
        n = hidden.shape[0]
        work = _working(hidden, weight)
        logprobs = torch.empty(n, dtype=torch.float32, device=hidden.device)
        normaliser = torch.empty_like(logprobs)
        spread = torch.zeros_like(logprobs)
        for start in range(0, n, chunk):
            part = slice(start, start + chunk)
            z = _logits(hidden[part], work, bias)
            _fill_rows(z, targets[part], scale, logprobs[part], normaliser[part], spread[part], entropy=entropy)
            del z
        ctx.save_for_backward(hidden, weight, bias, targets, normaliser, spread)
        ctx.scale, ctx.chunk = scale, chunk
        ctx.set_materialize_grads(False)  # entropy that is only reported costs nothing on the way back
        return logprobs, spread

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        on_logprobs, on_entropy = grads
        hidden, weight, bias, targets, normaliser, spread = ctx.saved_tensors
        if on_logprobs is None:
            on_logprobs = torch.zeros_like(normaliser)
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        work = _working(hidden, weight)
        grad_hidden = torch.empty_like(hidden) if needs_hidden else None
        grad_weight = torch.zeros_like(weight, dtype=torch.float32) if needs_weight else None
        grad_bias = torch.zeros_like(bias, dtype=torch.float32) if needs_bias else None
        for start in range(0, hidden.shape[0], ctx.chunk):
            part = slice(start, start + ctx.chunk)
            z = _logits(hidden[part], work, bias)
            spreads = None if on_entropy is None else on_entropy[part]
            factor = on_logprobs[part, None] * ctx.scale if spreads is None else None
            # a bias sums over the rows, in full precision
            dtype = work.dtype if grad_bias is None else torch.float32
            given = targets[part], ctx.scale, normaliser[part], spread[part], on_logprobs[part], spreads, dtype
            grad = _slopes(z, *given)
            del z
            states = hidden[part].to(work.dtype)
            if factor is not None:
                states = (states * factor).to(work.dtype)
            if grad_bias is not None:
                grad_bias -= grad.sum(0) if factor is None else (grad * factor).sum(0)
            grad = grad.to(work.dtype)
            if grad_hidden is not None:
                back = _product(grad, work)
                grad_hidden[part] = -(back if factor is None else back * factor)
            if grad_weight is not None:
                grad_weight -= _product(grad.t(), states)
        return (
            grad_hidden,
            None if grad_weight is None else grad_weight.to(weight.dtype),
            None if grad_bias is None else grad_bias.to(bias.dtype),
            None,
            None,
            None,
            None,
        )


def _working(hidden: Tensor, weight: Tensor) -> Tensor:
    """The output layer in the precision of the products: half on CUDA where both sides are half, else float32."""
    half = (torch.bfloat16, torch.float16)
    if hidden.is_cuda and hidden.dtype in half:
        return weight.to(hidden.dtype)
    return weight.float()
