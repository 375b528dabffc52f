"""Engines of the rollout benchmarks: made, filled with rows of noise, timed."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from _timing import synchronise

from subquest.engine.interface import Sampling
from subquest.engine.torch import Source, TorchEngine


def make(source: Source, device: torch.device, **settings: Any) -> TorchEngine:
    engine = TorchEngine(source, device=device, seed=0, **settings)
    engine.scheduler.stops.ends[:] = False  # lengths are forced
    return engine


def free(device: torch.device) -> None:
    """Give the memory of engines that were closed back."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def fill_rows(engine: TorchEngine, tables: np.ndarray[Any, Any], context: int) -> None:
    """Rows that decode in contexts of this length, with these blocks [rows, blocks], full of noise."""
    for layer in (*engine._model.cache.keys, *engine._model.cache.values):
        layer.normal_()
    rows, sampling = engine.scheduler.rows, Sampling(temperature=1.0)
    for slot, blocks in enumerate(tables):
        rows.set_blocks(slot, blocks.tolist())
        rows.begin(slot, token=5, position=context, left=10**6, sampling=sampling, seed=slot, kind=0)


def decode_seconds(engine: TorchEngine, batch: int, context: int, clock: Callable[[], float]) -> float:
    """One decode step over the first rows; `context` is the mean length of the timed steps."""
    slots = np.arange(batch, dtype=np.int32)

    def run(steps: int) -> float:
        engine.scheduler.rows.position[:batch] = context - steps // 2
        synchronise(engine.device)
        start = clock()
        for _ in range(steps):
            last = engine.runner.decode(slots)
        last.read()
        return (clock() - start) / steps

    if engine.device.type != "cuda":
        run(1)
        return run(4)
    with torch.inference_mode(), torch.cuda.stream(torch.cuda.Stream()):
        run(2)
        return statistics.median(run(30) for _ in range(3))
