"""Log-probabilities of a few words after many prompts, for many callers in one pass.

The prompts of a call share a prefix, which is read once: its full cache blocks are in the block tables of all of them,
as in the engine's cache, and the same kernels read them. A pass needs the keys and values of one layer at a time and
nothing afterwards, so it has a one-layer cache of its own and takes no blocks from running contexts. Passes run in the
engine's thread between two steps; calls that arrive meanwhile share the next one.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ...errors import EngineError
from ..interface import shared_prefix
from .cuda_graphs import bucket
from .gpu_memory import out_of_memory
from .model import Cache, Model
from .running_batch import Array
from .step import TILE, Step
from .weights import Linear, Weights

PASS_TOKENS = {"cuda": 32_768, "cpu": 4096}
"""Tokens per pass: on a GPU enough to fill it, on a CPU few, because all others wait for it."""
BLOCK = 16

Found = list[tuple[float, ...]]


@dataclass(eq=False, slots=True)
class Call:
    """The prompts of one caller, and their results so far."""

    prompts: list[Array]
    wanted: Array
    done: Callable[[Found | EngineError], None]
    """Called once, on the engine's thread."""
    gone: Callable[[], bool]
    """Whether the caller has stopped waiting."""
    shared: int
    """Length of the common prefix, in whole blocks."""
    found: Found = field(default_factory=list)


async def score_choices(
    submit: Callable[[Call], None], prompts: Sequence[Sequence[int]], choices: Sequence[int]
) -> Found:
    """For each prompt, given as token ids, the log-probability of each choice as the next token."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Found] = loop.create_future()

    def done(found: Found | EngineError) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(_deliver, future, found)

    shared = shared_prefix(prompts) // BLOCK * BLOCK
    wanted = np.asarray(choices, np.int64)
    submit(Call([np.asarray(p, np.int32) for p in prompts], wanted, done, future.done, shared))
    return await future


def _deliver(future: asyncio.Future[Found], found: Found | EngineError) -> None:
    if future.done():
        return
    if isinstance(found, EngineError):
        future.set_exception(found)
    else:
        future.set_result(found)


class Share(NamedTuple):
    """The part of a call that a pass reads."""

    call: Call
    start: int
    end: int


class Scorer:
    """The waiting calls. Everything here runs in the engine's thread."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._calls: deque[Call] = deque()

    @property
    def busy(self) -> bool:
        return bool(self._calls)

    @property
    def begun(self) -> bool:
        """Whether a call is partly answered: the rest must use the same weights."""
        return bool(self._calls) and bool(self._calls[0].found)

    def submit(self, call: Call) -> None:
        self._calls.append(call)

    def fail(self, error: EngineError) -> None:
        """Fail all calls."""
        while self._calls:
            self._calls.popleft().done(error)

    def step(self, *, begun_only: bool = False) -> None:
        """One pass over as many prompts as fit, in the order of the calls."""
        self._calls = deque(call for call in self._calls if not call.gone())
        shares = self._shares(begun_only)
        if not shares:
            return
        try:
            rows = iter(next_logprobs(self._model, shares))
        except RuntimeError as error:
            failure = out_of_memory(error) or EngineError(f"the torch engine could not score prompts: {error}")
            for share in shares:
                self._calls.remove(share.call)
                share.call.done(failure)
            return
        for call, start, end in shares:
            call.found += [next(rows) for _ in range(start, end)]
            if end == len(call.prompts):
                self._calls.popleft()
                call.done(call.found)

    def _shares(self, begun_only: bool) -> list[Share]:
        room, used = PASS_TOKENS.get(self._model.weights.device.type, PASS_TOKENS["cpu"]), 0
        shares: list[Share] = []
        for call in self._calls:
            if begun_only and not call.found:
                break
            start = end = len(call.found)
            used += call.shared
            for prompt in call.prompts[start:]:
                used += len(prompt) - call.shared
                if used > room and (shares or end > start):
                    break
                end += 1
            if end > start:
                shares.append(Share(call, start, end))
            if end < len(call.prompts):
                break
        return shares


@torch.inference_mode()
def next_logprobs(model: Model, shares: Sequence[Share]) -> Found:
    """For every prompt of the shares the log-probabilities of its call's words."""
    weights = model.weights
    wanted = [share.call.wanted for share in shares for _ in range(share.start, share.end)]
    words = np.zeros((len(wanted), max(map(len, wanted))), np.int64)
    for row, own in zip(words, wanted, strict=True):
        row[: len(own)] = own
    parts = _packed(_rows(shares), pad=weights.device.type == "cuda")
    cache = Cache(weights, 1 + int(parts[1].max()), BLOCK, kept=False)
    flat, tables, tiles, ends, chosen = (torch.from_numpy(part).to(weights.device) for part in (*parts, words))
    ids, positions, slots = flat
    product = _in_half if _halves(weights) else Linear.__call__
    states = model.read(Step(ids, positions, slots, tables, tiles), cache, ends, product)
    logprobs = (states.float() @ weights.head.float().t()).log_softmax(-1)
    found = logprobs.gather(1, chosen).tolist()
    return [tuple(row[: len(own)]) for row, own in zip(found, wanted, strict=True)]


class _Row(NamedTuple):
    """Tokens that follow each other: what prompts share, or the rest of one."""

    ids: Array
    start: int
    """Position of the first."""
    blocks: list[int]
    """Of all tokens of the prompt so far."""
    asked: bool
    """Whether a prompt ends here."""


def _rows(shares: Sequence[Share]) -> list[_Row]:
    numbers = itertools.count(1)  # block 0 is for padding

    def new(tokens: int) -> list[int]:
        return list(itertools.islice(numbers, -(-tokens // BLOCK)))

    rows: list[_Row] = []
    for call, start, end in shares:
        first = call.shared
        common = new(first)
        if common:
            rows.append(_Row(call.prompts[0][:first], 0, common, asked=False))
        rows += [_Row(p[first:], first, common + new(len(p) - first), asked=True) for p in call.prompts[start:end]]
    return rows


def _packed(rows: Sequence[_Row], *, pad: bool) -> tuple[Array, Array, Array, Array]:
    """The parts of a `Step`: tokens with positions and slots [3, T], tables and tiles; and where prompts end in it.

    On a GPU shapes are rounded up so that they repeat: new shapes cost its libraries time. The last row of the tables
    is for padding.
    """
    lengths = np.asarray([len(row.ids) for row in rows])
    starts = np.asarray([row.start for row in rows])
    offsets = np.cumsum(lengths) - lengths
    total = int(lengths.sum())
    flat = np.zeros((3, bucket(total) if pad else total), np.int32)
    flat[0, :total] = np.concatenate([row.ids for row in rows])
    flat[1, :total] = np.arange(total) - np.repeat(offsets - starts, lengths)
    flat[2] = len(rows)
    flat[2, :total] = np.repeat(np.arange(len(rows)), lengths)
    width = max(len(row.blocks) for row in rows)
    tables = np.zeros((len(rows) + 1, -(-width // 16) * 16), np.int32)
    for table, row in zip(tables, rows, strict=False):
        table[: len(row.blocks)] = row.blocks
    counts = -(-lengths // TILE)
    which = np.repeat(np.arange(len(rows)), counts)
    inside = TILE * (np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts))
    size = np.minimum(TILE, lengths[which] - inside)
    tiles = np.stack([which, offsets[which] + inside, starts[which] + inside, size], axis=1).astype(np.int32)
    ends = (offsets + lengths - 1)[[row.asked for row in rows]]
    return flat, tables, tiles, ends


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
