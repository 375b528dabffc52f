"""The tools and HiRA: sandbox start-up, twenty sandboxes at once, and what HiRA costs against WebThinker and ReAct.

    subquest bench tools

Part one starts sandboxes. Part two answers 50 generated web questions of two to four hops on a loopback site, with the
same search and pages for all systems and one oracle in every seat (`_web_oracle.py`); tokens are the scripted engine's
words. It measures what HiRA's paper shows in figure 5: the length of the reasoning and the interactions with the world.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from typing import Any

from _chain_oracle import question, world
from _web_oracle import oracle, serve

from subquest.engine.scripted import ScriptedEngine
from subquest.record import Episode
from subquest.systems import registry
from subquest.tools.sandbox import Sandbox
from subquest.tools.websearch import SearXNG

SYSTEMS = ("hira", "webthinker", "react-tools")


async def start_ups(rounds: int) -> list[float]:
    """Seconds from nothing to the output of the first call."""
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        async with Sandbox() as box:
            await box.run("print(1)")
            seconds.append(time.perf_counter() - began)
    return seconds[1:]


async def at_once(count: int) -> float:
    """Seconds until `count` sandboxes that start together have each run code."""

    async def one(number: int) -> str:
        async with Sandbox() as box:
            return (await box.run(f"print({number} ** 2)")).output.strip()

    began = time.perf_counter()
    outputs = await asyncio.gather(*(one(n) for n in range(count)))
    assert outputs == [str(n**2) for n in range(count)]
    return time.perf_counter() - began


async def compare(questions: int) -> dict[str, dict[str, float]]:
    documents = world(seed=11, chains=questions, words=120)
    asked = [question(documents, n, 2 + n % 3) for n in range(questions)]
    table: dict[str, dict[str, float]] = {}
    with serve(documents) as url:
        os.environ["SUBQUEST_ALLOW_HOSTS"] = url.removeprefix("http://")
        for name in SYSTEMS:
            web = SearXNG(url, per_second=10_000)
            system: Any = registry.get(name)
            episodes = [await system(ScriptedEngine(oracle), web=web).solve(text) for text, _ in asked]
            right = sum(e.answer == answer for e, (_, answer) in zip(episodes, asked, strict=True))
            table[name] = {"right": right / questions, **_costs(episodes)}
    return table


def _costs(episodes: list[Episode]) -> dict[str, float]:
    mean = statistics.fmean
    return {
        "interactions": mean(e.usage.searches + e.usage.tool_calls for e in episodes),
        "written": mean(e.usage.completion_tokens for e in episodes),
        "read": mean(e.usage.prompt_tokens - e.usage.cached_tokens for e in episodes),
        "main_context": mean(_peak(e, root=True) for e in episodes),
        "peak_context": mean(_peak(e, root=False) for e in episodes),
        "calls": mean(e.usage.model_calls for e in episodes),
    }


def _peak(episode: Episode, *, root: bool) -> int:
    return max(t.usage.peak_context for t in (episode.roots if root else episode.trajectories))


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench tools", description=__doc__)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=31, help="sandboxes started one after the other")
    args = parser.parse_args(argv)
    seconds = sorted(asyncio.run(start_ups(args.rounds)))
    p50, p95 = statistics.median(seconds), seconds[int(0.95 * len(seconds))]
    together = asyncio.run(at_once(20))
    print(
        f"sandbox start-up p50 {p50 * 1e3:.0f} ms, p95 {p95 * 1e3:.0f} ms; 20 at once {together:.2f} s", file=sys.stderr
    )
    table = asyncio.run(compare(args.questions))
    columns = list(table["hira"])
    print(f"{'system':<12}" + "".join(f"{c:>14}" for c in columns), file=sys.stderr)
    for name, row in table.items():
        print(f"{name:<12}" + "".join(f"{row[c]:>14.2f}" for c in columns), file=sys.stderr)
    ours = table["hira"]
    ratios = {
        f"hira/{name} {what}": ours[what] / table[name][what]
        for name in SYSTEMS[1:]
        for what in ("interactions", "written", "read", "main_context")
    }
    figures = {"sandbox_p50_ms": p50 * 1e3, "sandbox_p95_ms": p95 * 1e3, "twenty_sandboxes_s": together, **table}
    return {"name": "tools", "figures": figures, "ratios": ratios}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
