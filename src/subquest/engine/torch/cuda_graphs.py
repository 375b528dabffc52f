"""CUDA graphs by shape: a pass of some three hundred kernels as one launch.

A graph is captured the first time its shape is needed and replayed from then on. All graphs share one memory pool:
nothing in it outlives a pass, and passes never overlap. Only one engine in a process captures at a time: each capture
begins by waiting for the whole device, which CUDA forbids during another capture.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any

import torch

from .gpu_memory import RESERVE, retry_out_of_memory

_capturing = threading.Lock()


def bucket(number: int) -> int:
    """The padded size of a batch, in steps of an eighth to a quarter of it: little padding, few graphs."""
    if number <= 8:
        return 1 << max(0, number - 1).bit_length()
    step = max(8, 1 << ((number - 1).bit_length() - 3))
    return -(-number // step) * step


class Graphs:
    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled
        self._graphs: dict[Hashable, Any] = {}
        self._pool: Any = None

    def __len__(self) -> int:
        return len(self._graphs)

    def clear(self) -> None:
        self._graphs.clear()

    def run(self, key: Hashable, work: Callable[[], object]) -> None:
        """Do the work, which must depend only on the key and on buffers at fixed addresses.

        Another process may hold the memory that a new shape needs: the work then waits for it, and a graph that does
        not fit is captured another time. The free memory is checked first, because CUDA cannot undo a capture in which
        its allocator failed.
        """
        if not self._enabled:
            retry_out_of_memory(work)
            return
        graph = self._graphs.get(key)
        if graph is not None:
            graph.replay()
            return
        retry_out_of_memory(work)  # this pass counts; it also compiles kernels and initialises libraries
        with _capturing:
            if not _room():
                return
            try:
                self._graphs[key] = self._captured(work)
            except torch.OutOfMemoryError:
                torch.cuda.empty_cache()

    def _captured(self, work: Callable[[], object]) -> Any:
        graph = torch.cuda.CUDAGraph()
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        with torch.cuda.graph(
            graph, pool=self._pool, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"
        ):
            work()
        return graph


def _room() -> bool:
    """Whether the free memory suffices for a capture."""
    if torch.cuda.mem_get_info()[0] >= RESERVE:
        return True
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info()[0] >= RESERVE
