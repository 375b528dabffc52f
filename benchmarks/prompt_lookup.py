"""Prompt lookup in the embedded engine: what checking guessed tokens costs, and what it gains in turns and questions.

    python benchmarks/prompt_lookup.py [--models smollm2,qwen-0.5b,qwen-1.5b] [--sample 3] [--rounds 2] [--threads 2]

CoDA answers two-hop questions about the example documents in turn with an engine that guesses and one that does not;
both must write the same. Then every turn of these episodes is written again by both, its context already read: the
ratio of their computing times is the gain in writing, of all turns, of executors' turns after documents (`refine` and
`result`, which copy from them) and of the turn that gains least. Seconds are computing time of all threads, which hold
while other programs run. A pass of n tokens over a pass of one is what checking n - 1 guesses costs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable
from typing import Any, NamedTuple

from _asking import desk
from two_hop import EXAMPLES, QUESTIONS

READ, SIZES = 384, (1, 2, 3, 4, 8)


class Timed(NamedTuple):
    """One turn, written with guesses and without: CPU seconds."""

    copies: bool
    """An executor's turn after documents."""
    tokens: int
    guessing: float
    plain: float


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench prompt-lookup", description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="smollm2,qwen-0.5b,qwen-1.5b", help="known models")
    parser.add_argument("--sample", type=int, default=3, help="questions")
    parser.add_argument("--rounds", type=int, default=2, help="how often each turn is written again")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args(argv)
    figures: dict[str, Any] = {}
    ratios: dict[str, float] = {}
    for name in args.models.split(","):
        cost = _costs(name, args.threads)
        seconds, turns = asyncio.run(_compare(name, args.threads, args.sample, args.rounds))
        gains = sorted(turn.plain / turn.guessing for turn in turns)
        copied = [turn for turn in turns if turn.copies]
        figures[name] = {"pass, CPU s": cost, "question, CPU s": seconds, "turns": [turn._asdict() for turn in turns]}
        ratios |= {f"{name}: a pass of {n} over a pass of one": cost[n] / cost[1] for n in SIZES[1:]}
        ratios[f"{name}: gain in writing, {sum(t.tokens for t in turns)} tokens of {len(turns)} turns"] = _gain(turns)
        if copied:
            ratios[f"{name}: gain in {len(copied)} executor turns after documents"] = _gain(copied)
        ratios[f"{name}: gain in the turn that gains least"] = gains[0]
        ratios[f"{name}: gain in whole questions"] = seconds["plain"] / seconds["guessing"]
    return {"name": "prompt-lookup", "figures": figures, "ratios": ratios}


def _gain(turns: list[Timed]) -> float:
    return sum(turn.plain for turn in turns) / sum(turn.guessing for turn in turns)


def _costs(name: str, threads: int) -> dict[int, float]:
    """CPU seconds of a pass of n tokens after 384."""
    from subquest.engine.embedded.llama_cpp import open_library
    from subquest.engine.embedded.model import Model, Stretch
    from subquest.engine.embedded.quantised import embedded_files, merged_files
    from subquest.models import default_adapter, resolve

    lora = default_adapter(name)
    file, adapter = embedded_files(lora) if name == "smollm2" else merged_files(resolve(name), lora)
    model = Model(open_library(), file, adapter=adapter, cells=1024, sequences=1, batch=READ, threads=threads)
    tokens = [100 + n % 128 for n in range(READ)]
    model.step([Stretch(0, 0, tokens, 0)])
    cost: dict[int, float] = {}
    for size in SIZES * 4:
        start = time.process_time()
        for _ in range(4):
            model.drop(0, READ)
            model.step([Stretch(0, READ, tokens[:size], size)])
        cost[size] = min(cost.get(size, 1e9), (time.process_time() - start) / 4)
    model.free()
    return cost


async def _compare(name: str, threads: int, sample: int, rounds: int) -> tuple[dict[str, float], list[Timed]]:
    """CPU seconds of all questions with guesses and without, and their turns, written again by both."""
    import subquest as sq
    from subquest.engine.embedded import EmbeddedEngine
    from subquest.engine.embedded.cell_cache import CacheEntry
    from subquest.engine.embedded.engine import perform
    from subquest.engine.embedded.scheduler import Job
    from subquest.engine.interface import Sampling

    path = None if name == "smollm2" else name
    engines = {
        kind: EmbeddedEngine(
            path, adapter="default", threads=threads, save_prompts=False, prompt_lookup=kind == "guessing"
        )
        for kind in ("guessing", "plain")
    }

    async def written_again(kind: str, ids: list[int], most: int) -> tuple[float, Any]:
        scheduler, entry = engines[kind].scheduler, CacheEntry()
        await perform(scheduler, lambda done: Job(entry, list(ids), Sampling(), 1, done, choices=(0,)))
        timed = await _cpu(perform(scheduler, lambda done: Job(entry, list(ids), Sampling(), most, done)))
        scheduler.release(entry, 0)
        return timed

    seconds = dict.fromkeys(engines, 0.0)
    turns = []
    with desk() as place:
        place.run("index", "build", str(EXAMPLES), "--out", "docs.sq")
        with sq.Index.open(place.folder / "docs.sq") as index:
            agents = {kind: sq.CoDA(engine, index) for kind, engine in engines.items()}
            for number, question in enumerate(list(QUESTIONS)[:sample]):
                episodes = {}
                for kind in sorted(agents, reverse=number % 2 == 0):
                    if number == 0:  # the roles' prompts are read once
                        await agents[kind].solve(question)
                    spent, episodes[kind] = await _cpu(agents[kind].solve(question))
                    seconds[kind] += spent
                if len({episode.answer for episode in episodes.values()}) > 1:
                    print(f"{name}: the answers differ: {[e.answer for e in episodes.values()]}", file=sys.stderr)
                for copies, ids, most in _turns(episodes["plain"]):
                    best = dict.fromkeys(engines, 1e9)
                    wrote = set()
                    for kind in (*engines,) * rounds:
                        spent, outcome = await written_again(kind, ids, most)
                        best[kind] = min(best[kind], spent)
                        wrote.add((outcome.ids, outcome.logprobs))
                    if len(wrote) > 1:
                        raise SystemExit(f"{name}: a turn was written differently with guesses")
                    turns.append(Timed(copies, len(outcome.ids), **best))
    for engine in engines.values():
        await engine.close()
    return seconds, turns


async def _cpu(work: Awaitable[Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = await work
    return time.process_time() - start, result


def _turns(episode: Any) -> list[tuple[bool, list[int], int]]:
    """Of every turn: whether an executor wrote it after documents, the tokens before it, and the number of its own."""
    found = []
    for context in episode.trajectories:
        ids: list[int] = []
        after = ""
        for segment in context.segments:
            if segment.kind == "agent":
                found.append((context.role == "executor" and "<documents>" in after, list(ids), len(segment.token_ids)))
            ids += segment.token_ids
            after = segment.text
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:]), indent=2))
