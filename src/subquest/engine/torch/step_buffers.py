"""Memory of a step on the host and the device: what is uploaded before it and downloaded after it."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .running_batch import Array
from .step import SharedPrefixes

FIELDS = 8
"""Rows of a decode step's upload: slot, position, given, seed, top_k; temperature, top_p, min_p as float bits."""
CHANGES = 2
"""Rows that follow on a GPU: changed entries of the block tables, as flat indexes, and their blocks."""


def shared_size(rows: int, tiles: int, tile_rows: int) -> int:
    """Numbers of a step's shared prefixes."""
    return 2 * rows + (tile_rows + 4) * tiles if tiles else 0


def _shared_prefixes(packed: Tensor, rows: int, tiles: int, tile_rows: int) -> SharedPrefixes | None:
    """Shared prefixes as views of a vector; None for no tiles."""
    if not tiles:
        return None
    lengths, parts, members, cut = torch.split(packed, [rows, rows, tile_rows * tiles, 4 * tiles])
    return SharedPrefixes(lengths, parts, members.view(tiles, tile_rows), cut.view(tiles, 4))


class Views(NamedTuple):
    """A decode step's buffers for one shape of batch."""

    packed: Array
    """[fields and changes, B], on the host."""
    packed_shared: SharedPrefixes | None
    """What follows there, if prefixes are shared."""
    host: Tensor
    """The same memory as one vector, uploaded to..."""
    upload: Tensor
    head: Tensor
    """... this on the device, [fields and changes, B]..."""
    shared: SharedPrefixes | None
    """... and what follows."""
    out: Tensor
    """[2, B] on the device: tokens, and log-probabilities as float bits; downloaded to..."""
    drawn: Tensor
    """... this on the host."""


class Staging:
    """Host memory for one step's uploads and download, pinned where there is a GPU."""

    def __init__(self, packed: int, widest: int, tokens: int, tiles: int, *, pin: bool) -> None:
        self.head = torch.zeros(packed, dtype=torch.int32, pin_memory=pin)
        self.out = torch.zeros(2 * widest, dtype=torch.int32, pin_memory=pin)
        self.flat = torch.zeros(3 * tokens, dtype=torch.int32, pin_memory=pin)
        self.tiles = torch.zeros(tiles, dtype=torch.int32, pin_memory=pin)
        self.pairs: Tensor | None = None
        self.used: Any = None
        """An event after which the buffers may be reused."""
        self._views: dict[tuple[int, int, int], Views] = {}

    def views(self, shape: tuple[int, int, int], head: Tensor, out: Tensor) -> Views:
        """The buffers of a batch on the host and in the device's `head` and `out`; made once per shape: rows, and of
        shared prefixes the tiles and their rows."""
        found = self._views.get(shape)
        if found is None:
            rows, size = FIELDS + CHANGES, shape[0]
            own = rows * size
            end = own + shared_size(*shape)
            host, upload = self.head[:end], head[:end]
            found = self._views[shape] = Views(
                packed=host.numpy()[:own].reshape(rows, size),
                packed_shared=_shared_prefixes(host[own:], *shape),
                host=host,
                upload=upload,
                head=upload[:own].view(rows, size),
                shared=_shared_prefixes(upload[own:], *shape),
                out=out[: 2 * size].view(2, size),
                drawn=self.out[: 2 * size].view(2, size),
            )
        return found
