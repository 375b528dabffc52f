"""What the runtime itself costs: 1,000 CoDA episodes at once on a scripted model, beside the same flow on LangGraph.

    subquest bench overhead                       # or: python benchmarks/overhead.py --episodes 1000

Each side runs in a process of its own, alone, and acts out the same scene (`_overhead_scenario.py`): the same
messages, replies, searches and latency. CPU time is user and system time of the process after imports and a warm-up.
Ours does what it always does: budgets, tag parsing, events, shielding, evidence, segments and full episodes.
LangGraph is installed from PyPI into an environment of its own in the user's cache folder.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import _overhead_scenario as scene

HERE = Path(__file__).resolve().parent
LANGGRAPH = "langgraph>=1,<2"
OURS, OURS_TOKENS = "subquest", "subquest with token ids"
"""Like the peer, the first sees text only. The second also has the scripted model tokenise all it reads and writes."""
PEER, PEER_CHAT = "langgraph", "langgraph with langchain's chat model"


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench overhead", description=__doc__)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3, help="the sides take turns; each figure is its lowest")
    parser.add_argument("--side", choices=["text", "tokens"], help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.side:
        return asyncio.run(measure(args.episodes, token_ids=args.side == "tokens"))
    peer = [peer_python(), str(HERE / "_overhead_langgraph.py")]
    ours = [sys.executable, str(HERE / "overhead.py"), "--episodes", str(args.episodes), "--side"]
    sides = {
        OURS: [*ours, "text"],
        OURS_TOKENS: [*ours, "tokens"],
        PEER: [*peer, "plain", str(args.episodes)],
        PEER_CHAT: [*peer, "chat", str(args.episodes)],
    }
    rounds = [{name: json.loads(_output(command)) for name, command in sides.items()} for _ in range(args.rounds)]
    figures = {name: {key: min(r[name][key] for r in rounds) for key in rounds[0][name]} for name in sides}
    ratios = {
        f"{what}, {peer} / {side}": figures[peer][key] / figures[side][key]
        for what, key in (("CPU per turn", "cpu_us_per_turn"), ("memory per episode", "peak_kb_per_episode"))
        for peer in (PEER, PEER_CHAT)
        for side in (OURS, OURS_TOKENS)
    }
    print(f"{args.episodes} episodes at once, {scene.TURNS} model turns each", file=sys.stderr)
    print(f"{'':38}{'CPU us/turn':>12}{'peak MB':>9}{'kB/episode':>12}", file=sys.stderr)
    for name, figure in figures.items():
        numbers = f"{figure['cpu_us_per_turn']:12.0f}{figure['peak_mb']:9.0f}{figure['peak_kb_per_episode']:12.1f}"
        print(f"{name:38}{numbers}", file=sys.stderr)
    return {"name": "overhead", "figures": figures, "ratios": ratios}


async def measure(episodes: int, *, token_ids: bool) -> dict[str, Any]:
    from subquest.engine.scripted import Context, ScriptedEngine
    from subquest.record import Document, Hit
    from subquest.systems.coda import CoDA

    class Stub:
        name = "stub"
        hits = tuple(Hit(Document(*document), 1.0) for document in scene.DOCUMENTS)

        async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
            return [list(self.hits[:k]) for _ in queries]

    def reply(context: Context) -> str:
        return scene.planner_reply(context.turn) if context.role == "planner" else scene.executor_reply(context.turn)

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "planner.md").write_text(f"{scene.PLANNER}\n--- user\n$question\n")
        Path(folder, "executor.md").write_text(f"{scene.EXECUTOR}\n--- user\n$task\n")
        engine = ScriptedEngine(reply, latency=scene.LATENCY, token_ids=token_ids)
        return await _measured(CoDA(engine, Stub(), prompts=folder), episodes)


async def _measured(agent: Any, episodes: int) -> dict[str, Any]:
    await asyncio.gather(*(agent.solve(scene.QUESTION) for _ in range(5)))
    before, cpu = scene.peak_mb(), scene.cpu_seconds()
    done = await asyncio.gather(*(agent.solve(scene.QUESTION) for _ in range(episodes)))
    cpu = scene.cpu_seconds() - cpu
    assert all(e.answer == "Town 2, by Ada" and e.usage.model_calls == scene.TURNS for e in done)
    return scene.figures(episodes, cpu, before)


def peer_python() -> str:
    """The interpreter of an environment that has LangGraph, made on first use."""
    from subquest.models import cache_folder

    folder = cache_folder() / "bench" / "langgraph"
    python = folder / "bin" / "python"
    if not python.exists() or subprocess.run([python, "-c", "import langgraph.graph"], capture_output=True).returncode:
        print(f"installing {LANGGRAPH} into {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", LANGGRAPH], check=True, stdout=sys.stderr)
    return str(python)


def _output(command: list[str]) -> str:
    quiet = {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **quiet})
    return done.stdout.strip().splitlines()[-1]


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
