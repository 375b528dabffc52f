"""What an evaluation costs beyond waiting for the model: throughput against the ideal, and the price of storing traces.

    subquest bench eval                    # 2,000 questions, 50 ms replies, 256 at a time
    subquest bench eval --memory 0         # without the memory over 10,000 questions, which takes longest

Each side runs in a process of its own. Ideal is a machine that does nothing but wait: turns x latency / concurrency.
`stored` is `subquest eval` as it is: episodes with all their events, scored, each on the disk before its worker
begins the next but one; the run is written by a second process, whose CPU time and memory count. `kept nowhere` is the
same without the run store.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import _overhead_scenario as scene

LATENCY = 0.05
SIDES = ("stored", "nowhere")
MEMORY = ("peak_mb", "writer_mb")


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench eval", description=__doc__)
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3, help="the sides take turns; each figure is its best")
    parser.add_argument(
        "--memory", type=int, default=10_000, metavar="N", help="memory over N questions; 0: not at all"
    )
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.side:
        return asyncio.run(measure(args.questions, args.concurrency, stored=args.side == "stored"))
    rounds = [{side: _side(side, args.questions, args.concurrency) for side in SIDES} for _ in range(args.rounds)]
    best = {side: min((r[side] for r in rounds), key=lambda figures: figures["seconds"]) for side in SIDES}
    cpu = {side: min(r[side]["cpu"] for r in rounds) for side in SIDES}
    ideal = args.questions * scene.TURNS * LATENCY / args.concurrency
    figures: dict[str, Any] = {
        "ideal seconds": ideal,
        **{f"{side} {key}": value for side in SIDES for key, value in best[side].items()},
    }
    ratios = {
        "throughput / ideal": ideal / best["stored"]["seconds"],
        "stored / kept nowhere, seconds": best["stored"]["seconds"] / best["nowhere"]["seconds"],
        "stored / kept nowhere, CPU of both processes": cpu["stored"] / cpu["nowhere"],
    }
    if args.memory:
        grown = _side("stored", args.memory, args.concurrency)
        figures |= {"memory questions": args.memory, **{f"memory {key}": grown[key] for key in MEMORY}}
        ratios["peak memory, many / few questions"] = sum(map(grown.get, MEMORY)) / sum(map(best["stored"].get, MEMORY))
        print(f"{args.memory} questions: {' and '.join(f'{grown[key]:.0f}' for key in MEMORY)} MB", file=sys.stderr)
    print(f"{args.questions} questions of {scene.TURNS} turns, {args.concurrency} at a time", file=sys.stderr)
    print(
        f"{'':14}{'seconds':>9}{'CPU s':>9}{'peak MB':>9}{'writer MB':>11}\n{'ideal':14}{ideal:9.2f}", file=sys.stderr
    )
    for side in SIDES:
        f = best[side]
        print(f"{side:14}{f['seconds']:9.2f}{f['cpu']:9.2f}{f['peak_mb']:9.0f}{f['writer_mb']:11.0f}", file=sys.stderr)
    return {"name": "eval", "figures": figures, "ratios": {name: round(value, 3) for name, value in ratios.items()}}


async def measure(questions: int, concurrency: int, *, stored: bool) -> dict[str, float]:
    from subquest.engine.scripted import Context, ScriptedEngine
    from subquest.evaluate import evaluate, jobs_for
    from subquest.record import Document, Hit, Question
    from subquest.runs import RunStore
    from subquest.systems.coda import CoDA

    class Stub:
        name = "stub"
        hits = tuple(Hit(Document(*document), 1.0) for document in scene.DOCUMENTS)

        async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
            return [list(self.hits[:k]) for _ in queries]

    class Nowhere:
        def questions(self) -> list[Any]:
            return []

        summaries = questions

        async def add_episode(self, episode: Any, *, attempt: int, scores: Mapping[str, float]) -> None:
            pass

    def reply(context: Context) -> str:
        return scene.planner_reply(context.turn) if context.role == "planner" else scene.executor_reply(context.turn)

    asked = [
        Question(f"q{i}", f"{scene.QUESTION} ({i})", ("Town 2, by Ada",), dataset="bench") for i in range(questions)
    ]
    systems = {"coda": CoDA(ScriptedEngine(reply, latency=LATENCY, token_ids=False), Stub())}
    with tempfile.TemporaryDirectory() as folder:
        store: Any = RunStore.create(Path(folder) / "run", own_process=True) if stored else Nowhere()
        if stored:
            store.flush()  # until the writing process has started
        start, cpu = time.perf_counter(), scene.cpu_seconds()
        await evaluate(jobs_for(store, {"bench": asked}, systems), systems, store, concurrency=concurrency)
        seconds, cpu = time.perf_counter() - start, scene.cpu_seconds() - cpu
        if stored:
            if store.counts()["episodes"] != questions:
                raise AssertionError("episodes are missing from the store")
            store.close()
    writer = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu += writer.ru_utime + writer.ru_stime
    return {"seconds": seconds, "cpu": cpu, "peak_mb": scene.peak_mb(), "writer_mb": writer.ru_maxrss / 1024}


def _side(side: str, questions: int, concurrency: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--side", side]
    command += ["--questions", str(questions), "--concurrency", str(concurrency)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
