"""From a recipe to a running trainer."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from ..rewards import load as load_reward
from .data import Material, load_material, open_search
from .recipe import Recipe
from .rl import RLTrainer
from .run import TrainRun
from .setup import load_source, make_engine, make_policy, make_system
from .sft import SFTTrainer, gold_traces
from .stream import Stream

Watch = Callable[[int, Mapping[str, float]], None]


async def train(
    recipe: Recipe,
    out: str | Path,
    *,
    minutes: float | None = None,
    device: str = "",
    say: Callable[[str], None] = lambda text: None,
    watch: Watch | None = None,
) -> TrainRun:
    """Run a recipe, or go on with it where `out` already holds its run; stops in time where `minutes` are given."""
    run = TrainRun(out, recipe, minutes=minutes)
    place = torch.device(device or ("cuda:0" if torch.cuda.is_available() else "cpu"))
    dev = load_material(recipe.dev) if recipe.dev else Material([], [])
    material = load_material(recipe.data) if recipe.kind == "rl" else Material([], [])
    say(f"{len(material.questions)} training and {len(dev.questions)} dev questions")
    documents = {d.id: d for d in (*material.documents, *dev.documents)}
    search = open_search(documents.values(), run.folder / "index")
    source = load_source(recipe.model.path, [d.text for d in dev.documents[:200]])
    policy = make_policy(recipe.model, source, device=place, seed=recipe.seed)
    engine = make_engine(recipe, source, device=place)
    greedy = make_system(recipe, engine, search, temperature=0.0)
    trainer: SFTTrainer | RLTrainer
    try:
        if recipe.kind == "sft":
            traces, rejected = gold_traces(recipe, source, workers=os.cpu_count() or 1)
            say(f"{len(traces)} gold traces; without one: {dict(rejected)}")
            trainer = SFTTrainer(run, policy, engine, greedy, traces, dev.questions, watch=watch)
        else:
            system = make_system(recipe, engine, search, temperature=recipe.rollout.temperature)
            questions = Stream(material.questions, recipe.seed)
            reward = load_reward(recipe.reward or recipe.system)
            trainer = RLTrainer(run, policy, engine, system, greedy, questions, dev.questions, reward, watch=watch)
        await trainer.train()
    finally:
        await engine.close()
        search.close()
        run.close()
    return run
