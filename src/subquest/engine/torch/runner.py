"""Steps on the device: packs a plan into tensors, runs the model, hands results back one step late.

On the GPU every step is a CUDA graph, chosen by the size of its batch, over buffers that never move. A step's input is
one small upload and its output one small download; the token a row drew is fed to its next step on the device, so a
step can be handed over before the one before it was read. On the CPU the same passes run at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .graphs import Graphs, bucket
from .model import Model
from .rows import Array, Rows
from .scheduler import Chunk
from .step import TILE, Draw, Step

_FIELDS = 8
"""Rows of a decode step's upload: slot, position, given, seed, top_k; temperature, top_p, min_p as float bits."""


@dataclass(slots=True)
class Pending:
    """A decode step that was handed to the device."""

    slots: Array
    epochs: Array
    out: Tensor
    """[2, B] int32: tokens, and log-probabilities as float bits."""
    event: Any = None

    def read(self) -> tuple[Array, Array]:
        """Wait for the step; drawn tokens and their log-probabilities."""
        if self.event is not None:
            self.event.synchronize()
        out = self.out.numpy()
        n = len(self.slots)
        return out[0, :n].copy(), out[1, :n].view(np.float32).copy()


class Runner:
    def __init__(self, model: Model, rows: Rows, *, prefill_tokens: int, graphs: bool = True) -> None:
        self.model = model
        self.rows = rows
        self.device = model.weights.device
        self.steps = self.prefills = 0
        self._cuda = self.device.type == "cuda"
        if not self._cuda:
            self._tables = torch.from_numpy(rows.tables)
            self._last = torch.zeros(rows.slots + 1, dtype=torch.int32)
            return
        self._graphs = Graphs(enabled=graphs)
        self._tables = torch.zeros(rows.tables.shape, dtype=torch.int32, device=self.device)
        self._last = torch.zeros(rows.slots + 1, dtype=torch.int32, device=self.device)
        widest = bucket(rows.slots)
        self._head = torch.zeros(_FIELDS * widest, dtype=torch.int32, device=self.device)
        self._out = torch.zeros(2 * widest, dtype=torch.int32, device=self.device)
        tokens = _padded(prefill_tokens)
        self._flat = torch.zeros(3 * tokens, dtype=torch.int32, device=self.device)
        most_tiles = max(tokens // TILE + rows.slots, tokens // TILE + tokens // 32 + 8)
        self._tiles = torch.zeros(most_tiles * 4, dtype=torch.int32, device=self.device)
        self._ring = [_Staging(widest, tokens, self._tiles.numel()) for _ in range(3)]
        self._turn = 0

    def prefill(self, chunks: Sequence[Chunk]) -> None:
        """Put the chunks' tokens into the cache."""
        if not chunks:
            return
        self.prefills += 1
        total = sum(chunk.tokens for chunk in chunks)
        size = _padded(total) if self._cuda else total
        flat = np.zeros((3, size), np.int32)
        flat[2] = self.rows.slots
        tiles: list[tuple[int, int, int, int]] = []
        at = 0
        for turn, start, count in chunks:
            end = at + count
            flat[0, at:end] = turn.context.ids[start : start + count]
            flat[1, at:end] = np.arange(start, start + count)
            flat[2, at:end] = turn.slot
            tiles += [(turn.slot, at + i, start + i, min(TILE, count - i)) for i in range(0, count, TILE)]
            at = end
        if not self._cuda:
            self.rows.changed.clear()
            packed = torch.tensor(tiles, dtype=torch.int32)
            self.model.prefill(_prefill_step(torch.from_numpy(flat), self._tables, packed))
            return
        room = size // TILE + size // 32 + 8
        if len(tiles) > room:
            room = self._tiles.numel() // 4
        padded = np.zeros((room, 4), np.int32)
        padded[: len(tiles)] = tiles
        staging = self._next_staging()
        self._upload(staging.flat, self._flat, flat)
        self._upload(staging.tiles, self._tiles, padded)
        self._upload_tables(staging)
        views = self._flat[: 3 * size].view(3, size)
        step = _prefill_step(views, self._tables, self._tiles[: 4 * room].view(room, 4))
        self._graphs.run(("prefill", size, room), lambda: self.model.prefill(step))

    def decode(self, slots: Array) -> Pending:
        """Feed one token of each slot and draw the next."""
        self.steps += 1
        rows, n = self.rows, len(slots)
        size = bucket(n) if self._cuda else n
        padded = np.full(size, rows.slots, np.int32)
        padded[:n] = slots
        head = np.empty((_FIELDS, size), np.int32)
        head[0] = padded
        head[1] = rows.position[padded]
        head[2] = rows.given[padded]
        head[2, n:] = 0
        head[3] = rows.seed[padded]
        head[4] = rows.top_k[padded]
        floats = head[5:].view(np.float32)
        floats[0] = rows.temperature[padded]
        floats[1] = rows.top_p[padded]
        floats[2] = rows.min_p[padded]
        filtered = bool(rows.filtered[slots].any())
        longest = int(head[1].max()) + 1
        pending = Pending(slots, rows.epoch[slots], self._last)
        rows.advance(slots)
        if not self._cuda:
            rows.changed.clear()
            pending.out = torch.empty((2, size), dtype=torch.int32)
            self._step(torch.from_numpy(head), pending.out, self._parts(size, longest), filtered)
            return pending
        staging = self._next_staging()
        self._upload(staging.head, self._head, head)
        self._upload_tables(staging)
        parts = self._parts(size, longest)
        views, out = self._head[: _FIELDS * size].view(_FIELDS, size), self._out[: 2 * size].view(2, size)
        self._graphs.run(("decode", size, *parts, filtered), lambda: self._step(views, out, parts, filtered))
        pending.out = staging.out[: 2 * size].view(2, size)
        pending.out.copy_(out, non_blocking=True)
        pending.event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        pending.event.record()
        return pending

    def forget_graphs(self) -> None:
        """The model's passes changed; capture them again."""
        if self._cuda:
            self._graphs.clear()

    def _step(self, head: Tensor, out: Tensor, parts: tuple[int, int], filtered: bool) -> None:
        slots, positions, given, seed, top_k = head[:5]
        temperature, top_p, min_p = head[5:].view(torch.float32)
        ids = self.model.ops.choose(given, slots, self._last)
        step = Step(ids, positions, slots, self._tables, None, *parts)
        drawn, logprobs = self.model.decode(step, Draw(temperature, seed, top_k, top_p, min_p, filtered))
        self._last.index_copy_(0, slots.long(), drawn)
        out[0].copy_(drawn)
        out[1].view(torch.float32).copy_(logprobs)

    def _parts(self, rows: int, longest: int) -> tuple[int, int]:
        """Length of a context's parts, and how many the longest has: a power of two, so that few graphs are needed."""
        length = int(self.model.ops.part_length(rows, self.model.weights.architecture.kv_heads))
        return length, 1 << (-(-longest // length) - 1).bit_length()

    def _next_staging(self) -> _Staging:
        self._turn = (self._turn + 1) % len(self._ring)
        staging = self._ring[self._turn]
        if staging.used is not None:
            staging.used.synchronize()
        staging.used = torch.cuda.Event()  # type: ignore[no-untyped-call]
        return staging

    def _upload(self, host: Tensor, device: Tensor, values: Array) -> None:
        flat = host[: values.size]
        flat.numpy()[:] = values.reshape(-1)
        device[: values.size].copy_(flat, non_blocking=True)

    def _upload_tables(self, staging: _Staging) -> None:
        """Bring the device's block tables up to date, and mark the staging buffers as in use until then."""
        changed, self.rows.changed = self.rows.changed, []
        if changed:
            index = np.concatenate(changed)
            pairs = torch.from_numpy(
                np.stack([index, self.rows.tables.reshape(-1)[index].astype(np.int64)])
            ).pin_memory()
            staging.pairs = pairs
            there = pairs.to(self.device, non_blocking=True)
            self._tables.view(-1).index_copy_(0, there[0], there[1].int())
        staging.used.record()


def _padded(tokens: int) -> int:
    """The size of a prefill step's graph; below 256 tokens the time does not depend on it."""
    return next((size for size in (64, 128, 256) if tokens <= size), bucket(tokens))


def _prefill_step(flat: Tensor, tables: Tensor, tiles: Tensor) -> Step:
    ids, positions, slots = flat
    return Step(ids, positions, slots, tables, tiles)


class _Staging:
    """Pinned host memory for one step's uploads and download."""

    def __init__(self, widest: int, tokens: int, tiles: int) -> None:
        self.head = torch.zeros(_FIELDS * widest, dtype=torch.int32, pin_memory=True)
        self.out = torch.zeros(2 * widest, dtype=torch.int32, pin_memory=True)
        self.flat = torch.zeros(3 * tokens, dtype=torch.int32, pin_memory=True)
        self.tiles = torch.zeros(tiles, dtype=torch.int32, pin_memory=True)
        self.pairs: Tensor | None = None
        self.used: Any = None
