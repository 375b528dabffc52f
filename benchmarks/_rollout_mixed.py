"""Prompts computed beside rows that decode, or in steps of their own: the same texts, and how long each takes."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from _results import Results
from _rollout_engine import fill_rows, free, make
from _rollout_exact import Drawn, compared, together
from _rollout_workload import Corpus, overlapped, scripts
from _timing import GraphTimes, synchronise

from subquest.engine.torch import Source, TorchEngine
from subquest.engine.torch.scheduler import Chunk

Say = Callable[..., None]


def compare_mixed(
    source: Source,
    device: torch.device,
    results: Results,
    say: Say,
    *,
    batches: Sequence[int],
    context: int,
    prompts: Sequence[int],
    rollouts: int,
) -> None:
    """Texts in fp32, then steps that decode so many rows and read so many prompt tokens, then whole rollouts."""
    figures: dict[str, Any] = {"greedy_fp32": _equals_apart(source, device, say)}
    results.keep(mixed=figures)
    free(device)
    for batch in batches:
        engine = make(source, device, cache_tokens=(batch + 2) * (context + 1300), max_batch=batch + 2)
        try:
            width = -(-(context + 1100) // 16)
            order = np.random.default_rng(0).permutation((batch + 2) * width) + 1
            fill_rows(engine, order.reshape(batch + 2, width), context)
            for tokens in prompts:
                apart, mixed = (_seconds(engine, batch, context, tokens, mixed=way) for way in (False, True))
                row = {"apart_ms": apart * 1e3, "mixed_ms": mixed * 1e3}
                figures[f"{batch} rows, {tokens} prompt tokens"] = row
                results.keep()
                say(
                    f"{batch} rows of {context} and {tokens} prompt tokens: {apart * 1e3:.2f} ms in two steps,"
                    f" {mixed * 1e3:.2f} in one, {apart / mixed:.2f} times"
                )
        finally:
            asyncio.run(engine.close())
        del engine
        free(device)
    corpus, episodes = Corpus(30_000), scripts(48, rollouts)
    for name, mixes in (("apart", False), ("mixed", True)):
        engine = make(source, device, cache_tokens=600_000)
        busy = GraphTimes(engine)
        if not mixes:
            engine.scheduler.mixed_tokens = 0
        try:
            for run in ("the first time", "again"):
                engine.refresh()
                engine.runner.steps = engine.runner.mixed = 0
                found = asyncio.run(overlapped(engine, corpus, episodes))
                on_device = ", ".join(f"{kind} {seconds:.2f} s" for kind, seconds in busy.take().items())
                say(
                    f"rollout 48 × {rollouts}, {name}, {run}: {found.seconds:.2f} s, {engine.runner.steps} decode"
                    f" steps, {engine.runner.mixed} of them mixed; on the device: {on_device}"
                )
            figures[f"rollout, {name}"] = found.seconds
            results.keep()
        finally:
            asyncio.run(engine.close())
        del engine, busy
        free(device)


def _equals_apart(source: Source, device: torch.device, say: Say) -> dict[str, Any]:
    """Contexts whose prompts do not fit one step, by whole models in fp32."""
    chance = np.random.default_rng(0)
    prompts = [chance.integers(1, 40_000, 300 + 7 * n).tolist() for n in range(64)]
    found: list[Drawn] = []
    for mixes in (False, True):
        engine = TorchEngine(source, device=device, seed=0, dtype=torch.float32, cache_tokens=65_536)
        if not mixes:
            engine.scheduler.mixed_tokens = 0
        try:
            found.append(asyncio.run(together(engine, prompts, 48, temperature=0.0)))
            steps = engine.runner.mixed
        finally:
            asyncio.run(engine.close())
        del engine
        free(device)
    return compared(found, f"mixed steps, fp32, {steps} of them", say) | {"steps": steps}


def _seconds(engine: TorchEngine, batch: int, context: int, tokens: int, *, mixed: bool) -> float:
    """A step over the first rows, and a prompt's tokens at the end of two contexts, in one pass or in two."""
    slots, rows = np.arange(batch, dtype=np.int32), engine.scheduler.rows
    turns: list[Any] = [
        SimpleNamespace(slot=batch + n, context=SimpleNamespace(ids=[5] * (context + 1100))) for n in range(2)
    ]
    chunks = [Chunk(turn, context, tokens // 2) for turn in turns]

    def run(steps: int) -> float:
        rows.position[:batch] = context - steps // 2
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        synchronise(engine.device)
        start.record()
        for _ in range(steps):
            if not mixed:
                engine.runner.prefill(chunks)
            last = engine.runner.decode(slots, chunks if mixed else ())
        end.record()
        last.read()
        synchronise(engine.device)
        return float(start.elapsed_time(end)) / 1e3 / steps

    with torch.inference_mode(), torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        run(2)
        return statistics.median(run(20) for _ in range(3))
