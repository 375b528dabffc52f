"""Log-probabilities of a few words after many prompts, in one pass over their shared beginning and one over the rest.

The pass is written in plain torch on the engine's weights and needs no cache blocks: what the prompts share is kept for
as long as the call takes. It runs in the engine's thread between two steps, so weights never change under it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ...errors import ContextOverflow, EngineError
from ..base import Message
from ..choosing import shared_beginning
from .model import Model
from .reference import norm, swiglu
from .session import opening
from .weights import Linear, Weights

if TYPE_CHECKING:
    from .engine import TorchEngine

PASS_TOKENS = 32_768
"""Tokens of one pass, padding included."""
WORTH_HALVING = 256
"""Tokens from which on it pays to round the matrices to half precision for one pass."""

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
    """States [rows, width] of each row's last token. Rows come by length and begin at position `start`, after the keys
    and values of `before`. Their tokens (T in all) lie end to end, except in attention."""
    weights, a = model.weights, model.weights.architecture
    device = weights.device
    ids = torch.tensor([i for row in rows for i in row], device=device)
    lengths = [len(row) for row in rows]
    positions = torch.cat([torch.arange(start, start + n) for n in lengths]).to(device)
    cos, sin = (table.to(weights.dtype)[positions, None] for table in a.rotary_table(device))  # [T, 1, half]
    alike = list(_alike(lengths, start, device))
    times = _in_half if len(ids) >= WORTH_HALVING and _halves(weights) else Linear.__call__
    residual = F.embedding(ids, weights.embedding)  # [T, width]
    for i, layer in enumerate(weights.layers):
        qkv = times(layer.qkv, norm(residual, layer.attention_norm, a.epsilon)).view(len(ids), -1, a.head_size)
        q, k, v = qkv.split([a.heads, a.kv_heads, a.kv_heads], dim=1)  # type: ignore[no-untyped-call]
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = norm(q, layer.q_norm, a.epsilon), norm(k, layer.k_norm, a.epsilon)
        q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        if keep is not None:
            keep.append((k, v))
        old = before[i] if before else None
        attended = torch.cat([rows.attend(q, k, v, old, a.softmax_scale) for rows in alike])
        residual += times(layer.output, attended)
        residual += times(layer.down, swiglu(times(layer.gate_up, norm(residual, layer.mlp_norm, a.epsilon))))
    return norm(residual[torch.tensor(lengths).cumsum(0).to(device) - 1], weights.norm, a.epsilon)


class Alike(NamedTuple):
    """Rows of similar length, which attention pads to the longest; the causal mask hides what is padded."""

    tokens: slice
    """Of the T tokens those of these rows."""
    rows: int
    length: int
    place: Tensor
    """Where each token lies when padded."""
    seen: Tensor
    """[length, start + length] what each position may look at."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, before: tuple[Tensor, Tensor] | None, scale: float) -> Tensor:
        """[T, heads, size] each; the attended values of these rows' tokens, [tokens, heads * size]."""
        share = q.shape[1] // k.shape[1]
        wide_q, wide_k, wide_v = (self._padded(x[self.tokens]) for x in (q, k, v))
        if before is not None:
            wide_k, wide_v = (
                torch.cat([old.transpose(0, 1).expand(self.rows, -1, -1, -1), new], 2)
                for old, new in zip(before, (wide_k, wide_v), strict=True)
            )
        wide_k, wide_v = wide_k.repeat_interleave(share, 1), wide_v.repeat_interleave(share, 1)
        out = F.scaled_dot_product_attention(wide_q, wide_k, wide_v, attn_mask=self.seen, scale=scale)
        return out.transpose(1, 2).flatten(0, 1)[self.place].flatten(1)

    def _padded(self, x: Tensor) -> Tensor:
        """[tokens, heads, size] as [rows, heads, length, size]."""
        wide = x.new_zeros(self.rows * self.length, *x.shape[1:])
        wide[self.place] = x
        return wide.view(self.rows, self.length, *x.shape[1:]).transpose(1, 2)


def _alike(lengths: Sequence[int], start: int, device: torch.device) -> Iterator[Alike]:
    """Neighbours of which the longest is at most a quarter longer than the shortest."""
    first = at = 0
    for end in range(1, len(lengths) + 1):
        if end < len(lengths) and 4 * lengths[end] <= 5 * lengths[first]:
            continue
        part = lengths[first:end]
        length = max(part)
        place = torch.cat([torch.arange(n) + row * length for row, n in enumerate(part)]).to(device)
        seen = torch.ones(length, start + length, dtype=torch.bool, device=device).tril(start)
        yield Alike(slice(at, at + len(place)), len(part), length, place, seen)
        first, at = end, at + len(place)


def _halves(weights: Weights) -> bool:
    """Whether this CPU has matrix units for bfloat16, which are several times as fast as float32."""
    supported: Callable[[], bool] = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    return weights.device.type == "cpu" and weights.dtype == torch.float32 and supported()


def _in_half(linear: Linear, x: Tensor) -> Tensor:
    """The product in bfloat16, accumulated in float32; an adapter beside the matrix stays in float32."""
    y = F.linear(x.bfloat16(), linear.weight.bfloat16()).float()
    if linear.bias is not None:
        y += linear.bias
    if linear.down is not None and linear.up is not None:
        y.addmm_(x @ linear.down.t(), linear.up.t())
    return y


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
