"""A GRPO step of a tiny model on one CPU thread beside TRL's, all weights trained: same prompts, lengths and reward.

TRL runs in an environment of its own (`_train_trl.py`).
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from _results import Results

from subquest.engine import Sampling
from subquest.record import Episode, Question
from subquest.rewards import Reward, shared
from subquest.systems.registry import get
from subquest.train.components import load_source, make_engine, make_policy
from subquest.train.data import Stream
from subquest.train.recipe import ModelPart, OptimiserPart, Recipe, RolloutPart
from subquest.train.rl import RLTrainer
from subquest.train.run import TrainRun


class Lowercase:
    """The share of lower-case letters, as the TRL side rewards."""

    async def score(self, episodes: Sequence[Episode]) -> list[Reward]:
        texts = [e.trajectories[0].agent_text for e in episodes]
        return [
            shared(e, {"lowercase": sum("a" <= c <= "z" for c in t) / max(len(t), 1)})
            for e, t in zip(episodes, texts, strict=True)
        ]


def compare_tiny(recipe: Recipe, python: str, steps: int, results: Results, say: Callable[..., None]) -> None:
    """Steps of ours, then of TRL in the environment of this Python; the best of each, as other programs only add."""
    torch.set_num_threads(1)
    questions = [Question(str(i), f"What is the number that comes after {i}?", (str(i + 1),)) for i in range(64)]
    texts = [q.question for q in questions]
    spec: dict[str, Any] = {"questions": 4, "group": 8, "max_tokens": 48, "steps": steps}
    ours, prompts = _our_steps(recipe, spec, questions, texts)
    if not Path(python).is_file():
        say(f"no TRL at {python}: build it with tests/parity/run.sh, or name its python with --trl")
        return
    theirs = _their_steps(python, {**spec, "prompts": prompts, "texts": texts})
    found = {}
    for name, run in (("ours", ours), ("trl", theirs)):
        found[name] = {key: min(run[key]) for key in ("seconds", "cpu_seconds")}
        say(f"GRPO step, {name}: {found[name]['seconds']:.3f} s, {found[name]['cpu_seconds']:.3f} CPU-s")
    results.ratios["GRPO step of a tiny model, TRL / ours"] = found["trl"]["cpu_seconds"] / found["ours"]["cpu_seconds"]
    results.keep(grpo_step={**spec, **found})


def _their_steps(python: str, spec: Mapping[str, Any]) -> dict[str, list[float]]:
    source = Path(sys.modules["subquest"].__file__ or "").parents[1]
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spec.json"
        path.write_text(json.dumps(spec), encoding="utf-8")
        script = Path(__file__).resolve().parent / "_train_trl.py"
        done = subprocess.run(
            [python, str(script), str(path)], env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(f"TRL failed:\n{done.stderr[-3000:]}")
    steps: dict[str, list[float]] = json.loads(done.stdout.strip().splitlines()[-1])
    return steps


def _our_steps(
    recipe: Recipe, spec: Mapping[str, Any], questions: Sequence[Question], texts: Sequence[str]
) -> tuple[dict[str, list[float]], list[str]]:
    """Seconds of the steps after the first, and the prompts that they rolled out."""
    recipe = replace(
        recipe,
        system="direct",
        model=ModelPart("random:llama", rank=0),
        loss="grpo",
        rollout=RolloutPart(spec["questions"], spec["group"], max_tokens=spec["max_tokens"]),
        optimiser=OptimiserPart(steps=spec["steps"] + 1, learning_rate=1e-6),
    )
    device = torch.device("cpu")
    source = load_source(recipe.model.path, texts)
    policy = make_policy(recipe.model, source, device=device, seed=0)
    engine = make_engine(recipe, source, device=device, policy=policy)
    system = get("direct")(engine, sampling=Sampling(max_tokens=spec["max_tokens"], temperature=1.0, logprobs=True))
    laps: dict[str, list[float]] = {"seconds": [], "cpu_seconds": []}
    prompts: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        run = TrainRun(folder, recipe)
        trainer = RLTrainer(run, policy, engine, system, system, Stream(questions, 0), (), Lowercase())

        async def steps() -> None:
            for number in range(spec["steps"] + 1):
                start = time.perf_counter(), time.process_time()
                _, episodes = await trainer.one_step()
                if number:
                    laps["seconds"].append(time.perf_counter() - start[0])
                    laps["cpu_seconds"].append(time.process_time() - start[1])
                for e in episodes:
                    prompts[e.question.id] = e.trajectories[0].segments[0].text

        asyncio.run(steps())
        asyncio.run(engine.close())
        run.close()
    return laps, list(prompts.values())
