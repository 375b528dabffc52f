"""What fits on this device: memory and speed of one optimiser step, measured over shapes, ranks and micro-batches.

    subquest bench fits --shapes 1.5b,7b --ranks 16,0                    on a GPU: a table of peak memory and seconds
    subquest bench fits --shapes tiny --ranks 4,0 --micro-tokens 256     on a CPU: to try the script
    subquest bench fits --shapes 7b --ranks 16 --limit-gb 80             what would fit on a smaller GPU

A row is a whole policy update (loss with entropy, backward pass, AdamW) on one micro-batch of trajectories of about
1,000 tokens, a quarter of them written by the policy, beside a rollout engine that shares the base weights and has a
cache of `--cache-tokens`. Rank 0 trains all weights. `--checkpointing both` measures each row with and without
activation checkpointing (`model.checkpointing`). Weights are random; memory and speed do not depend on their values.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from _micro_batch import micro_batch
from _options import COUNT, existing_device, several
from _results import Results, add_options
from _rollout_workload import tokenizer
from _shapes import SHAPES, lazy_source
from _timing import PeakMemory, device_name, synchronise

from subquest.engine.torch import Source
from subquest.errors import UsageError
from subquest.train.components import make_engine, make_policy
from subquest.train.loss import LOSSES
from subquest.train.optimiser import Optimiser
from subquest.train.policy import Policy
from subquest.train.recipe import DataPart, ModelPart, OptimiserPart, Recipe, RolloutPart

CHECKPOINTING = {"off": (False,), "on": (True,), "both": (False, True)}


def say(*words: object) -> None:
    print(*words, file=sys.stderr, flush=True)


class Bench:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.device = torch.device(args.device)
        self.rows: list[dict[str, Any]] = []

    def measure(self) -> Iterator[dict[str, Any]]:
        """One row after the other; what does not fit says so."""
        for shape in self.args.shapes:
            for rank in self.args.ranks:
                try:
                    yield from self._rows(shape, rank)
                except _OUT_OF_MEMORY as error:
                    _must_be_memory(error)
                    yield self._row(shape, rank, None, None)
                self._free()

    def _rows(self, shape: str, rank: int) -> Iterator[dict[str, Any]]:
        source = lazy_source(shape, tokenizer(), self.device, torch.bfloat16 if self._cuda else torch.float32)
        recipe = Recipe(
            name="fits",
            kind="rl",
            model=ModelPart("", rank=rank),
            data=(DataPart(""),),
            rollout=RolloutPart(cache_tokens=self.args.cache_tokens),
        )
        policy = make_policy(recipe.model, source, device=self.device, seed=0)
        engine = make_engine(recipe, source, device=self.device, policy=policy)
        try:
            for tokens in self.args.micro_tokens:
                for checkpointing in CHECKPOINTING[self.args.checkpointing]:
                    policy.checkpointing = checkpointing
                    found = self._step(policy, source, tokens)
                    self._free()
                    yield self._row(shape, rank, tokens, checkpointing) | found
        finally:
            asyncio.run(engine.close())

    def _step(self, policy: Policy, source: Source, tokens: int) -> dict[str, Any]:
        """The second of two optimiser steps: the first one makes Adam's moments."""
        batch = micro_batch(tokens, source.architecture.vocabulary, longest=1000, written=4)
        optimiser = Optimiser(policy, OptimiserPart(micro_tokens=2 * tokens, learning_rate=1e-9), 10)
        try:
            for _ in range(2):
                with PeakMemory(self.device) as memory:
                    start = time.perf_counter()
                    optimiser.policy_step(batch, LOSSES["grpo"], temperature=1.0, old=None, reference=None)
                    synchronise(self.device)
                    seconds = time.perf_counter() - start
            if optimiser.micro_tokens < 2 * tokens:  # it went on with smaller ones
                return {}
            return {"peak_gb": memory.gb, "seconds": seconds, "tokens_s": tokens / seconds}
        except _OUT_OF_MEMORY as error:
            _must_be_memory(error)
            optimiser.adam.zero_grad(set_to_none=True)
            return {}

    def _row(self, shape: str, rank: int, tokens: int | None, checkpointing: bool | None) -> dict[str, Any]:
        return {"shape": shape, "rank": rank, "micro_tokens": tokens, "checkpointing": checkpointing, "peak_gb": None}

    @property
    def _cuda(self) -> bool:
        return self.device.type == "cuda"

    def _free(self) -> None:
        gc.collect()
        if self._cuda:
            torch.cuda.empty_cache()


_OUT_OF_MEMORY = (torch.OutOfMemoryError, RuntimeError)


def _must_be_memory(error: BaseException) -> None:
    """Raise what is not a lack of memory: on a CPU torch says so in words alone."""
    if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
        raise error


def cells(row: dict[str, Any]) -> list[str]:
    fits = row["peak_gb"] is not None
    size = "weights" if row["micro_tokens"] is None else f"{row['micro_tokens']:,}"
    speed = [f"{row['peak_gb']:.1f}", f"{row['seconds']:.2f}", f"{row['tokens_s']:,.0f}"] if fits else []
    how = {None: "", True: "yes", False: "no"}[row["checkpointing"]]
    return [row["shape"], str(row["rank"] or "all"), size, how, *(speed or ["out of memory", "", ""])]


HEADINGS = ("shape", "rank", "micro_tokens", "checkpointing", "peak GB", "seconds", "tokens/s")


def main(argv: list[str]) -> dict[str, Any]:
    cuda = torch.cuda.is_available()
    parser = argparse.ArgumentParser(
        prog="subquest bench fits", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", type=existing_device, default="cuda" if cuda else "cpu")
    parser.add_argument("--shapes", default="1.5b,7b" if cuda else "tiny", help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--ranks", type=several(0), default="16,0", help="LoRA ranks; 0 trains all weights")
    parser.add_argument("--micro-tokens", type=several(16), default="8192,16384,32768" if cuda else "256")
    parser.add_argument("--checkpointing", choices=CHECKPOINTING, default="both")
    parser.add_argument("--cache-tokens", type=COUNT, default=131_072 if cuda else 4096, help="of the rollout engine")
    parser.add_argument("--limit-gb", type=float, default=0.0, help="use no more of the GPU's memory than this")
    add_options(parser)
    args = parser.parse_args(argv)
    args.shapes = args.shapes.split(",")
    if unknown := [shape for shape in args.shapes if shape not in SHAPES]:
        raise UsageError(f"there is no shape {unknown[0]!r}; there are {', '.join(SHAPES)}")
    bench = Bench(args)
    if args.limit_gb and bench._cuda:
        torch.cuda.set_per_process_memory_fraction(
            min(1.0, args.limit_gb * 1e9 / torch.cuda.get_device_properties(bench.device).total_memory)
        )
    results = Results("fits", args)
    rows: list[dict[str, Any]] = []
    results.keep(device=device_name(bench.device), limit_gb=args.limit_gb or None, rows=rows)
    say("| " + " | ".join(HEADINGS) + " |\n" + "|---" * len(HEADINGS) + "|")
    with results.limited():
        for row in bench.measure():
            rows.append(row)
            say("| " + " | ".join(cells(row)) + " |")
            results.ratios |= _ratios(rows)
            results.keep()
    return results.as_dict()


def _ratios(rows: list[dict[str, Any]]) -> dict[str, float]:
    """What checkpointing saves and costs, where both ways fit."""
    found: dict[str, float] = {}
    plain = {(r["shape"], r["rank"], r["micro_tokens"]): r for r in rows if r["checkpointing"] is False}
    for row in rows:
        other = plain.get((row["shape"], row["rank"], row["micro_tokens"]))
        if row["checkpointing"] and row["peak_gb"] and other and other["peak_gb"]:
            name = f"{row['shape']}, rank {row['rank']}, {row['micro_tokens']} tokens: checkpointing"
            found[f"{name}, memory"] = row["peak_gb"] / other["peak_gb"]
            found[f"{name}, time"] = row["seconds"] / other["seconds"]
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
