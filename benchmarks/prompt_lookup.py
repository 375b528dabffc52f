"""What guessing tokens ahead (prompt lookup) could gain on this machine: the cost of checking n tokens in one pass.

    python benchmarks/prompt_lookup.py [--model qwen-1.5b] [--threads 2] [--rounds 4] [--trace EPISODE.json ...]

Prompt lookup guesses that the model goes on copying from its context and checks the guesses in one pass. Such a pass of
n tokens yields n tokens if every guess is right, and one if the first is wrong. So n tokens over the cost of the pass,
in passes of one token, is the most it can gain. Where that is near 1, guessing is not worth its code.

With episodes of `subquest ask --trace`, what it would have gained on their turns: the tokens that followed the latest
earlier occurrence of the last tokens are the guess, and what the model wrote says how many of them are right.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

READ, SIZES = 384, (1, 2, 3, 4, 6, 8, 16)
MATCHED = (4, 3, 2)
"""Last tokens that must have occurred before, the longest first."""


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench prompt-lookup", description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2", help="a known model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--trace", type=Path, nargs="+", default=[], help="episodes of the model")
    args = parser.parse_args(argv)
    cost = _costs(args.model, args.threads, args.rounds)
    ratios = {f"most gain, {n} tokens a pass": n / (cost[n] / cost[1]) for n in SIZES[1:]}
    for n in SIZES[1:] if args.trace else ():
        passes = [size for file in args.trace for size in passes_of(json.loads(file.read_text()), n)]
        written = sum(right for _, right in passes)
        ratios[f"gain on the episodes, up to {n} tokens a pass"] = written * cost[1] / sum(cost[w] for w, _ in passes)
    return {"name": "prompt-lookup", "figures": {"cpu_seconds": cost}, "ratios": ratios}


def _costs(name: str, threads: int, rounds: int) -> dict[int, float]:
    """CPU seconds of a pass of n tokens; of sizes between those measured, by interpolation."""
    from subquest.engine.embedded.llama_cpp import open_library
    from subquest.engine.embedded.model import Model, Stretch
    from subquest.engine.embedded.quantised import embedded_files, merged_files
    from subquest.models import default_adapter, resolve

    lora = default_adapter(name)
    file, adapter = embedded_files(lora) if name == "smollm2" else merged_files(resolve(name), lora)
    model = Model(open_library(), file, adapter=adapter, cells=1024, sequences=1, batch=READ, threads=threads)
    tokens = [100 + n % 128 for n in range(READ)]
    model.step([Stretch(0, 0, tokens, False)])
    cost: dict[int, float] = {}
    for _ in range(rounds):
        for size in SIZES:
            start = time.process_time()
            for _ in range(4):
                model.drop(0, READ)
                model.step([Stretch(0, READ, tokens[:size], True)])
            cost[size] = min(cost.get(size, 1e9), (time.process_time() - start) / 4)
    model.free()
    for low, high in pairwise(SIZES):
        for n in range(low + 1, high):
            cost[n] = cost[low] + (cost[high] - cost[low]) * (n - low) / (high - low)
    return cost


def passes_of(episode: dict[str, Any], most: int) -> list[tuple[int, int]]:
    """The passes that would have written an episode's turns: the tokens in each, and how many it would have kept."""
    found = []
    for context in episode["trajectories"]:
        ids: list[int] = []
        for segment in context["segments"]:
            written = segment["token_ids"] if segment["kind"] == "agent" else []
            at = 0
            while at < len(written):
                guess = guessed([*ids, *written[:at]], most - 1)
                right = next(
                    (n for n, token in enumerate(guess) if written[at + n : at + n + 1] != [token]), len(guess)
                )
                kept = min(right + 1, len(written) - at)
                found.append((1 + len(guess), kept))
                at += kept
            ids += segment["token_ids"]
    return found


def guessed(ids: list[int], most: int) -> list[int]:
    """What followed the latest earlier occurrence of the last tokens; empty if they did not occur."""
    for n in MATCHED:
        last = ids[-n:]
        for at in range(len(ids) - n - 1, -1, -1):
            if ids[at : at + n] == last:
                return ids[at + n : at + n + most]
    return []


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:]), indent=2))
