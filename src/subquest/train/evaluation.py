"""Held-out evaluation during training, and the choice of the best checkpoint: on dev questions, never on test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..evaluate.score import score
from ..record import Question
from ..systems.base import System
from .policy import Policy
from .ranks import ALONE, Ranks
from .rollouts import Place, place_seed, roll_out
from .run import TrainRun

REPORTED = ("em", "f1", "forced", "searches", "completion_tokens")


class Evaluator:
    """Runs the dev questions greedily and keeps the weights that do best by F1."""

    def __init__(
        self, run: TrainRun, policy: Policy, greedy: System[Any], dev: Sequence[Question], *, ranks: Ranks = ALONE
    ) -> None:
        self.run, self.policy, self.greedy, self.ranks = run, policy, greedy, ranks
        self.dev = dev[: run.recipe.evaluate_questions]
        self.best = -1.0

    async def evaluate(self, step: int) -> dict[str, float]:
        """Figures named `dev_...`, by hops and by set too; empty without dev questions."""
        if not self.dev:
            return {}
        recipe = self.run.recipe
        places = [Place(q, place_seed(recipe.seed, n, 0), f"dev-{step}-{n}") for n, q in enumerate(self.dev)]
        episodes = await roll_out(self.greedy, self.ranks.share(places), concurrency=recipe.rollout.concurrency)
        mine = [(e.question.hops, e.question.dataset, score(e)) for e in episodes]
        scored = [one for part in self.ranks.gather(mine) for one in part]
        figures = {f"dev_{m}": _mean(s[m] for _, _, s in scored) for m in REPORTED}
        for hops in sorted({hops for hops, _, _ in scored if hops}):
            figures[f"dev_em_{hops}hop"] = _mean(s["em"] for h, _, s in scored if h == hops)
        sets = sorted({dataset for _, dataset, _ in scored})
        for name in sets if len(sets) > 1 else []:
            figures[f"dev_em_{name}"] = _mean(s["em"] for _, d, s in scored if d == name)
        if figures["dev_f1"] > self.best:
            self.best = figures["dev_f1"]
            self.run.save_best(self.policy, {"step": step, **figures})
        return figures


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)
