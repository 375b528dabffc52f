"""What one pass through the model works on: a flat batch of tokens of many contexts, as tensors on the device."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor


@dataclass(slots=True)
class SharedPrefixes:
    """The prefixes that rows of a decode step have in common (`prefix_groups.py`), for kernels that read them once for
    many rows. Each is cut into parts, as contexts are."""

    lengths: Tensor
    """[T] int32: tokens of the row's shared prefix; 0: it reads its whole context by itself."""
    parts: Tensor
    """[T] int32: the number of parts of that prefix."""
    members: Tensor
    """[n, m] int32: on each line rows of the batch that have the same prefix; -1: none."""
    tiles: Tensor
    """[n, 4] int32, one for each line of `members` and each part of its prefix: the line, the part's first token, its
    end (0: padding) and its number."""


@dataclass(slots=True)
class Step:
    """T tokens, each with its position in its context and the block-table row (slot) of that context.

    In a decode step every token belongs to another context. In a prefill step `tiles` says which stretches of the
    batch belong together. In a mixed step the first `rows` tokens are those of a decode step, and the others those of
    a prefill step.
    """

    ids: Tensor
    """[T] int32."""
    positions: Tensor
    """[T] int32."""
    slots: Tensor
    """[T] int32."""
    tables: Tensor
    """[slots, blocks] int32: the cache blocks of each slot's context, in order."""
    tiles: Tensor | None = None
    """[n, 4] int32, without decode steps: slot, first token of the batch, its position, number of tokens (0:
    padding)."""
    part: int = 1 << 30
    """Decode only: contexts are cut into parts of this many tokens, which are read side by side."""
    splits: int = 1
    """Decode only: how many parts there are at most."""
    bare: bool = False
    """Whether the pass goes without the adapter."""
    shared: SharedPrefixes | None = None
    """Decode only. The parts of a row are then those of its shared prefix, followed by those of the rest."""
    rows: int = 0
    """Mixed only: how many tokens decode."""

    def decoding(self) -> Step:
        """The rows of a mixed step that decode, as a decode step."""
        n = self.rows
        return replace(self, ids=self.ids[:n], positions=self.positions[:n], slots=self.slots[:n], tiles=None, rows=0)


@dataclass(slots=True)
class Draw:
    """How the next token of each row of a decode step is drawn. All are [B]."""

    temperature: Tensor
    """float32, 0 is greedy."""
    seed: Tensor
    """int32, the request's seed."""
    top_k: Tensor
    """int32, 0 is off."""
    top_p: Tensor
    """float32, 1 is off."""
    min_p: Tensor
    """float32, 0 is off."""
    filtered: bool = False
    """Whether any row uses top-k, top-p or min-p."""


TILE = 64
"""Query tokens of one tile of a prefill step, at most."""
SHARED_QUERIES = 64
"""Queries (rows times the query heads of a key-value head) that read a shared prefix together: as many as the smallest
product of a Hopper tensor core."""
SHARED_PARTS = 24
"""Parts of a shared prefix, at most."""


def part_length(rows: int, kv_heads: int) -> int:
    """Tokens of a part of a context in decode steps on a GPU.

    One program reads one key-value head of one part. About 500 of them fill the device (four on each of 132
    processors). If the rows alone give as many, parts only cost: the partial results are written and read again. Then
    only contexts that would keep one program busy long after the others are cut.
    """
    programs = rows * kv_heads
    return next((length for length, enough in ((2048, 512), (1024, 384), (256, 64)) if programs >= enough), 128)
