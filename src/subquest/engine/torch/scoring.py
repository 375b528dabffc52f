"""Log-probabilities of a few words after many prompts, in one pass over their shared beginning and one over the rest.

The pass is written in plain torch on the engine's weights and needs no cache blocks: what the prompts share is kept for
as long as the call takes. It runs in the engine's thread between two steps, so weights never change under it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from ...errors import ContextOverflow, EngineError
from ..base import Message
from ..choosing import shared_beginning
from .model import Model
from .reference import norm, swiglu
from .session import opening

if TYPE_CHECKING:
    from .engine import TorchEngine

PASS_TOKENS = 32_768
"""Tokens of one pass, padding included."""

Send = Callable[[Callable[[], None]], None]
"""Has something done in the engine's thread."""


async def choose(
    engine: TorchEngine, model: Model, send: Send, prompts: Sequence[Sequence[Message]], words: Sequence[str]
) -> list[tuple[float, ...]]:
    """`Choosing.choose` for the torch engine."""
    ids = [[i for s in opening(engine.chat, engine.vocabulary, p) for i in s.token_ids] for p in prompts]
    longest = max(map(len, ids), default=0)
    if longest >= engine.context_window:
        raise ContextOverflow(f"a prompt of {longest} tokens does not fit a window of {engine.context_window}")
    if not ids:
        return []
    wanted = [engine.vocabulary.encode(word, False)[0] for word in words]
    loop = asyncio.get_running_loop()
    future: asyncio.Future[list[tuple[float, ...]]] = loop.create_future()

    def work() -> None:
        found: list[tuple[float, ...]] | EngineError
        try:
            found = [tuple(row) for row in next_logprobs(model, ids, wanted).tolist()]
        except RuntimeError as error:
            found = EngineError(f"the torch engine could not score {len(ids)} prompts: {error}")
        if not loop.is_closed():
            loop.call_soon_threadsafe(_deliver, future, found)

    send(work)
    while not (await asyncio.wait([future], timeout=0.5))[0]:
        send(lambda: None)  # raises where the engine was closed or has failed meanwhile
    return future.result()


def _deliver(future: asyncio.Future[list[tuple[float, ...]]], found: list[tuple[float, ...]] | EngineError) -> None:
    if future.done():
        return
    if isinstance(found, EngineError):
        future.set_exception(found)
    else:
        future.set_result(found)


@torch.inference_mode()
def next_logprobs(model: Model, prompts: Sequence[Sequence[int]], wanted: Sequence[int]) -> Tensor:
    """[prompts, wanted] log-probabilities of the wanted tokens after each prompt, float32 on the CPU."""
    out = torch.empty(len(prompts), len(wanted))
    order = sorted(range(len(prompts)), key=lambda n: len(prompts[n]))
    start = shared_beginning(prompts)
    kept: list[tuple[Tensor, Tensor]] = []
    if start:
        _pass(model, [prompts[0][:start]], 0, [], kept)
    for group in _groups(order, [len(p) - start for p in prompts]):
        last = _pass(model, [prompts[n][start:] for n in group], start, kept, None)
        logprobs = (last.float() @ model.weights.head.float().t()).log_softmax(-1)
        out[group] = logprobs[:, list(wanted)].cpu()
    return out


def _groups(order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Prompts of similar length, as many as a pass takes."""
    group: list[int] = []
    for n in order:
        if group and (len(group) + 1) * lengths[n] > PASS_TOKENS:
            yield group
            group = []
        group.append(n)
    yield group


def _pass(
    model: Model,
    rows: Sequence[Sequence[int]],
    start: int,
    before: Sequence[tuple[Tensor, Tensor]],
    keep: list[tuple[Tensor, Tensor]] | None,
) -> Tensor:
    """States [rows, width] of each row's last token; rows begin at position `start`, after the keys and values of
    `before`. Tokens go through the matrices end to end (T in all); only attention pads them, on the right, where the
    causal mask hides the padding."""
    weights, a = model.weights, model.weights.architecture
    device = weights.device
    lengths = torch.tensor([len(row) for row in rows])
    length = int(lengths.max())
    position = torch.cat([torch.arange(len(row)) for row in rows])
    place = (torch.arange(len(rows)).repeat_interleave(lengths) * length + position).to(device)  # [T] where padded
    ids = torch.tensor([i for row in rows for i in row], device=device)
    angles = (table[start : start + length].to(weights.dtype) for table in a.rotary_table(device))
    cos, sin = (table[position.to(device), None] for table in angles)  # [T, 1, half]
    seen = torch.ones(length, start + length, dtype=torch.bool, device=device).tril(start)
    share = a.heads // a.kv_heads

    def padded(x: Tensor) -> Tensor:
        """[T, heads, size] as [rows, heads, length, size]."""
        wide = x.new_zeros(len(rows) * length, *x.shape[1:])
        wide[place] = x
        return wide.view(len(rows), length, *x.shape[1:]).transpose(1, 2)

    residual = F.embedding(ids, weights.embedding)  # [T, width]
    for i, layer in enumerate(weights.layers):
        qkv = layer.qkv(norm(residual, layer.attention_norm, a.epsilon)).view(len(ids), -1, a.head_size)
        q, k, v = qkv.split([a.heads, a.kv_heads, a.kv_heads], dim=1)  # type: ignore[no-untyped-call]
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = norm(q, layer.q_norm, a.epsilon), norm(k, layer.k_norm, a.epsilon)
        q, k, v = padded(_rotate(q, cos, sin)), padded(_rotate(k, cos, sin)), padded(v)
        if keep is not None:
            keep.append((k, v))
        if before:
            old_k, old_v = (old.expand(len(rows), -1, -1, -1) for old in before[i])
            k, v = torch.cat([old_k, k], 2), torch.cat([old_v, v], 2)
        k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=a.softmax_scale)
        residual = residual + layer.output(attended.transpose(1, 2).flatten(0, 1)[place].flatten(1))
        residual = residual + layer.down(swiglu(layer.gate_up(norm(residual, layer.mlp_norm, a.epsilon))))
    return norm(residual[lengths.cumsum(0).to(device) - 1], weights.norm, a.epsilon)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
