"""Times of work on a device, the bandwidth of its memory, and how much of it is used."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Median time of one call."""
    work()
    times = []
    for _ in range(repeats):
        synchronise(device)
        start = time.perf_counter()
        work()
        synchronise(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def bandwidth(device: torch.device) -> float:
    """Bytes a second that a large copy reads and writes."""
    size = 1 << (31 if device.type == "cuda" else 27)
    source = torch.empty(size, dtype=torch.uint8, device=device).random_()
    target = torch.empty_like(source)
    return 2 * size / seconds(lambda: target.copy_(source), device, 5)


def products_a_second(device: torch.device) -> float:
    """Multiplications and additions a second of a large product, in the precision of training."""
    size, dtype = (8192, torch.bfloat16) if device.type == "cuda" else (512, torch.float32)
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return 2 * size**3 / seconds(lambda: a @ b, device, 9)


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def kernels_of(work: Callable[[], object]) -> dict[str, float]:
    """Seconds that each kind of kernel took on the GPU, the longest first."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        work()
        torch.cuda.synchronize()
    found = {event.key: event.device_time_total / 1e6 for event in profiler.key_averages()}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


class GraphTimes:
    """How long an engine's graphs keep the GPU busy, by their kind (`prefill`, `decode`)."""

    def __init__(self, engine: Any) -> None:
        self._spans: list[tuple[str, Any, Any]] = []
        if engine.device.type == "cuda":
            graphs = engine.runner._graphs
            graphs.run = partial(self._run, graphs.run)

    def _run(self, run: Callable[..., None], key: Sequence[Any], work: Callable[[], object]) -> None:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        run(key, work)
        end.record()
        self._spans.append((key[0], start, end))

    def take(self) -> dict[str, float]:
        """Seconds since the last time, of work that is over."""
        spans, self._spans = self._spans, []
        found: dict[str, float] = {}
        for kind, start, end in spans:
            found[kind] = found.get(kind, 0.0) + start.elapsed_time(end) / 1e3
        return found


class PeakMemory:
    """The most memory in use at once while inside: the GPU's, or that of this process."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.gb = 0.0

    def __enter__(self) -> PeakMemory:
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        else:
            Path("/proc/self/clear_refs").write_text("5")  # forget the highest so far
        return self

    def __exit__(self, *_: object) -> None:
        if self._device.type == "cuda":
            self.gb = torch.cuda.max_memory_allocated(self._device) / 1e9
        else:
            self.gb = int(re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[0]) * 1024 / 1e9
