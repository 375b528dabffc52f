"""Prefixes that many rows share, read once for all of them or row by row: the same texts, and how long each takes."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from _results import Results
from _rollout_engine import decode_seconds, fill_rows, free, make
from _rollout_exact import shared_equals_alone
from _rollout_workload import Corpus, overlapped, scripts

from subquest.engine.torch import Source

PROMPT_WORDS = 2000
"""Instructions of a role with a worked example."""
Say = Callable[..., None]


def compare_shared(
    source: Source,
    device: torch.device,
    results: Results,
    say: Say,
    *,
    batches: Sequence[int],
    prefixes: Sequence[int],
    lengths: Sequence[int],
    rollouts: int,
) -> None:
    """Texts in fp32, then decode steps with these prefixes and lengths of what follows, then whole rollouts."""
    figures: dict[str, Any] = {"greedy_fp32": shared_equals_alone(source, device, say)}
    results.keep(shared=figures)
    free(device)
    tokens = max(batches) * (max(lengths) + 96) + 2 * max(prefixes)
    engine = make(source, device, cache_tokens=tokens, max_batch=max(batches), prefill_tokens=64, shared_prefixes=True)
    groups = engine.runner._groups
    try:
        for prefix, length, batch in itertools.product(prefixes, lengths, batches):
            fill_rows(engine, two_roles(batch, prefix, length + 64), prefix + length)
            times = []
            for used in (None, groups):
                engine.runner._groups = used
                times.append(decode_seconds(engine, batch, prefix + length, time.perf_counter) * 1e3)
            for slot in range(batch):
                engine.scheduler.rows.end(slot)
            figures[f"{prefix} + {length}, batch {batch}"] = {"row by row": times[0], "shared": times[1]}
            results.keep()
            say(
                f"prefix {prefix}, then {length}, batch {batch:4d}: {times[0]:7.3f} ms a step row by row,"
                f" {times[1]:7.3f} shared, {times[0] / times[1]:.2f} times"
            )
    finally:
        asyncio.run(engine.close())
    del engine, groups
    corpus, episodes = Corpus(30_000), scripts(48, rollouts)
    for name, shared in (("row by row", False), ("shared", True)):
        free(device)
        engine = make(source, device, cache_tokens=600_000, shared_prefixes=shared)
        try:
            for run in ("the first time", "again"):
                engine.refresh()
                engine.runner.steps = engine.runner.shared_steps = 0
                found = asyncio.run(overlapped(engine, corpus, episodes, prompt_words=PROMPT_WORDS))
                say(
                    f"rollout 48 × {rollouts}, {name}, {run}: {found.seconds:.2f} s,"
                    f" {engine.runner.steps} decode steps, {engine.runner.shared_steps} of them shared"
                )
            figures[f"rollout, {name}"] = found.seconds
            results.keep()
        finally:
            asyncio.run(engine.close())
        del engine


def two_roles(batch: int, prefix: int, own: int) -> np.ndarray[Any, Any]:
    """Block tables [batch, blocks]: rows of two roles in turn, each with its prompt and blocks of its own."""
    shared, alone = prefix // 16, -(-(own + prefix % 16) // 16)
    order = np.random.default_rng(0).permutation(2 * shared + batch * alone) + 1
    prompts = order[: 2 * shared].reshape(2, shared)[np.arange(batch) % 2]
    return np.concatenate([prompts, order[2 * shared :].reshape(batch, alone)], axis=1)
