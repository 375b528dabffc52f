"""Attention of one layer by the shape of its kernels: what `attention_kernels` and `step.part_length` were chosen by.

Rows decode in contexts of 300 to 1,500 tokens, or of the lengths that are asked for; then prompts of three searches are
computed beside them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from _results import Results
from _shapes import SHAPES

Say = Callable[..., None]
CALLS = 6
"""Attentions in a graph that is timed as a whole."""
PARTS = (128, 256, 512, 1024, 2048)
DECODE = ((32, 1, 2), (32, 1, 3), (64, 1, 3), (64, 2, 2), (64, 2, 3), (64, 4, 3), (128, 4, 2))
"""Tokens of a tile, warps, tiles under way."""
PROMPTS = ((), ((600, 340),) * 3, ((1200, 360),))
"""Positions and tokens of prompts beside the rows."""
_NAMES = ("TILE", "num_warps", "num_stages")


def sweep(
    shape: str, batches: Sequence[int], contexts: Sequence[int], results: Results, say: Say, bandwidth: float
) -> None:
    """The fastest shapes for each number of rows, and what the engine takes."""
    from subquest.engine.torch import attention_kernels as kernels
    from subquest.engine.torch.step import part_length

    _, _, width, _, _, heads, kv_heads, _ = SHAPES[shape]
    size = width // heads
    usual = kernels._decode_shape
    figures = results.figures.setdefault("attention_us", {})
    for rows, context in itertools.product(batches, contexts or (0,)):
        lengths = [context] * rows if context else np.random.default_rng(rows).integers(300, 1500, rows).tolist()
        longest = max(lengths) + 1
        least = sum(lengths) * kv_heads * size * 4 / bandwidth * 1e6
        for prompts in PROMPTS:
            arguments = _layer(lengths, prompts, heads, kv_heads, size)
            step = arguments[3]
            found = {}
            try:
                for part in PARTS:
                    step.part, step.splits = part, 1 << (-(-longest // part) - 1).bit_length()
                    for tried in DECODE:
                        kernels._decode_shape = lambda *_, tried=tried: dict(zip(_NAMES, tried, strict=True))
                        found[part, tried] = _microseconds(lambda: kernels.attend(*arguments, size**-0.5))  # noqa: B023
            finally:
                kernels._decode_shape = usual
            step.part = part_length(rows, kv_heads)
            step.splits = 1 << (-(-longest // step.part) - 1).bit_length()
            ours = _microseconds(lambda: kernels.attend(*arguments, size**-0.5))  # noqa: B023
            best = sorted(found.items(), key=lambda item: item[1])[:4]
            name = f"{rows} rows of {context or '300 to 1,500'}" + (
                f" beside prompts of {len(prompts)} × {prompts[0][1]} tokens" if prompts else ""
            )
            figures[name] = {"least": least, "ours": ours} | {f"parts of {p}, {t}": us for (p, t), us in best}
            results.keep()
            fastest = ", ".join(f"{us:.1f} in parts of {p} with {t}" for (p, t), us in best)
            say(f"{name}: {ours:.1f} µs, reading takes {least:.1f}; fastest {fastest}")


def _layer(
    lengths: Sequence[int], prompts: Sequence[tuple[int, int]], heads: int, kv_heads: int, size: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Any]:
    """Queries, keys, values and the step, of noise."""
    from subquest.engine.torch.step import TILE, Step

    def ints(values: Sequence[Any]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device="cuda")

    rows, width = len(lengths), max(1600, *lengths) // 16 + 1
    blocks = (rows + len(prompts)) * width
    noise = torch.randn((2, blocks + 1, kv_heads, 16, size), device="cuda", dtype=torch.bfloat16)
    keys, values = noise.transpose(2, 3)
    tables = (torch.randperm(blocks, device="cuda") + 1).view(-1, width).int()
    positions, slots, tiles = list(lengths), list(range(rows)), []
    for number, (position, count) in enumerate(prompts, rows):
        at = len(positions)
        tiles += [(number, at + i, position + i, min(TILE, count - i)) for i in range(0, count, TILE)]
        positions += range(position, position + count)
        slots += [number] * count
    queries = torch.randn((len(positions), heads + 2 * kv_heads, size), device="cuda", dtype=torch.bfloat16)
    packed = ints(tiles) if tiles else None
    step = Step(ints(positions), ints(positions), ints(slots), tables, packed, rows=rows if tiles else 0)
    return queries[:, :heads], keys, values, step


def _microseconds(work: Callable[[], object]) -> float:
    """The fastest of some replays, for each call."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.inference_mode(), torch.cuda.stream(stream):
        work()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(CALLS):
                work()
        times = []
        for _ in range(4):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            start.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
    return float(min(times)) / CALLS * 1e3
