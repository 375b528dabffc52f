"""Times of work on a device, and the bandwidth of its memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

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


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
