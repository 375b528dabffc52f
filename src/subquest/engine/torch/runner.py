"""Steps on the device: packs a plan into tensors, runs the model, returns results one step later.

On the GPU every step is a CUDA graph, chosen by batch size, over buffers that never move. A step's input is one small
upload, including changes of the block tables, and its output one small download. The token that a row sampled is fed to
its next step on the device, so a step can be launched before the previous one was read. Calls of torch release the
interpreter, which busy systems are slow to return, so a decode step makes few of them. On the CPU the same passes run
immediately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .cuda_graphs import Graphs, bucket
from .model import Model
from .prefix_groups import Groups, PrefixGroups
from .running_batch import Array, Rows
from .scheduler import Chunk
from .step import SHARED_QUERIES, TILE, Draw, SharedPrefixes, Step
from .step_buffers import CHANGES, FIELDS, Staging, Views, shared_size

_RING = 6
"""Upload buffers, used in turn: a step takes up to two, and is over when two more have been launched."""
_MIXED_SIZES = (64, 128, 256, 384, 512, 768, 1024)
MIXED_TOKENS = _MIXED_SIZES[-1]
"""Prompt tokens that are computed beside rows that decode, at most."""
_NOTHING = np.zeros(0, np.int64)


@dataclass(slots=True)
class Pending:
    """A decode step under way on the device."""

    slots: Array
    epochs: Array
    out: Tensor
    """[2, B] int32: tokens, and log-probabilities as float bits."""
    event: Any = None

    def read(self) -> tuple[Array, Array]:
        """Wait for the step; returns the sampled tokens and their log-probabilities."""
        if self.event is not None:
            self.event.synchronize()
        out = self.out.numpy()
        n = len(self.slots)
        return out[0, :n].copy(), out[1, :n].view(np.float32).copy()


class Runner:
    def __init__(
        self,
        model: Model,
        rows: Rows,
        *,
        prefill_tokens: int,
        graphs: bool = True,
        staged: bool | None = None,
        shared_prefixes: bool = False,
    ) -> None:
        """`staged` says whether steps go through fixed buffers, which a GPU needs; `shared_prefixes` whether decode
        steps on a GPU read prefixes that many rows share once."""
        self.model = model
        self.rows = rows
        self.device = model.weights.device
        self.steps = self.shared_steps = self.mixed = self.prefills = self.prefilled = 0
        """Decode steps, those of them with shared prefixes, those with prompts beside them; prefill steps, with the
        latter, and the tokens of these."""
        self._cuda = self.device.type == "cuda"
        self._staged = self._cuda if staged is None else staged
        self._last = torch.zeros(rows.slots + 1, dtype=torch.int32, device=self.device)
        self._groups: PrefixGroups | None = None
        if not self._staged:
            self._tables = torch.from_numpy(rows.tables)
            return
        self._graphs = Graphs(enabled=graphs and self._cuda)
        self._tables = torch.zeros(rows.tables.shape, dtype=torch.int32, device=self.device)
        if shared_prefixes:
            self._groups = _prefix_groups(model, rows)
        widest = max(bucket(rows.slots), mixed_rows(rows.slots))
        packed = (FIELDS + CHANGES) * widest
        if self._groups is not None:
            packed += shared_size(widest, self._groups.most_tiles, self._groups.tile_rows)
        self._head = torch.zeros(packed, dtype=torch.int32, device=self.device)
        self._out = torch.zeros(2 * widest, dtype=torch.int32, device=self.device)
        tokens = max(_padded(prefill_tokens), mixed_rows(rows.slots) + MIXED_TOKENS)
        self._flat = torch.zeros(3 * tokens, dtype=torch.int32, device=self.device)
        most_tiles = max(tokens // TILE + rows.slots, tokens // TILE + tokens // 32 + 8)
        self._tiles = torch.zeros(most_tiles * 4, dtype=torch.int32, device=self.device)
        self._ring = [Staging(packed, widest, tokens, self._tiles.numel(), pin=self._cuda) for _ in range(_RING)]
        self._turn = 0
        self._padding = rows.slots * rows.tables.shape[1]
        """Index of the padding row's first block, which is always 0."""

    @property
    def mixes(self) -> bool:
        """Whether prompts can enter the cache in the same pass as rows that decode."""
        return self._staged

    def prefill(self, chunks: Sequence[Chunk], *, bare: bool = False) -> None:
        """Put the chunks' tokens into the cache; `bare` runs without the adapter."""
        if not chunks:
            return
        total = self._count(chunks)
        if not self._staged:
            self.rows.changed.clear()
            flat, tiles = self._pack_chunks(chunks, total)
            packed = torch.tensor(tiles, dtype=torch.int32)
            self.model.prefill(_prefill_step(torch.from_numpy(flat), self._tables, packed, bare))
            return
        size = _padded(total)
        staging = self._next_staging()
        step = self._upload_chunks(staging, *self._pack_chunks(chunks, size), bare=bare)
        self._upload_tables(staging)
        staging.used = self._mark()
        self._graphs.run(("prefill", size, _room(step), bare), lambda: self.model.prefill(step))

    def decode(self, slots: Array, chunks: Sequence[Chunk] = (), *, bare: bool = False) -> Pending:
        """Feed one token of each slot and sample the next, after putting the chunks' tokens into the cache; `bare` runs
        without the adapter."""
        if chunks and self.mixes and sum(chunk.tokens for chunk in chunks) <= MIXED_TOKENS:
            return self._decode_mixed(slots, chunks, bare)
        self.prefill(chunks, bare=bare)
        self.steps += 1
        if not self._staged:
            return self._decode_now(slots, bare)
        size = bucket(len(slots))
        groups, shared = self._find_groups(slots)
        staging = self._next_staging()
        views = staging.views((size, *shared), self._head, self._out)
        changed = np.concatenate(self.rows.changed) if self.rows.changed else _NOTHING
        if changed.size > size:
            self._upload_tables(staging)
            changed = _NOTHING
        self.rows.changed.clear()
        places, blocks = views.packed[FIELDS:]
        places[: changed.size] = changed
        blocks[: changed.size] = self.rows.tables.reshape(-1)[changed]
        places[changed.size :] = self._padding
        blocks[changed.size :] = 0
        longest, filtered = self._pack(views.packed[:FIELDS], slots)
        if groups is not None:
            longest = self._share(views, slots, groups)
        pending = Pending(slots, self.rows.epoch[slots], views.drawn)
        self.rows.advance(slots)
        parts = self._parts(size, longest)
        views.upload.copy_(views.host, non_blocking=True)
        kind = (parts, filtered, bare)
        self._graphs.run(("decode", size, shared, kind), lambda: self._step(views.head, views.out, *kind, views.shared))
        views.drawn.copy_(views.out, non_blocking=True)
        pending.event = staging.used = self._mark()
        return pending

    def _decode_mixed(self, slots: Array, chunks: Sequence[Chunk], bare: bool) -> Pending:
        """Both in one pass."""
        self.steps += 1
        self.mixed += 1
        size, total = mixed_rows(len(slots)), self._count(chunks)
        groups, shared = self._find_groups(slots)
        staging = self._next_staging()
        views = staging.views((size, *shared), self._head, self._out)
        places, blocks = views.packed[FIELDS:]
        places[:], blocks[:] = self._padding, 0
        head = views.packed[:FIELDS]
        longest, filtered = self._pack(head, slots)
        if groups is not None:
            longest = self._share(views, slots, groups)
        flat, tiles = self._pack_chunks(chunks, size + mixed_tokens(total), size)
        flat[:, :size] = head[[2, 1, 0]]
        pending = Pending(slots, self.rows.epoch[slots], views.drawn)
        self.rows.advance(slots)
        views.upload.copy_(views.host, non_blocking=True)
        step = self._upload_chunks(staging, flat, tiles, bare=bare, rows=size)
        self._upload_tables(staging)
        step.part, step.splits = self._parts(size, longest)
        kind = (step.part, step.splits), filtered, bare
        self._graphs.run(
            ("mixed", size, shared, flat.shape[1], _room(step), kind),
            lambda: self._step(views.head, views.out, *kind, views.shared, step),
        )
        views.drawn.copy_(views.out, non_blocking=True)
        pending.event = staging.used = self._mark()
        return pending

    def _find_groups(self, slots: Array) -> tuple[Groups | None, tuple[int, int]]:
        """The shared prefixes of a step, if any, and their shape: tiles, and the rows of one."""
        groups = self._groups.find(slots) if self._groups is not None else None
        return groups, (len(groups.tiles), groups.members.shape[1]) if groups is not None else (0, 0)

    def _share(self, views: Views, slots: Array, groups: Groups) -> int:
        """Write a step's shared prefixes; returns the longest context after them."""
        assert views.packed_shared is not None
        self.shared_steps += 1
        groups.write(views.packed_shared)
        return int((self.rows.position[slots] - groups.lengths).max()) + 1

    def _count(self, chunks: Sequence[Chunk]) -> int:
        """Tokens of a step's chunks, which are counted as computed."""
        total = sum(chunk.tokens for chunk in chunks)
        self.prefills += 1
        self.prefilled += total
        return total

    def _pack_chunks(
        self, chunks: Sequence[Chunk], size: int, at: int = 0
    ) -> tuple[Array, list[tuple[int, int, int, int]]]:
        """Ids, positions and slots of a padded batch whose tokens from `at` on are the chunks', and its tiles."""
        flat = np.zeros((3, size), np.int32)
        flat[2] = self.rows.slots
        tiles: list[tuple[int, int, int, int]] = []
        for turn, start, count in chunks:
            end = at + count
            flat[0, at:end] = turn.context.ids[start : start + count]
            flat[1, at:end] = np.arange(start, start + count)
            flat[2, at:end] = turn.slot
            tiles += [(turn.slot, at + i, start + i, min(TILE, count - i)) for i in range(0, count, TILE)]
            at = end
        return flat, tiles

    def _upload_chunks(
        self, staging: Staging, flat: Array, tiles: list[tuple[int, int, int, int]], *, bare: bool, rows: int = 0
    ) -> Step:
        """What `_pack_chunks` made, on the device."""
        size = flat.shape[1]
        room = (size - rows) // TILE + (size - rows) // 32 + 8
        if len(tiles) > room:
            room = self._tiles.numel() // 4
        padded = np.zeros((room, 4), np.int32)
        padded[: len(tiles)] = tiles
        self._upload(staging.flat, self._flat, flat)
        self._upload(staging.tiles, self._tiles, padded)
        views = self._flat[: 3 * size].view(3, size)
        step = _prefill_step(views, self._tables, self._tiles[: 4 * room].view(room, 4), bare)
        step.rows = rows
        return step

    def _decode_now(self, slots: Array, bare: bool) -> Pending:
        """On the CPU: without padding, on the host's own tables."""
        rows = self.rows
        rows.changed.clear()
        head = np.empty((FIELDS, len(slots)), np.int32)
        longest, filtered = self._pack(head, slots)
        pending = Pending(slots, rows.epoch[slots], torch.empty((2, len(slots)), dtype=torch.int32))
        rows.advance(slots)
        self._step(torch.from_numpy(head), pending.out, self._parts(len(slots), longest), filtered, bare)
        return pending

    def _pack(self, head: Array, slots: Array) -> tuple[int, bool]:
        """Write the rows of a step; returns the longest context, and whether any row filters its tokens."""
        rows, n = self.rows, len(slots)
        head[0, :n] = slots
        head[0, n:] = rows.slots
        padded = head[0]
        head[1] = rows.position[padded]
        head[2] = rows.given[padded]
        head[2, n:] = 0
        head[3] = rows.seed[padded]
        head[4] = rows.top_k[padded]
        floats = head[5:].view(np.float32)
        floats[0] = rows.temperature[padded]
        floats[1] = rows.top_p[padded]
        floats[2] = rows.min_p[padded]
        return int(head[1].max()) + 1, bool(rows.filtered[slots].any())

    def forget_graphs(self) -> None:
        """Forget the captured graphs, because the model's passes changed."""
        if self._staged:
            self._graphs.clear()

    def _step(
        self,
        head: Tensor,
        out: Tensor,
        parts: tuple[int, int],
        filtered: bool,
        bare: bool,
        shared: SharedPrefixes | None = None,
        mixed: Step | None = None,
    ) -> None:
        """A decode step, or a `mixed` one, whose ids are those that are given."""
        if self._staged:
            self._tables.view(-1).index_copy_(0, head[FIELDS].long(), head[FIELDS + 1])
        slots, positions, given, seed, top_k = head[:5]
        temperature, top_p, min_p = head[5:FIELDS].view(torch.float32)
        if mixed is None:
            ids = self.model.ops.choose(given, slots, self._last)
            step = Step(ids, positions, slots, self._tables, part=parts[0], splits=parts[1], bare=bare, shared=shared)
        else:
            step = replace(mixed, ids=self.model.ops.choose(mixed.ids, mixed.slots, self._last), shared=shared)
        drawn, logprobs = self.model.decode(step, Draw(temperature, seed, top_k, top_p, min_p, filtered))
        self._last.index_copy_(0, slots.long(), drawn)
        out[0].copy_(drawn)
        out[1].view(torch.float32).copy_(logprobs)

    def _parts(self, rows: int, longest: int) -> tuple[int, int]:
        """Length of a context's parts, and the number for the longest: a power of two, to need few graphs."""
        length = int(self.model.ops.part_length(rows, self.model.weights.architecture.kv_heads))
        return length, 1 << (-(-longest // length) - 1).bit_length()

    def _next_staging(self) -> Staging:
        self._turn = (self._turn + 1) % len(self._ring)
        staging = self._ring[self._turn]
        if staging.used is not None and not staging.used.query():
            staging.used.synchronize()
        return staging

    def _mark(self) -> Any:
        """An event that occurs when the device has finished everything launched so far."""
        if not self._cuda:
            return None
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        return event

    def _upload(self, host: Tensor, device: Tensor, values: Array) -> None:
        flat = host[: values.size]
        flat.numpy()[:] = values.reshape(-1)
        device[: values.size].copy_(flat, non_blocking=True)

    def _upload_tables(self, staging: Staging) -> None:
        """Update the device's block tables."""
        changed, self.rows.changed = self.rows.changed, []
        if changed:
            index = np.concatenate(changed)
            pairs = torch.from_numpy(np.stack([index, self.rows.tables.reshape(-1)[index].astype(np.int64)]))
            staging.pairs = pairs = pairs.pin_memory() if self._cuda else pairs
            there = pairs.to(self.device, non_blocking=True)
            self._tables.view(-1).index_copy_(0, there[0], there[1].int())


def _padded(tokens: int) -> int:
    """The padded size of a prefill step; below 256 tokens the time does not depend on it."""
    return next((size for size in (64, 128, 256) if tokens <= size), bucket(tokens))


def mixed_rows(rows: int) -> int:
    """The padded number of rows that decode in a mixed step: few graphs, since padding costs little beside prompts."""
    return next((size for size in (16, 64) if rows <= size), -(-rows // 64) * 64)


def mixed_tokens(tokens: int) -> int:
    """The padded number of prompt tokens in a mixed step."""
    return next(size for size in _MIXED_SIZES if tokens <= size)


def _room(step: Step) -> int:
    """Tiles of a step, with padding."""
    return 0 if step.tiles is None else len(step.tiles)


def _prefill_step(flat: Tensor, tables: Tensor, tiles: Tensor, bare: bool) -> Step:
    ids, positions, slots = flat
    return Step(ids, positions, slots, tables, tiles, bare=bare)


def _prefix_groups(model: Model, rows: Rows) -> PrefixGroups | None:
    a, keys = model.weights.architecture, model.cache.keys[0]
    if a.heads // a.kv_heads > SHARED_QUERIES:
        return None
    return PrefixGroups(
        rows,
        block=model.cache.size,
        heads=a.heads,
        kv_heads=a.kv_heads,
        token_bytes=2 * a.kv_heads * a.head_size * keys.element_size(),
    )
