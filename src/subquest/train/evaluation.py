"""Held-out evaluation during training, and the choice of the best checkpoint: on dev questions, never on test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..evaluate.score import score
from ..record import Question
from ..systems.base import System
from .policy import Policy
from .rollouts import roll_out
from .run import TrainRun

REPORTED = ("em", "f1", "forced", "searches", "completion_tokens")


class Evaluator:
    """Runs the dev questions greedily and keeps the weights that do best by F1."""

    def __init__(self, run: TrainRun, policy: Policy, greedy: System[Any], dev: Sequence[Question]) -> None:
        self.run, self.policy, self.greedy = run, policy, greedy
        self.dev = dev[: run.recipe.evaluate_questions]
        self.best = -1.0

    async def evaluate(self, step: int) -> dict[str, float]:
        """Figures named `dev_...`, by hops too; empty without dev questions."""
        if not self.dev:
            return {}
        recipe = self.run.recipe
        episodes = await roll_out(
            self.greedy, self.dev, group=1, seed=recipe.seed, concurrency=recipe.rollout.concurrency
        )
        scores = [score(e) for e in episodes]
        figures = {f"dev_{m}": sum(s[m] for s in scores) / len(scores) for m in REPORTED}
        for hops in sorted({e.question.hops for e in episodes if e.question.hops}):
            of_hops = [s["em"] for e, s in zip(episodes, scores, strict=True) if e.question.hops == hops]
            figures[f"dev_em_{hops}hop"] = sum(of_hops) / len(of_hops)
        if figures["dev_f1"] > self.best:
            self.best = figures["dev_f1"]
            self.run.save_best(self.policy, {"step": step, **figures})
        return figures
